// filters.h — the steps that choose candidates: top-k, top-p, min-p and typical.
#ifndef ET_LLM_FILTERS_H
#define ET_LLM_FILTERS_H

#include "llm/sampler/candidates.h"

// Leaves the candidates of the sampler's options, at least one, and sums their weights. The
// candidates have just begun.
void eti_filter_candidates(const et_sampler *sampler, eti_candidates *candidates);

#endif  // ET_LLM_FILTERS_H
