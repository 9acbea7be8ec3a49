// logits.c — the greatest logits of blocks and of the vocabulary (candidates.h).
#include "llm/sampler/candidates.h"
#include "llm/sampler/quads.h"
#include "llm/sampler/sampler_math.h"
#include "llm/sampler/weighted_order.h"

enum { BLOCK = ETI_SAMPLER_BLOCK };

uint32_t eti_ascending_key(float x) {
  const uint32_t bits = eti_bits_of_f32(x == 0.0f ? 0.0f : x);  // both zeros are equal
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static float number_of_key(uint32_t key) {
  return eti_f32_of_bits((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}

// The greatest logit of a block; NaN if one of them is.
static float scan_block(const float values[BLOCK]) {
  eti_quad max[4];
  eti_quad_mask numbers[4];
  for (size_t q = 0; q < 4; q++) {
    max[q] = eti_quad_load(values + 4 * q);
    numbers[q] = max[q] == max[q];
  }
  for (size_t i = 16; i < BLOCK; i += 16) {
    for (size_t q = 0; q < 4; q++) {
      const eti_quad x = eti_quad_load(values + i + 4 * q);
      numbers[q] &= x == x;
      max[q] = eti_quad_pick(x > max[q], x, max[q]);
    }
  }
  const eti_quad_mask all = (numbers[0] & numbers[1]) & (numbers[2] & numbers[3]);
  if ((all[0] & all[1] & all[2] & all[3]) == 0) return NAN;
  for (size_t q = 1; q < 4; q++) max[0] = eti_quad_pick(max[q] > max[0], max[q], max[0]);
  float greatest = max[0][0];
  for (size_t l = 1; l < 4; l++) greatest = max[0][l] > greatest ? max[0][l] : greatest;
  return greatest;
}

static et_status refuse(const float *values, size_t n, et_error *err) {
  size_t i = 0;
  while (i < n && values[i] < INFINITY) i++;  // false for NaN
  ET_CHECK(i == n, err, ET_INVALID_ARGUMENT,
           "sampler: expected logits that are finite or -infinity, got %s for id %zu",
           values[i] > 0.0f ? "+infinity" : "NaN", i);
  return ET_FAIL(err, ET_INVALID_ARGUMENT,
                 "sampler: expected a logit above -infinity, got none among %zu", n);
}

et_status eti_logits_scan(const float *values, size_t n, float *block_max, eti_logits *logits,
                          et_error *err) {
  const size_t n_whole = n / BLOCK, n_blocks = eti_sampler_blocks(n);
  for (size_t b = 0; b < n_whole; b++) block_max[b] = scan_block(values + b * BLOCK);
  if (n_whole < n_blocks) {
    float last[BLOCK];
    for (size_t i = 0; i < BLOCK; i++)
      last[i] = n_whole * BLOCK + i < n ? values[n_whole * BLOCK + i] : -INFINITY;
    block_max[n_whole] = scan_block(last);
  }
  float max = -INFINITY;
  bool nan = false;
  for (size_t b = 0; b < n_blocks; b++) {
    nan |= block_max[b] != block_max[b];
    max = block_max[b] > max ? block_max[b] : max;
  }
  if (nan || max == INFINITY || max == -INFINITY) return refuse(values, n, err);
  *logits = (eti_logits){values, n, block_max, max};
  return ET_OK;
}

uint32_t eti_logits_first_max(const eti_logits *logits) {
  size_t b = 0;
  while (logits->block_max[b] < logits->max) b++;
  size_t i = b * BLOCK;
  while (logits->values[i] < logits->max) i++;
  return (uint32_t)i;
}

float eti_logits_bound(const et_sampler *sampler, const eti_logits *logits, size_t k) {
  const size_t n_blocks = eti_sampler_blocks(logits->n);
  uint32_t *const order = sampler->order;
  if (k > n_blocks) return -INFINITY;
  for (size_t b = 0; b < n_blocks; b++) order[b] = ~eti_ascending_key(logits->block_max[b]);
  const eti_border border = eti_border_of(order, NULL, n_blocks, (double)k, sampler->bins);
  const float bound = number_of_key(~border.key);
  // Scores are rounded, so smaller logits may have the same score.
  return bound - fabsf(bound) * 0x1p-20f;
}
