// candidates.c — see candidates.h. Loops over a block have a constant length and are vectorised.
#include "llm/sampler/candidates.h"
#include "llm/sampler/quads.h"
#include "llm/sampler/sampler_math.h"

#include <float.h>

enum { BLOCK = ETI_SAMPLER_BLOCK };

et_status eti_candidates_begin(const et_sampler *sampler, const eti_logits *logits,
                               float temperature, eti_candidates *candidates, et_error *err) {
  const float top = logits->max / temperature;
  ET_CHECK(top > -INFINITY && top < INFINITY, err, ET_INVALID_ARGUMENT,
           "sampler: expected a finite greatest logit / temperature, got %g / %g",
           (double)logits->max, (double)temperature);
  *candidates = (eti_candidates){.logits = logits, .temperature = temperature, .top = top};
  candidates->n = logits->n;
  candidates->ids = sampler->pairs;
  candidates->scores = (float *)(void *)(candidates->ids + logits->n);
  candidates->weights = sampler->weights;
  candidates->block_sums = sampler->block_sums;
  return ET_OK;
}

// ---- distances and weights

static void block_distances(const float *restrict values, float temperature, float top,
                            float *restrict out) {
  if (temperature == 1.0f)
    for (size_t i = 0; i < BLOCK; i++) out[i] = top - values[i];
  else
    for (size_t i = 0; i < BLOCK; i++) out[i] = top - values[i] / temperature;
}

void eti_candidates_distances(const eti_candidates *candidates, size_t i_block, float out[BLOCK]) {
  const eti_candidates *const c = candidates;
  const size_t first = i_block * BLOCK;
  const float *const values = (c->listed ? c->scores : c->logits->values) + first;
  const float temperature = c->listed ? 1.0f : c->temperature;
  if (c->n - first >= BLOCK) {
    block_distances(values, temperature, c->top, out);
    return;
  }
  float last[BLOCK];
  for (size_t i = 0; i < BLOCK; i++) last[i] = first + i < c->n ? values[i] : -INFINITY;
  block_distances(last, temperature, c->top, out);
}

float eti_candidates_least_distance(const eti_candidates *candidates, size_t i_block) {
  if (candidates->listed) return 0.0f;
  return candidates->top - candidates->logits->block_max[i_block] / candidates->temperature;
}

static void weigh_block(const eti_candidates *c, size_t i_block, float *restrict out) {
  float rests[BLOCK], shifted[BLOCK];
  eti_candidates_distances(c, i_block, rests);
  for (size_t i = 0; i < BLOCK; i++) rests[i] = eti_weight_reduce(rests[i], &shifted[i]);
  for (size_t i = 0; i < BLOCK; i++) out[i] = eti_weight_raise(rests[i], shifted[i]);
}

// ---- lists

static void end_list(eti_candidates *c, size_t n) {
  c->n = n;
  c->listed = true;
  c->cut = c->summed = false;
}

void eti_candidates_list(eti_candidates *candidates, float bound) {
  eti_candidates *const c = candidates;
  const eti_logits *const logits = c->logits;
  const float least = bound > -FLT_MAX ? bound : -FLT_MAX;
  size_t n = 0;
  for (size_t b = 0; b < eti_sampler_blocks(logits->n); b++) {
    if (logits->block_max[b] < least) continue;
    const size_t end = (b + 1) * BLOCK < logits->n ? (b + 1) * BLOCK : logits->n;
    for (size_t i = b * BLOCK; i < end; i++) {
      c->ids[n] = (uint32_t)i;
      c->scores[n] = logits->values[i];
      n += logits->values[i] >= least;
    }
  }
  if (c->temperature != 1.0f)
    for (size_t i = 0; i < n; i++) c->scores[i] /= c->temperature;
  end_list(c, n);
  for (size_t b = 0; b < eti_sampler_blocks(n); b++) weigh_block(c, b, c->weights + b * BLOCK);
}

void eti_candidates_list_near(eti_candidates *candidates, double below) {
  const double top = (double)candidates->top, temperature = (double)candidates->temperature;
  const double bound = (top - below) * temperature;
  const double margin = 1e-6 * (fabs(bound) + (fabs(top) + 1.0) * temperature);
  const double least = bound - margin;
  eti_candidates_list(candidates, least > -(double)FLT_MAX ? (float)least : -FLT_MAX);
}

void eti_candidates_list_left(eti_candidates *candidates) {
  eti_candidates *const c = candidates;
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) {
    if (c->block_sums[i / BLOCK] == 0.0 || c->weights[i] == 0.0f) continue;
    const uint32_t id = eti_candidates_id(c, i);
    c->scores[n] = eti_candidates_score(c, i);
    c->ids[n] = id;
    c->weights[n++] = c->weights[i];
  }
  end_list(c, n);
  for (size_t i = n; i < eti_sampler_blocks(n) * BLOCK; i++) c->weights[i] = 0.0f;
}

// ---- sums

float eti_block_sum(const float values[BLOCK]) {
  eti_quad sums[4];
  for (size_t q = 0; q < 4; q++) sums[q] = eti_quad_load(values + 4 * q);
  for (size_t i = 16; i < BLOCK; i += 16)
    for (size_t q = 0; q < 4; q++) sums[q] += eti_quad_load(values + i + 4 * q);
  return eti_quad_sum(sums);
}

void eti_candidates_sum(eti_candidates *candidates) {
  eti_candidates *const c = candidates;
  double total = 0.0;
  for (size_t b = 0; b < eti_sampler_blocks(c->n); b++) {
    float *const weights = c->weights + b * BLOCK;
    if (!c->listed) weigh_block(c, b, weights);
    c->block_sums[b] = (double)eti_block_sum(weights);
    total += c->block_sums[b];
  }
  c->total = total;
  c->summed = true;
}

double eti_candidates_mean(const eti_candidates *candidates) {
  const eti_candidates *const c = candidates;
  double sum = 0.0;
  for (size_t b = 0; b < eti_sampler_blocks(c->n); b++) {
    if (c->block_sums[b] == 0.0) continue;
    float products[BLOCK];
    eti_candidates_distances(c, b, products);
    const float *const weights = c->weights + b * BLOCK;
    for (size_t i = 0; i < BLOCK; i++)  // from 88 on the weight is 0
      products[i] = weights[i] * (products[i] < 88.0f ? products[i] : 88.0f);
    sum += (double)eti_block_sum(products);
  }
  return sum / c->total;
}

size_t eti_candidates_at(const eti_candidates *candidates, double share) {
  const double target = share * candidates->total;
  const size_t n_blocks = eti_sampler_blocks(candidates->n);
  double sum = 0.0, before = 0.0;
  size_t found = 0;
  for (size_t b = 0; b < n_blocks; b++) {
    if (candidates->block_sums[b] == 0.0) continue;
    found = b;
    before = sum;
    sum += candidates->block_sums[b];
    if (sum > target) break;
  }
  const float *const weights = candidates->weights + found * BLOCK;
  size_t at = 0;
  for (size_t i = 0; i < BLOCK; i++) {  // rounding may leave the target behind the last one
    if (weights[i] == 0.0f) continue;
    at = i;
    before += (double)weights[i];
    if (before > target) break;
  }
  return found * BLOCK + at;
}
