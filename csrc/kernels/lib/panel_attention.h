// panel_attention.h — softmax(Q · Kᵀ) · V over a key/value cache in panels (panel_cache.h), for
// decoders of text. Relies on micro/gemm/, micro/qgemm/ and micro/attention/. Checks nothing.
//
// Numeric contract. A query's result has the same bits whether a prompt comes at once, in pieces or
// token by token, for any number of threads and on every instruction set:
//
//   The slots are divided into blocks of 256. In each block with a visible key,
//     x_k = (q · k) · scale          a product of gemm.h; of i8: its codes times both scales, as
//                                    qgemm.h's f32, with the query mixed and quantized as
//                                    panel_cache.h says, and scale / 2^n
//     x_k = softcap · tanh(x_k / softcap)       if softcap > 0
//     m   = max x_k                  over the visible keys; NaN wins
//     w_k = exp(x_k − m)             as attention.h: 0 below the smallest normal number, and 0 for
//                                    keys that are not visible
//     s   = Σ w_k                    in 16 lanes, key k in lane k mod 16, added in a fixed tree
//     o   = Σ w_k · v_k              by fused multiply-add from 0 on, in ascending order of the
//                                    visible slots; of i8: (w_k · scale of v_k) · code
//   Blocks are added in ascending order to M = −inf, S = 0, O = 0:
//     M' = max(M, m), f = exp(M − M'), g = exp(m − M'), S = S · f + s · g, O = O · f + o · g
//   with each product rounded, and M' − M' = 0 in differences with an infinite M' of −inf.
//   The result is O / S. Blocks without a visible key do not count. Zeros are +0.
//
// A window of 0 makes the keys at positions ≤ p visible to the query at p; a window w the keys at
// (p − w, p] and those of the cache's sinks, s positions. Distances to sinks end where the window
// leaves them behind: for them, the query is rotated as that of position min(p, s + w − 1). NaN in
// a row spoils the results that see it, and no other.
#ifndef ET_PANEL_ATTENTION_H
#define ET_PANEL_ATTENTION_H

#include "kernels/lib/panel_cache.h"
#include "runtime/check.h"

#include <stdbool.h>

typedef struct eti_panel_attention {
  eti_panel_cache cache;
  eti_head_rows query, out;  // head h reads the cache's head h / group
  eti_rotation rotation;     // with sinks, it has one more row: that of position sinks + window − 1
  size_t n_queries, group;
  size_t start, window;  // position of the first query; 0: all keys
  float scale, softcap;
} eti_panel_attention;

// Bytes of scratch for a problem of these sizes and for every smaller one; 0 when that overflows.
// Pointers are not read.
size_t eti_panel_attention_scratch(const eti_panel_attention *a, size_t n_threads);

// Attends; the cache has the keys and values of the queries' own positions already. The scratch is
// at least that of one thread.
void eti_panel_attention_run(const et_kernel_ctx *ctx, const eti_panel_attention *a);

#endif  // ET_PANEL_ATTENTION_H
