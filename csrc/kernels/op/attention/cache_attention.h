// cache_attention.h — attention over a key/value cache, whose core differs from
// lib/flash_attention.h: it scales scores instead of queries and divides by the sum, and its blocks
// are made for single tokens. The few query heads that share a key/value head are rows of a product
// here; there they would be half-empty vectors. For the many queries of a prompt flash_attention.h
// is faster. Tensors are [batch, position, head, dim] in any layout. Keys are processed in blocks
// with a running maximum and sum, so memory does not grow with the cache; query heads that share a
// key/value head share its packed block. Halves compute in f32 and round once.
//
// Queries and keys of i8 are multiplied as codes: Σ (q − zero of q) · (k − zero of k) is exact, and
// times both scales as micro/qgemm/qgemm.h says. That holds for zero points of i8 and up to 33,025
// elements; other codes are dequantized first. Values of i8 are always.
#ifndef ET_OP_CACHE_ATTENTION_H
#define ET_OP_CACHE_ATTENTION_H

#include "kernels/kernel.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/qgemm/qgemm.h"

// Scale and zero point of every row of an i8 tensor, [batch, position, head, 1]; NULL for floats.
typedef struct eti_row_numbers {
  const et_tensor *scales, *zeros;
} eti_row_numbers;

typedef struct eti_cache_attention {
  const eti_eltwise *micro;
  const eti_gemm_kernel *kernel;
  const eti_qgemm_micro *qgemm;
  const et_tensor *q, *k, *v, *mask, *out;
  eti_row_numbers of_q, of_k, of_v;
  int64_t start;
  size_t n_keys;          // keys that any query sees
  size_t group;           // query heads for each key/value head
  size_t rows, n_blocks;  // queries × group of one key/value head, and their blocks
  bool causal;            // query s sees keys up to start + s
  float scale;
  char *scratch;  // slot_bytes for each of n_slots threads
  size_t n_slots, slot_bytes, n_items;
} eti_cache_attention;

// Computes out. Threads split rows of queries, which are independent; each has its part of the
// scratch. ET_OUT_OF_RESOURCES if there is too little for one thread.
et_status eti_cache_attention_run(const et_kernel_ctx *ctx, eti_cache_attention *a);

// Requests the scratch of a run over the operands q, k and v and their numbers. Others, such as the
// position, may be unknown.
void eti_cache_attention_prepare(et_prepare_ctx *ctx, const eti_cache_attention *a);

#endif  // ET_OP_CACHE_ATTENTION_H
