// token_counts.c — counts of the tokens of a text (et_sampler.h, 1).
#include "llm/et_sampler.h"
#include "runtime/arena.h"
#include "runtime/check.h"

#include <string.h>

enum { MAX_VOCAB_SIZE_BITS = 31 };

static bool is_vocab_size(size_t n) {
  return n > 0 && (uint64_t)n <= (uint64_t)1 << MAX_VOCAB_SIZE_BITS;
}

static void lay_out(et_arena *arena, size_t vocab_size, et_token_counts *counts) {
  counts->prompt = ETI_CLAIM(arena, uint32_t, vocab_size);
  counts->generated = ETI_CLAIM(arena, uint32_t, vocab_size);
  counts->seen = ETI_CLAIM(arena, uint32_t, vocab_size);
}

size_t et_token_counts_bytes(size_t vocab_size) {
  if (!is_vocab_size(vocab_size)) return 0;
  et_arena arena = eti_arena_counting();
  et_token_counts counts;
  lay_out(&arena, vocab_size, &counts);
  return arena.failed || arena.used > SIZE_MAX - ET_MEMORY_ALIGN ? 0
                                                                 : arena.used + ET_MEMORY_ALIGN - 1;
}

et_status et_token_counts_init(et_token_counts *counts, size_t vocab_size, et_span memory,
                               et_error *err) {
  ET_CHECK(is_vocab_size(vocab_size), err, ET_INVALID_ARGUMENT,
           "token counts: expected a vocabulary of 1 to 2^31 tokens, got %zu", vocab_size);
  et_token_counts made = {.vocab_size = vocab_size};
  et_arena arena = eti_arena_over(memory);
  lay_out(&arena, vocab_size, &made);
  eti_arena_end(&arena);
  ET_CHECK(!arena.failed, err, ET_OUT_OF_MEMORY, "token counts: expected %zu bytes, got %zu",
           et_token_counts_bytes(vocab_size), memory.size);
  memset(made.prompt, 0, vocab_size * sizeof *made.prompt);
  memset(made.generated, 0, vocab_size * sizeof *made.generated);
  *counts = made;
  return ET_OK;
}

et_status et_token_counts_add(et_token_counts *counts, et_token_part part, const uint32_t *ids,
                              size_t n, et_error *err) {
  for (size_t i = 0; i < n; i++)
    ET_CHECK(ids[i] < counts->vocab_size, err, ET_INVALID_ARGUMENT,
             "token counts: expected ids below %zu, got %u", counts->vocab_size, ids[i]);
  uint32_t *const of_part = part == ET_TOKEN_PROMPT ? counts->prompt : counts->generated;
  for (size_t i = 0; i < n; i++) {
    const uint32_t id = ids[i];
    if (counts->prompt[id] == 0 && counts->generated[id] == 0) counts->seen[counts->n_seen++] = id;
    of_part[id]++;
  }
  return ET_OK;
}

// Takes an id off the list, at whose end those are that were seen last.
static void forget(et_token_counts *counts, uint32_t id) {
  size_t i = counts->n_seen - 1;
  while (counts->seen[i] != id) i--;
  counts->seen[i] = counts->seen[--counts->n_seen];
}

// Whether a part has these tokens, each as often as it stands in `ids`.
static bool has_all(uint32_t *of_part, size_t vocab_size, const uint32_t *ids, size_t n) {
  size_t taken = 0;
  while (taken < n && ids[taken] < vocab_size && of_part[ids[taken]] > 0) of_part[ids[taken++]]--;
  for (size_t i = 0; i < taken; i++) of_part[ids[i]]++;
  return taken == n;
}

et_status et_token_counts_remove(et_token_counts *counts, et_token_part part, const uint32_t *ids,
                                 size_t n, et_error *err) {
  uint32_t *const of_part = part == ET_TOKEN_PROMPT ? counts->prompt : counts->generated;
  ET_CHECK(has_all(of_part, counts->vocab_size, ids, n), err, ET_INVALID_ARGUMENT,
           "token counts: expected %zu tokens that were added, got others", n);
  for (size_t i = n; i > 0; i--) {
    const uint32_t id = ids[i - 1];
    of_part[id]--;
    if (counts->prompt[id] == 0 && counts->generated[id] == 0) forget(counts, id);
  }
  return ET_OK;
}

void et_token_counts_clear(et_token_counts *counts) {
  for (size_t i = 0; i < counts->n_seen; i++) {
    counts->prompt[counts->seen[i]] = 0;
    counts->generated[counts->seen[i]] = 0;
  }
  counts->n_seen = 0;
}
