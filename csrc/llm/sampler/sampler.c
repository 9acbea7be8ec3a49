// sampler.c — options, memory and draws of a sampler (et_sampler.h, 2 and 3).
#include "llm/sampler/candidates.h"
#include "llm/sampler/filters.h"
#include "llm/sampler/log_probabilities.h"
#include "llm/sampler/penalties.h"
#include "llm/sampler/sampler_math.h"
#include "llm/sampler/upstream_draw.h"
#include "llm/sampler/weighted_order.h"
#include "runtime/arena.h"

// ---- options

et_sampler_options et_sampler_defaults(void) {
  const et_sampler_options options = {
      .repetition_penalty = 1.0, .temperature = 1.0, .top_p = 1.0, .typical_p = 1.0};
  return options;
}

static bool is_f32(double x) {  // finite as f32; false for NaN
  return fabs(x) <= 0x1.fffffep127;
}

static et_status check_changes(const et_sampler_options *o, size_t vocab_size, et_error *err) {
  ET_CHECK(is_f32(o->repetition_penalty) && (float)o->repetition_penalty > 0.0f, err,
           ET_INVALID_ARGUMENT, "sampler: expected a finite repetition_penalty above 0, got %g",
           o->repetition_penalty);
  ET_CHECK(is_f32(o->frequency_penalty), err, ET_INVALID_ARGUMENT,
           "sampler: expected a finite frequency_penalty, got %g", o->frequency_penalty);
  ET_CHECK(is_f32(o->presence_penalty), err, ET_INVALID_ARGUMENT,
           "sampler: expected a finite presence_penalty, got %g", o->presence_penalty);
  ET_CHECK(o->n_bias == 0 || o->bias != NULL, err, ET_INVALID_ARGUMENT,
           "sampler: expected %zu biases, got none", o->n_bias);
  for (size_t i = 0; i < o->n_bias; i++) {
    ET_CHECK(o->bias[i].id < vocab_size, err, ET_INVALID_ARGUMENT,
             "sampler: expected biases of ids below %zu, got id %u", vocab_size, o->bias[i].id);
    ET_CHECK(o->bias[i].bias < INFINITY, err, ET_INVALID_ARGUMENT,
             "sampler: expected a bias that is finite or -infinity for id %u, got %g",
             o->bias[i].id, (double)o->bias[i].bias);
  }
  return ET_OK;
}

static et_status check_filters(const et_sampler_options *o, et_error *err) {
  ET_CHECK(o->temperature == 0.0 || (o->temperature >= 1e-30 && is_f32(o->temperature)), err,
           ET_INVALID_ARGUMENT,
           "sampler: expected temperature 0, or a finite one of at least 1e-30, got %g",
           o->temperature);
  ET_CHECK(o->top_k >= 0, err, ET_INVALID_ARGUMENT,
           "sampler: expected top_k of at least 0, got %lld", (long long)o->top_k);
  ET_CHECK(o->top_p > 0.0 && o->top_p <= 1.0, err, ET_INVALID_ARGUMENT,
           "sampler: expected top_p in (0, 1], got %g", o->top_p);
  ET_CHECK(o->min_p >= 0.0 && o->min_p <= 1.0, err, ET_INVALID_ARGUMENT,
           "sampler: expected min_p in [0, 1], got %g", o->min_p);
  ET_CHECK(o->typical_p > 0.0 && o->typical_p <= 1.0, err, ET_INVALID_ARGUMENT,
           "sampler: expected typical_p in (0, 1], got %g", o->typical_p);
  return ET_OK;
}

static et_status check_upstream(const et_sampler_options *o, et_error *err) {
  ET_CHECK(o->min_p == 0.0 && o->typical_p == 1.0, err, ET_INVALID_ARGUMENT,
           "sampler: expected min_p 0 and typical_p 1 for upstream's sampler, got %g and %g",
           o->min_p, o->typical_p);
  ET_CHECK(o->logprobs != ET_LOGPROBS_DRAWN, err, ET_INVALID_ARGUMENT,
           "sampler: expected log-probabilities of the model for upstream's sampler, got those of "
           "the distribution drawn from");
  return ET_OK;
}

et_status et_sampler_check(const et_sampler_options *options, size_t vocab_size, et_error *err) {
  const et_sampler_options *const o = options;
  ET_CHECK((int)o->kind >= ET_SAMPLER_STANDARD && (int)o->kind <= ET_SAMPLER_UPSTREAM, err,
           ET_INVALID_ARGUMENT, "sampler: expected kind 0 or 1, got %d", (int)o->kind);
  ET_CHECK((int)o->logprobs >= ET_LOGPROBS_NONE && (int)o->logprobs <= ET_LOGPROBS_DRAWN, err,
           ET_INVALID_ARGUMENT, "sampler: expected logprobs 0, 1 or 2, got %d", (int)o->logprobs);
  ET_CHECK(o->n_best == 0 || o->logprobs != ET_LOGPROBS_NONE, err, ET_INVALID_ARGUMENT,
           "sampler: expected logprobs for n_best %zu, got none", o->n_best);
  ET_CHECK(o->n_best <= vocab_size, err, ET_INVALID_ARGUMENT,
           "sampler: expected n_best of at most %zu, got %zu", vocab_size, o->n_best);
  ET_TRY(check_changes(o, vocab_size, err));
  ET_TRY(check_filters(o, err));
  return o->kind == ET_SAMPLER_UPSTREAM ? check_upstream(o, err) : ET_OK;
}

// ---- memory

static bool is_vocab_size(size_t n) {
  return n > 0 && (uint64_t)n <= (uint64_t)1 << 31;
}

