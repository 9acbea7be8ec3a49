// bpe.h — byte pair encoding of a word: neighbours are joined, those of the least rank first and
// the leftmost of these, until no two neighbours are a pair.
#ifndef ET_LLM_BPE_H
#define ET_LLM_BPE_H

#include "llm/tokenizer/image.h"

// A token of a word, with the end of its bytes in the word.
typedef struct eti_symbol {
  uint32_t id, end;
} eti_symbol;

// A letter of a text: its code point, or its first byte if it is cut off at the end of the text.
typedef struct eti_letter {
  uint32_t value, bytes;
} eti_letter;

static inline eti_letter eti_letter_at(eti_string text, size_t at) {
  const uint8_t *const p = text.bytes + at;
  const size_t bytes = eti_utf8_bytes(*p);
  if (bytes == 1 || bytes > text.n - at) return (eti_letter){*p, 1};
  return (eti_letter){eti_utf8_at(p), (uint32_t)bytes};
}

// The rank of a pair of neighbours, and the token that they become: ETI_NEVER if they are no pair.
// The left one begins at byte `begin` of the word.
#define ETI_NEVER UINT32_MAX
typedef struct eti_joining {
  uint32_t rank, id;
} eti_joining;

static inline eti_joining eti_joining_of(const eti_vocab *v, const uint8_t *word, uint32_t begin,
                                         eti_symbol left, eti_symbol right) {
  if (v->n_pairs > 0) {
    const eti_pair_slot pair = eti_vocab_pair(v, left.id, right.id);
    return (eti_joining){pair.joined == ETI_NO_TOKEN ? ETI_NEVER : pair.rank, pair.joined};
  }
  const uint32_t id = eti_vocab_find(v, (eti_string){word + begin, right.end - begin});
  if (id == ETI_NO_TOKEN) return (eti_joining){ETI_NEVER, id};
  return (eti_joining){v->ranks == NULL ? id : v->ranks[id], id};
}

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
