// upstream_draw.h — the draws of ExecuTorch's sampler, with equal bits: its softmax in f32, its
// generator (xorshift64*), its top-k and top-p, and the order that its sorting gives equal tokens.
#ifndef ET_LLM_UPSTREAM_DRAW_H
#define ET_LLM_UPSTREAM_DRAW_H

#include "llm/sampler/candidates.h"
#include "llm/sampler/upstream_order.h"

// Draws the token of a position, at a temperature above 0. ET_INVALID_ARGUMENT for a position of
// 2^26 or above: the generator counts from the seed.
et_status eti_upstream_draw(et_sampler *sampler, const eti_logits *logits, uint64_t position,
                            uint32_t *id, et_error *err);

#endif  // ET_LLM_UPSTREAM_DRAW_H