static void lay_out(et_arena *arena, et_sampler *s) {
  const size_t n = s->vocab_size, n_blocks = eti_sampler_blocks(n);
  const size_t n_filled = n_blocks * ETI_SAMPLER_BLOCK;
  s->changed = ETI_CLAIM(arena, float, n);
  s->pairs = ETI_CLAIM(arena, eti_upstream_pair, n);
  s->weights = ETI_CLAIM(arena, float, n_filled);
  s->keys = ETI_CLAIM(arena, float, n_filled);
  s->order = ETI_CLAIM(arena, uint32_t, n > ETI_SAMPLER_BAND ? n : ETI_SAMPLER_BAND);
  s->band = ETI_CLAIM(arena, uint32_t, ETI_SAMPLER_BAND + 1);
  s->band_weights = ETI_CLAIM(arena, float, ETI_SAMPLER_BAND + 1);
  s->block_max = ETI_CLAIM(arena, float, n_blocks);
  s->block_keys = ETI_CLAIM(arena, float, n_blocks);
  s->block_sums = ETI_CLAIM(arena, double, n_blocks);
  s->bins = ETI_CLAIM(arena, double, ETI_ORDER_BINS *ETI_ORDER_LANES);
}

size_t et_sampler_scratch_bytes(size_t vocab_size) {
  if (!is_vocab_size(vocab_size)) return 0;
  et_arena arena = eti_arena_counting();
  et_sampler sampler = {.vocab_size = vocab_size};
  lay_out(&arena, &sampler);
  return arena.failed || arena.used > SIZE_MAX - ET_MEMORY_ALIGN ? 0
                                                                 : arena.used + ET_MEMORY_ALIGN - 1;
}

et_status et_sampler_init(et_sampler *sampler, const et_sampler_options *options, size_t vocab_size,
                          et_span scratch, et_error *err) {
  ET_CHECK(is_vocab_size(vocab_size), err, ET_INVALID_ARGUMENT,
           "sampler: expected a vocabulary of 1 to 2^31 tokens, got %zu", vocab_size);
  ET_TRY(et_sampler_check(options, vocab_size, err));
  et_sampler made = {.options = *options, .vocab_size = vocab_size, .state = options->seed};
  et_arena arena = eti_arena_over(scratch);
  lay_out(&arena, &made);
  eti_arena_end(&arena);
  ET_CHECK(!arena.failed, err, ET_OUT_OF_MEMORY,
           "sampler: expected %zu bytes of scratch memory, got %zu",
           et_sampler_scratch_bytes(vocab_size), scratch.size);
  *sampler = made;
  return ET_OK;
}

// ---- draws

// Draws from the candidates that the options leave.
static et_status draw_filtered(et_sampler *s, const eti_logits *logits, uint64_t position,
                               et_sample *sample, et_error *err) {
  eti_candidates c;
  ET_TRY(eti_candidates_begin(s, logits, (float)s->options.temperature, &c, err));
  eti_filter_candidates(s, &c);
  const size_t at = eti_candidates_at(&c, eti_uniform(s->options.seed, position));
  sample->id = eti_candidates_id(&c, at);
  if (s->options.logprobs != ET_LOGPROBS_DRAWN) return ET_OK;
  sample->logprob =
      eti_log_probability(&c, logits->values[sample->id] / (float)s->options.temperature);
  sample->n_best = eti_best_candidates(s, &c, s->options.n_best, sample->best);
  return ET_OK;
}

// Log-probabilities of the softmax of logits.
static et_status add_logprobs(const et_sampler *s, const eti_logits *logits, et_sample *sample,
                              et_error *err) {
  eti_candidates c;
  ET_TRY(eti_candidates_begin(s, logits, 1.0f, &c, err));
  eti_candidates_sum(&c);
  sample->logprob = eti_log_probability(&c, logits->values[sample->id]);
  sample->n_best = eti_best_candidates(s, &c, s->options.n_best, sample->best);
  return ET_OK;
}

et_status et_sampler_draw(et_sampler *sampler, const float *logits, const et_token_counts *counts,
                          uint64_t position, et_sample *sample, et_error *err) {
  et_sampler *const s = sampler;
  const et_sampler_options *const o = &s->options;
  const bool greedy = o->temperature == 0.0, upstream = o->kind == ET_SAMPLER_UPSTREAM;
  eti_logits scanned = {0};
  const float *changed = NULL;
  ET_CHECK(o->n_best == 0 || sample->best != NULL, err, ET_INVALID_ARGUMENT,
           "sampler: expected room for %zu log-probabilities, got none", o->n_best);
  if (o->logprobs == ET_LOGPROBS_MODEL)
    ET_TRY(eti_logits_scan(logits, s->vocab_size, s->block_max, &scanned, err));
  ET_TRY(eti_change_logits(s, logits, counts, &changed, err));
  if (changed != scanned.values)
    ET_TRY(eti_logits_scan(changed, s->vocab_size, s->block_max, &scanned, err));
  et_sample drawn = {.best = sample->best};
  if (greedy)
    drawn.id = eti_logits_first_max(&scanned);
  else if (upstream)
    ET_TRY(eti_upstream_draw(s, &scanned, position, &drawn.id, err));
  else
    ET_TRY(draw_filtered(s, &scanned, position, &drawn, err));
  if (o->logprobs == ET_LOGPROBS_MODEL && changed != logits)
    ET_TRY(eti_logits_scan(logits, s->vocab_size, s->block_max, &scanned, err));
  if (o->logprobs == ET_LOGPROBS_MODEL || (o->logprobs == ET_LOGPROBS_DRAWN && greedy))
    ET_TRY(add_logprobs(s, &scanned, &drawn, err));
  *sample = drawn;
  return ET_OK;
}
