// cut.h — leaves the candidates that come first in an order and whose weights reach a sum.
#ifndef ET_LLM_CUT_H
#define ET_LLM_CUT_H

#include "llm/sampler/candidates.h"

// Most probable candidates first; of equal ones, the least ids.
void eti_cut_by_probability(const et_sampler *sampler, eti_candidates *candidates, double share);
// Candidates first whose distance is closest to the mean; all that are as close as the last one.
void eti_cut_by_closeness(const et_sampler *sampler, eti_candidates *candidates, double share);

#endif  // ET_LLM_CUT_H
