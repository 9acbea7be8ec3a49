// mutate_tokenizer.c — changes a tokenizer's file: a piece of it is repeated, removed or copied to
// another place, a number becomes an extreme one, a name of a part becomes another's. Such files
// keep much of their grammar. A prepared image gets other 32-bit words.
#include "fuzz.h"

#include <string.h>

static const char *const WORDS[] = {
    "\"BPE\"",
    "\"Unigram\"",
    "\"WordPiece\"",
    "\"WordLevel\"",
    "\"Metaspace\"",
    "\"ByteLevel\"",
    "\"Split\"",
    "\"NFKC\"",
    "\"Replace\"",
    "\"Sequence\"",
    "null",
    "true",
    "4294967295",
    "-1",
    "1e308",
    "\\\\p{L}+",
    "(?:a|b)*+",
    "{1,999}",
    "\\u0000",
    "[[",
    "\"Strip\"",
    "\"BertNormalizer\"",
    "[]",
    "{}",
    "\"Precompiled\"",
};

static size_t change_word(uint8_t *bytes, size_t size, uint64_t *random) {
  static const uint32_t EXTREMES[] = {0, 1, 7, 255, 65535, 0x7fffffff, 0x80000000u, 0xffffffffu};
  uint32_t word = EXTREMES[fuzz_random(random) % (sizeof EXTREMES / sizeof EXTREMES[0])];
  const size_t at = (size_t)(fuzz_random(random) % (size / 4)) * 4;
  if (fuzz_random(random) % 3 == 0) word = (uint32_t)(fuzz_random(random) % size);
  memcpy(bytes + at, &word, sizeof word);
  return size;
}

// Puts `n` bytes in the place of `gone` bytes, as far as there is room.
static size_t replace(uint8_t *bytes, size_t size, size_t room, size_t at, size_t gone,
                      const uint8_t *from, size_t n) {
  if (gone > size - at) gone = size - at;
  if (size - gone + n > room) return size;
  memmove(bytes + at + n, bytes + at + gone, size - at - gone);
  memcpy(bytes + at, from, n);
  return size - gone + n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed) {
  uint64_t random = seed;
  uint8_t piece[256];
  if (size < 16) return size;
  if (memcmp(bytes, "ETTK", 4) == 0) return change_word(bytes, size, &random);
  for (uint64_t i = 0, n = 1 + fuzz_random(&random) % 3; i < n; i++) {
    const size_t at = (size_t)(fuzz_random(&random) % size);
    const size_t from = (size_t)(fuzz_random(&random) % size);
    size_t n_piece = 1 + (size_t)(fuzz_random(&random) % (sizeof piece - 1));
    if (n_piece > size - from) n_piece = size - from;
    memcpy(piece, bytes + from, n_piece);
    const char *const word = WORDS[fuzz_random(&random) % (sizeof WORDS / sizeof WORDS[0])];
    switch (fuzz_random(&random) % 4) {
      case 0:
        size = replace(bytes, size, room, at, 0, piece, n_piece);
        break;
      case 1:
        size = replace(bytes, size, room, at, n_piece, piece, 0);
        break;
      case 2:
        size = replace(bytes, size, room, at, n_piece, piece, n_piece);
        break;
      default:
        size = replace(bytes, size, room, at, 1 + at % 12, (const uint8_t *)word, strlen(word));
    }
    if (size < 16) return size;
  }
  return size;
}
