// flash_attention.h — softmax(scale · Q·Kᵀ + mask) · V in blocks, with a running maximum and sum:
// the scores of a whole row never exist. Knows strides, not tensors: an operator describes the
// layout of its heads. Query heads that share a key/value head are rows of one problem, so its keys
// are read once for all of them.
//
// Numeric contract: queries are multiplied by the scale first; scores are products of
// micro/gemm/gemm.h, or of micro/attention/attention.h for a single query in its block; keys are
// processed in blocks of ETI_ATTENTION_KEYS from the first one on; weights and their sums follow
// micro/attention/attention.h; a block's weighted values are added to the running sum in ascending
// order of keys, each with one fused multiply-add; the result is multiplied by the inverse of the
// sum. Halves compute in f32 and round once. Neither threads nor instruction sets change a bit.
//
// Attention over a cache (op/attention/custom_sdpa.c) has a core of its own and rounds differently:
// it scales scores instead of queries and divides by the sum.
#ifndef ET_FLASH_ATTENTION_H
#define ET_FLASH_ATTENTION_H

#include "kernels/micro/convert/cast.h"
#include "kernels/lib/shape.h"
#include "runtime/et.h"

enum { ETI_ATTENTION_KEYS = 128 };

// The layout of one operand's rows. Steps are in elements of dtype.
typedef struct eti_attention_rows {
  const void *data;
  uint8_t dtype;
  ptrdiff_t outer[ET_MAX_RANK];  // along the dimensions of eti_attention.outer
  ptrdiff_t head;                // from key/value head to key/value head
  ptrdiff_t member;              // from query head to query head within a key/value head
  ptrdiff_t row;                 // from query to query, or key to key
  ptrdiff_t item;                // within a row; of a mask, from key to key
  size_t share;                  // heads that share a head of this operand, at least 1
} eti_attention_rows;

typedef struct eti_attention {
  eti_shape outer;  // sizes of the dimensions outside of heads
  size_t heads;     // key/value heads
  size_t members;   // query heads for each of them
  size_t n_queries, n_keys, dim, value_dim;
  eti_attention_rows q, k, v, mask, out;  // a mask of bools selects keys, another is added
  bool has_mask;
  bool causal;  // query i sees keys up to i
  double scale;
  double unseen;  // result of a query that sees no key: 0 or NaN
} eti_attention;

// Requests the scratch of a run.
void eti_attention_prepare(const eti_attention *a, et_prepare_ctx *ctx);
// Runs in ctx->scratch; ET_OUT_OF_RESOURCES if it is smaller than prepare requests for one thread.
// q, k, v and out have one float type.
et_status eti_attention_run(const et_kernel_ctx *ctx, const eti_attention *a);

#endif  // ET_FLASH_ATTENTION_H
