// pace.h — how long drafts are: as long as they gain time. Each draft costs a longer read, and
// gains a read for each of its tokens that is taken. Drafts are made from the time that earlier
// ones gained, and from a share of the time of reads without drafts, which bounds what they can
// cost.
#ifndef ET_LLM_PACE_H
#define ET_LLM_PACE_H

#include "llm/et_llm.h"

// Times are in any unit; a pace is zeros before the first read.

// Tokens of the next draft, at most `most`.
size_t eti_pace_length(const et_llm_pace *pace, size_t most);
// A read of one token took this time.
void eti_pace_step(et_llm_pace *pace, double time);
// A draft of n tokens was made and read in this time, and the first `accepted` of it were taken.
void eti_pace_draft(et_llm_pace *pace, size_t n, size_t accepted, double time);

// Without a clock: the time of a read with a draft of n tokens, where a read of one token takes 1.
static inline double eti_pace_usual_time(size_t n) {
  return 1 + 0.15 * (double)n;
}

#endif  // ET_LLM_PACE_H
