// penalties.h — the steps that change logits: bias, penalties and the caller's hook.
#ifndef ET_LLM_PENALTIES_H
#define ET_LLM_PENALTIES_H

#include "llm/et_sampler.h"

// The logits after bias, penalties and hook: `logits` themselves where no step is on, else the
// sampler's copy. ET_INVALID_ARGUMENT for counts that are missing or of another vocabulary; the
// status of the hook.
et_status eti_change_logits(const et_sampler *sampler, const float *logits,
                            const et_token_counts *counts, const float **changed, et_error *err);

#endif  // ET_LLM_PENALTIES_H
