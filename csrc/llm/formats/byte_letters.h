// byte_letters.h — the letters by which files write the bytes of byte-level tokens.
#ifndef ET_LLM_BYTE_LETTERS_H
#define ET_LLM_BYTE_LETTERS_H

#include "llm/text/text.h"

// Replaces the letters of a byte-level token by its bytes, in place; returns how many these are.
// Texts with other letters are left alone.
size_t eti_letters_to_bytes(uint8_t *text, size_t n);

#endif  // ET_LLM_BYTE_LETTERS_H
