// penalties.c — see penalties.h. All steps compute in f32, as transformers and vLLM do.
#include "llm/sampler/penalties.h"
#include "runtime/check.h"

#include <string.h>

static bool has_penalties(const et_sampler_options *o) {
  return o->repetition_penalty != 1.0 || o->frequency_penalty != 0.0 || o->presence_penalty != 0.0;
}

static void penalize(const et_sampler_options *o, const et_token_counts *counts, float *logits) {
  const float repetition = (float)o->repetition_penalty;
  const float frequency = (float)o->frequency_penalty, presence = (float)o->presence_penalty;
  for (size_t i = 0; i < counts->n_seen; i++) {
    const uint32_t id = counts->seen[i], n = counts->generated[id];
    float x = logits[id];
    x = x < 0.0f ? x * repetition : x / repetition;
    if (n > 0) x = (x - frequency * (float)n) - presence;
    logits[id] = x;
  }
}

et_status eti_change_logits(const et_sampler *sampler, const float *logits,
                            const et_token_counts *counts, const float **changed, et_error *err) {
  const et_sampler_options *const o = &sampler->options;
  *changed = logits;
  if (o->n_bias == 0 && !has_penalties(o) && o->hook.change == NULL) return ET_OK;
  if (has_penalties(o)) {
    ET_CHECK(counts != NULL, err, ET_INVALID_ARGUMENT,
             "sampler: expected counts of tokens for penalties, got none");
    ET_CHECK(counts->vocab_size == sampler->vocab_size, err, ET_INVALID_ARGUMENT,
             "sampler: expected counts for %zu tokens, got %zu", sampler->vocab_size,
             counts->vocab_size);
  }
  float *const copy = sampler->changed;
  memcpy(copy, logits, sampler->vocab_size * sizeof *copy);
  for (size_t i = 0; i < o->n_bias; i++) copy[o->bias[i].id] += o->bias[i].bias;
  if (has_penalties(o)) penalize(o, counts, copy);
  if (o->hook.change != NULL) ET_TRY(o->hook.change(o->hook.ctx, copy, sampler->vocab_size, err));
  *changed = copy;
  return ET_OK;
}
