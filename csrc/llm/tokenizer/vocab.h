// vocab.h — the tokens of a tokenizer: their bytes, by id, and their ids, by bytes; and the pairs
// that byte pair encoding joins.
#ifndef ET_LLM_VOCAB_H
#define ET_LLM_VOCAB_H

#include "llm/text/text.h"

#include <string.h>

#define ETI_NO_TOKEN UINT32_MAX

// A slot of the table of tokens: the halves of eti_token_hash, and the id; empty if the id is
// ETI_NO_TOKEN.
typedef struct eti_token_slot {
  uint32_t low, high, id;
} eti_token_slot;

// A slot of the table of pairs: `joined` is the token of left and right; pairs of lower rank are
// joined first. Empty if joined is ETI_NO_TOKEN.
typedef struct eti_pair_slot {
  uint32_t left, right, rank, joined;
} eti_pair_slot;

typedef struct eti_vocab {
  const uint32_t *ends;  // [n] the end of each token's bytes in `bytes`
  const uint8_t *bytes;
  uint32_t n, longest;          // tokens, and the bytes of the longest one
  const eti_token_slot *slots;  // [slot_mask + 1]
  uint32_t slot_mask;
  // Pairs, if n_pairs > 0; else any two neighbours whose bytes are a token are joined, those of the
  // least rank first.
  const eti_pair_slot *pairs;  // [pair_mask + 1]
  uint32_t pair_mask, n_pairs;
  const uint32_t *ranks;  // [n]; NULL: a token's rank is its id
} eti_vocab;

static inline eti_string eti_vocab_text(const eti_vocab *v, uint32_t id) {
  const uint32_t begin = id == 0 ? 0 : v->ends[id - 1];
  return (eti_string){v->bytes + begin, v->ends[id] - begin};
}

static inline uint64_t eti_mix(uint64_t x) {  // the finalizer of MurmurHash3
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDu;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53u;
  return x ^ x >> 33;
}

enum { ETI_EXACT_BYTES = 7 };  // shorter texts are equal if their hashes are

// The number of which n bytes, at most 7, are the lowest ones. Loads may overlap: equal bits meet.
static inline uint64_t eti_few_bytes(const uint8_t *p, size_t n) {
  uint32_t low, high;
  if (n < 4)
    return n == 0
               ? 0
               : p[0] | (uint64_t)p[n / 2] << (8 * (n / 2)) | (uint64_t)p[n - 1] << (8 * (n - 1));
  memcpy(&low, p, sizeof low);
  memcpy(&high, p + n - 4, sizeof high);
  return low | (uint64_t)high << (8 * (n - 4));
}

static inline uint64_t eti_token_hash(eti_string text) {
  uint64_t hash = (uint64_t)text.n << 56;
  size_t at = 0;
  for (; text.n - at > ETI_EXACT_BYTES; at += 8) {
    uint64_t eight;
    memcpy(&eight, text.bytes + at, 8);
    hash = eti_mix(hash ^ eight);
  }
  return eti_mix(hash ^ eti_few_bytes(text.bytes + at, text.n - at));
}

static inline bool eti_slot_has(eti_token_slot slot, uint64_t hash) {
  return slot.low == (uint32_t)hash && slot.high == (uint32_t)(hash >> 32);
}

// eti_vocab_find with the hash of the text, whose slot may have been fetched ahead: tables of great
// vocabularies are in no near cache.
static inline uint32_t eti_vocab_find_hash(const eti_vocab *v, eti_string text, uint64_t hash) {
  if (text.n > v->longest) return ETI_NO_TOKEN;
  for (uint32_t at = (uint32_t)hash;; at++) {
    const eti_token_slot slot = v->slots[at & v->slot_mask];
    if (slot.id == ETI_NO_TOKEN) return ETI_NO_TOKEN;
    if (!eti_slot_has(slot, hash)) continue;
    if (text.n <= ETI_EXACT_BYTES) return slot.id;
    const eti_string token = eti_vocab_text(v, slot.id);
    if (token.n == text.n && memcmp(token.bytes, text.bytes, text.n) == 0) return slot.id;
  }
}

static inline uint64_t eti_vocab_fetch(const eti_vocab *v, eti_string text) {
  const uint64_t hash = eti_token_hash(text);
  __builtin_prefetch(&v->slots[(uint32_t)hash & v->slot_mask]);
  return hash;
}

// The token with these bytes; ETI_NO_TOKEN if there is none.
static inline uint32_t eti_vocab_find(const eti_vocab *v, eti_string text) {
  if (text.n > v->longest) return ETI_NO_TOKEN;
  return eti_vocab_find_hash(v, text, eti_token_hash(text));
}

static inline uint32_t eti_pair_hash(uint32_t left, uint32_t right) {
  return (uint32_t)eti_mix((uint64_t)left << 32 | right);
}

// The pair of two tokens; its `joined` is ETI_NO_TOKEN if they are never joined.
static inline eti_pair_slot eti_vocab_pair(const eti_vocab *v, uint32_t left, uint32_t right) {
  for (uint32_t at = eti_pair_hash(left, right);; at++) {
    const eti_pair_slot slot = v->pairs[at & v->pair_mask];
    if (slot.joined == ETI_NO_TOKEN || (slot.left == left && slot.right == right)) return slot;
  }
}

#endif  // ET_LLM_VOCAB_H
