// upstream_draw.c — see upstream_draw.h.
//
// Upstream: calls the C library's expf, and so does this file: draws are upstream's where the
// library is the same. glibc since 2.28, Bionic and musl have one expf.
#include "llm/sampler/upstream_draw.h"
#include "llm/sampler/sampler_math.h"

#include <math.h>

enum { MAX_POSITION_BITS = 26 };

static void softmax(const eti_logits *logits, float inverse_temperature, float *out) {
  const size_t n = logits->n;
  float max = logits->values[0] * inverse_temperature, sum = 0.0f;
  for (size_t i = 0; i < n; i++) {
    out[i] = logits->values[i] * inverse_temperature;
    max = out[i] > max ? out[i] : max;
  }
  for (size_t i = 0; i < n; i++) {
    out[i] = expf(out[i] - max);
    sum += out[i];
  }
  for (size_t i = 0; i < n; i++) out[i] /= sum;
}

// The next random number, a multiple of 2^-24 in [0, 1).
static float next_coin(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (float)(int32_t)((*state * 0x2545F4914F6CDD1Du) >> 40) * 0x1p-24f;
}

static float coin_of(et_sampler *s, uint64_t position) {
  if (position < s->n_drawn) {
    s->state = s->options.seed;
    s->n_drawn = 0;
  }
  float coin = 0.0f;
  for (; s->n_drawn <= position; s->n_drawn++) coin = next_coin(&s->state);
  return coin;
}

// The first item where the sum of the probabilities is above r; the last one if none is.
static uint32_t item_at(const eti_upstream_pair *items, size_t n, float r) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; i++) {
    sum += items[i].probability;
    if (r < sum) return items[i].id;
  }
  return items[n - 1].id;
}

static uint32_t draw_from_all(const float *probabilities, size_t n, float coin) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; i++) {
    sum += probabilities[i];
    if (coin < sum) return (uint32_t)i;
  }
  return (uint32_t)n - 1;
}

static uint32_t draw_top_k(const float *probabilities, size_t n, size_t k, float coin,
                           eti_upstream_pair *items) {
  for (size_t i = 0; i < n; i++) items[i] = (eti_upstream_pair){probabilities[i], (uint32_t)i};
  eti_upstream_partial_sort(items, k, n);
  float sum = 0.0f;
  for (size_t i = 0; i < k; i++) sum += items[i].probability;
  return item_at(items, k, coin * sum);
}

static uint32_t draw_top_p(const float *probabilities, size_t n, float top_p, float coin,
                           eti_upstream_pair *items) {
  const float least = (1.0f - top_p) / (float)(int32_t)(n - 1);
  size_t n_items = 0;
  for (size_t i = 0; i < n; i++)
    if (probabilities[i] >= least)
      items[n_items++] = (eti_upstream_pair){probabilities[i], (uint32_t)i};
  // Upstream: reads before its list where no token reaches `least`. Here all are kept.
  if (n_items == 0) return draw_from_all(probabilities, n, coin);
  eti_upstream_sort(items, n_items);
  float sum = 0.0f;
  size_t n_kept = 0;
  while (n_kept < n_items) {
    sum += items[n_kept++].probability;
    if (sum > top_p) break;
  }
  return item_at(items, n_kept, coin * sum);
}

et_status eti_upstream_draw(et_sampler *sampler, const eti_logits *logits, uint64_t position,
                            uint32_t *id, et_error *err) {
  const et_sampler_options *const o = &sampler->options;
  ET_CHECK(position >> MAX_POSITION_BITS == 0, err, ET_INVALID_ARGUMENT,
           "sampler: expected a position below 2^%d for upstream's generator, got %llu",
           MAX_POSITION_BITS, (unsigned long long)position);
  const float inverse = 1.0f / (float)o->temperature, top_p = (float)o->top_p;
  const float greatest = logits->max * inverse;
  ET_CHECK(greatest > -INFINITY && greatest < INFINITY, err, ET_INVALID_ARGUMENT,
           "sampler: expected a finite greatest logit / temperature, got %g / %g",
           (double)logits->max, o->temperature);
  float *const probabilities = sampler->weights;
  softmax(logits, inverse, probabilities);
  const float coin = coin_of(sampler, position);
  if (o->top_k > 0 && (uint64_t)o->top_k < logits->n)
    *id = draw_top_k(probabilities, logits->n, (size_t)o->top_k, coin, sampler->pairs);
  else if (top_p < 1.0f && logits->n > 1)
    *id = draw_top_p(probabilities, logits->n, top_p, coin, sampler->pairs);
  else
    *id = draw_from_all(probabilities, logits->n, coin);
  return ET_OK;
}
