// sampler_driver.c — samplers for tests/support/sampler_driver.py: memory that exactly fits, many
// draws a call, and the candidates before a draw.
#include "llm/sampler/candidates.h"
#include "llm/sampler/filters.h"
#include "llm/sampler/penalties.h"
#include "llm/sampler/sampler_math.h"
#include "llm/sampler/upstream_order.h"

#include <stdlib.h>
#include <time.h>

#define DRIVER __attribute__((visibility("default")))

typedef struct ets_sampler {
  et_sampler sampler;
  void *scratch;
} ets_sampler;

typedef struct ets_counts {
  et_token_counts counts;
  void *memory;
} ets_counts;

DRIVER void ets_defaults(et_sampler_options *options);
DRIVER size_t ets_scratch_bytes(size_t vocab_size);
DRIVER ets_sampler *ets_open(const et_sampler_options *options, size_t vocab_size, size_t missing,
                             et_error *err);
DRIVER void ets_close(ets_sampler *s);
DRIVER int ets_draw(ets_sampler *s, const float *logits, const ets_counts *counts,
                    uint64_t position, et_sample *sample, et_error *err);
DRIVER int ets_draws(ets_sampler *s, const float *logits, const ets_counts *counts,
                     uint64_t position, size_t n, uint32_t *ids, et_error *err);
DRIVER int ets_candidates(ets_sampler *s, const float *logits, const ets_counts *counts,
                          uint32_t *ids, double *probabilities, size_t *n, et_error *err);
DRIVER int ets_changed(ets_sampler *s, const float *logits, const ets_counts *counts, float *out,
                       et_error *err);
DRIVER double ets_seconds(ets_sampler *s, const float *logits, const ets_counts *counts, size_t n);
DRIVER ets_counts *ets_counts_open(size_t vocab_size, size_t missing, et_error *err);
DRIVER void ets_counts_close(ets_counts *c);
DRIVER int ets_counts_add(ets_counts *c, int part, const uint32_t *ids, size_t n, et_error *err);
DRIVER int ets_counts_remove(ets_counts *c, int part, const uint32_t *ids, size_t n, et_error *err);
DRIVER void ets_counts_clear(ets_counts *c);
DRIVER size_t ets_counts_seen(const ets_counts *c);
DRIVER void ets_weights(const float *y, size_t n, float *out);
DRIVER double ets_log(double x);
DRIVER double ets_uniform(uint64_t seed, uint64_t position);
DRIVER void ets_sort(eti_upstream_pair *items, size_t k, size_t n);

void ets_defaults(et_sampler_options *options) {
  *options = et_sampler_defaults();
}

size_t ets_scratch_bytes(size_t vocab_size) {
  return et_sampler_scratch_bytes(vocab_size);
}

ets_sampler *ets_open(const et_sampler_options *options, size_t vocab_size, size_t missing,
                      et_error *err) {
  ets_sampler *const s = calloc(1, sizeof *s);
  const size_t bytes = et_sampler_scratch_bytes(vocab_size);
  if (s == NULL) abort();
  s->scratch = malloc(bytes == 0 ? 1 : bytes);
  if (s->scratch == NULL) abort();
  const et_span scratch = {s->scratch, bytes > missing ? bytes - missing : 0};
  if (et_sampler_init(&s->sampler, options, vocab_size, scratch, err) == ET_OK) return s;
  ets_close(s);
  return NULL;
}

void ets_close(ets_sampler *s) {
  free(s->scratch);
  free(s);
}

int ets_draw(ets_sampler *s, const float *logits, const ets_counts *counts, uint64_t position,
             et_sample *sample, et_error *err) {
  return (int)et_sampler_draw(&s->sampler, logits, counts == NULL ? NULL : &counts->counts,
                              position, sample, err);
}

int ets_draws(ets_sampler *s, const float *logits, const ets_counts *counts, uint64_t position,
              size_t n, uint32_t *ids, et_error *err) {
  for (size_t i = 0; i < n; i++) {
    et_sample sample = {0};
    const int status = ets_draw(s, logits, counts, position + i, &sample, err);
    if (status != 0) return status;
    ids[i] = sample.id;
  }
  return 0;
}

