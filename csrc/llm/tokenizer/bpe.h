// bpe.h — byte pair encoding of a word: neighbours are joined, those of the least rank first and
// the leftmost of these, until no two neighbours are a pair.
#ifndef ET_LLM_BPE_H
#define ET_LLM_BPE_H

#include "llm/tokenizer/image.h"

// A token of a word, with the end of its bytes in the word.
typedef struct eti_symbol {
  uint32_t id, end;
} eti_symbol;

// A byte of a text, or a letter if tokens have letters. A letter that is cut off at the end has
// the bytes that are left.
typedef struct eti_unit {
  uint32_t value, bytes;
} eti_unit;
eti_unit eti_unit_at(const eti_tokenizer_image *image, eti_string text, size_t at);

// The symbols that joining begins with: bytes, or letters; at most one for each byte of the word.
// A letter that is no token is the tokens of its bytes, or the unknown token, or left out.
size_t eti_bpe_symbols(const eti_tokenizer_image *image, eti_string word, eti_symbol *symbols);

// Bytes of scratch for a word of n symbols, to be aligned to 8.
static inline size_t eti_bpe_scratch_bytes(size_t n) {
  return n * (4 * sizeof(uint32_t) + 3 * sizeof(uint64_t));
}

// Joins n symbols of a word, of which the first one begins at byte `begin`; returns how many are
// left. n is at most 2^31.
size_t eti_bpe_join(const eti_vocab *vocab, const uint8_t *word, uint32_t begin,
                    eti_symbol *symbols, size_t n, void *scratch);

#endif  // ET_LLM_BPE_H
