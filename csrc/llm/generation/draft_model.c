// draft_model.c — drafts by a smaller model. Its tokens are drawn as those of the text will be, at
// the same positions and with the same random numbers, so that equal distributions give equal
// tokens.
#include "llm/et_llm.h"
#include "runtime/check.h"

// Reads the context as far as the decoder has not; *logits are those after its last token.
static et_status follow(const et_llm_decoder *decoder, const uint32_t *context, size_t n,
                        const float **logits, et_error *err) {
  size_t kept;
  ET_TRY(decoder->keep(decoder->ctx, context, n, &kept, err));
  while (kept < n) {
    const size_t now = n - kept < decoder->longest ? n - kept : decoder->longest;
    ET_TRY(decoder->read(decoder->ctx, context + kept, now, 1, logits, err));
    kept += now;
  }
  return ET_OK;
}

static et_status draft(void *ctx, const uint32_t *context, size_t n_context, et_sampler *sampler,
                       const et_token_counts *counts, uint32_t *ids, size_t n, size_t *n_drafted,
                       et_error *err) {
  const et_llm_decoder *const decoder = ctx;
  *n_drafted = 0;
  if (n_context + n > decoder->capacity)
    n = n_context < decoder->capacity ? decoder->capacity - n_context : 0;
  if (n == 0 || n_context > decoder->capacity) return ET_OK;
  // Log-probabilities and the state of a grammar belong to the tokens of the text.
  et_sampler own = *sampler;
  own.options.hook = (et_logits_hook){NULL, NULL};
  own.options.logprobs = ET_LOGPROBS_NONE;
  own.options.n_best = 0;
  const float *logits = NULL;
  ET_TRY(follow(decoder, context, n_context, &logits, err));
  for (;;) {
    et_sample sample = {.best = NULL};
    ET_TRY(et_sampler_draw(&own, logits, counts, n_context + *n_drafted, &sample, err));
    ids[(*n_drafted)++] = sample.id;
    if (*n_drafted == n) return ET_OK;
    ET_TRY(decoder->read(decoder->ctx, &sample.id, 1, 1, &logits, err));
  }
}

et_llm_drafter et_llm_model_drafter(const et_llm_decoder *decoder) {
  return (et_llm_drafter){(void *)(uintptr_t)decoder, draft};
}
