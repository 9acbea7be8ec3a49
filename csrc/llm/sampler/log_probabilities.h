// log_probabilities.h — log-probabilities of a token, and the most probable tokens.
#ifndef ET_LLM_LOG_PROBABILITIES_H
#define ET_LLM_LOG_PROBABILITIES_H

#include "llm/sampler/candidates.h"

// Log-probability of a token that has a score, among candidates whose weights are summed.
double eti_log_probability(const eti_candidates *candidates, float score);
// Fills best with the n most probable candidates; returns how many there are. Lists the
// candidates if they are not listed.
size_t eti_best_candidates(const et_sampler *sampler, eti_candidates *candidates, size_t n,
                           et_token_logprob *best);

#endif  // ET_LLM_LOG_PROBABILITIES_H