int ets_changed(ets_sampler *s, const float *logits, const ets_counts *counts, float *out,
                et_error *err) {
  const float *changed = NULL;
  const et_status status = eti_change_logits(
      &s->sampler, logits, counts == NULL ? NULL : &counts->counts, &changed, err);
  if (status != ET_OK) return (int)status;
  memcpy(out, changed, s->sampler.vocab_size * sizeof *out);
  return 0;
}

static et_status candidates(ets_sampler *s, const float *logits, const ets_counts *counts,
                            eti_logits *scanned, eti_candidates *c, et_error *err) {
  const float *changed = NULL;
  ET_TRY(eti_change_logits(&s->sampler, logits, counts == NULL ? NULL : &counts->counts, &changed,
                           err));
  ET_TRY(eti_logits_scan(changed, s->sampler.vocab_size, s->sampler.block_max, scanned, err));
  ET_TRY(eti_candidates_begin(&s->sampler, scanned, (float)s->sampler.options.temperature, c, err));
  eti_filter_candidates(&s->sampler, c);
  return ET_OK;
}

int ets_candidates(ets_sampler *s, const float *logits, const ets_counts *counts, uint32_t *ids,
                   double *probabilities, size_t *n, et_error *err) {
  eti_logits scanned = {0};
  eti_candidates c;
  const et_status status = candidates(s, logits, counts, &scanned, &c, err);
  if (status != ET_OK) return (int)status;
  const double total = c.total;
  if (c.cut)
    eti_candidates_list_left(&c);
  else if (!c.listed)
    eti_candidates_list(&c, -INFINITY);
  for (size_t i = 0; i < c.n; i++) {
    ids[i] = c.ids[i];
    probabilities[i] = (double)c.weights[i] / total;
  }
  *n = c.n;
  return 0;
}

// The least time of a draw, in seconds, of n draws.
double ets_seconds(ets_sampler *s, const float *logits, const ets_counts *counts, size_t n) {
  double least = 1e9;
  for (size_t i = 0; i < n; i++) {
    struct timespec begin, end;
    et_token_logprob best[64];
    et_sample sample = {.best = best};
    timespec_get(&begin, TIME_UTC);
    if (ets_draw(s, logits, counts, i, &sample, NULL) != 0) return -1.0;
    timespec_get(&end, TIME_UTC);
    const double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    least = seconds < least ? seconds : least;
  }
  return least;
}

ets_counts *ets_counts_open(size_t vocab_size, size_t missing, et_error *err) {
  ets_counts *const c = calloc(1, sizeof *c);
  const size_t bytes = et_token_counts_bytes(vocab_size);
  if (c == NULL) abort();
  c->memory = malloc(bytes == 0 ? 1 : bytes);
  if (c->memory == NULL) abort();
  const et_span memory = {c->memory, bytes > missing ? bytes - missing : 0};
  if (et_token_counts_init(&c->counts, vocab_size, memory, err) == ET_OK) return c;
  ets_counts_close(c);
  return NULL;
}

void ets_counts_close(ets_counts *c) {
  free(c->memory);
  free(c);
}

int ets_counts_add(ets_counts *c, int part, const uint32_t *ids, size_t n, et_error *err) {
  return (int)et_token_counts_add(&c->counts, (et_token_part)part, ids, n, err);
}

int ets_counts_remove(ets_counts *c, int part, const uint32_t *ids, size_t n, et_error *err) {
  return (int)et_token_counts_remove(&c->counts, (et_token_part)part, ids, n, err);
}

void ets_counts_clear(ets_counts *c) {
  et_token_counts_clear(&c->counts);
}

size_t ets_counts_seen(const ets_counts *c) {
  return c->counts.n_seen;
}

void ets_weights(const float *y, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = eti_weight(y[i]);
}

double ets_log(double x) {
  return eti_log_of(x);
}

double ets_uniform(uint64_t seed, uint64_t position) {
  return eti_uniform(seed, position);
}

void ets_sort(eti_upstream_pair *items, size_t k, size_t n) {
  if (k < n)
    eti_upstream_partial_sort(items, k, n);
  else
    eti_upstream_sort(items, n);
}
