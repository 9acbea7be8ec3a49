// base64.h — bytes from base64 (RFC 4648).
#ifndef ET_LLM_BASE64_H
#define ET_LLM_BASE64_H

#include "llm/text/text.h"

// Writes the bytes of a text of base64 to `to`, which has room for 3 for each 4 letters; SIZE_MAX
// if it is not base64.
size_t eti_base64(eti_string text, uint8_t *to);

#endif  // ET_LLM_BASE64_H
