// strided_copy.h — strided copies between two layouts: the engine of all operators that move
// elements without computing. A plan lists axes (count, destination stride, source stride);
// finishing it drops, sorts and merges axes and selects an inner loop. A finished plan works with
// any pair of base pointers, so kernels keep it from their prepare step. Relies on et_tensor,
// cast.h and micro/transpose.h. Checks no memory: the builder of a plan proves that all its
// addresses are inside its tensors. Overlap of source and destination is harmless (values then are
// unspecified).
#ifndef ET_STRIDED_COPY_H
#define ET_STRIDED_COPY_H

#include "kernels/micro/convert/cast.h"
#include "kernels/lib/shape.h"
#include "runtime/check.h"
#include "runtime/et.h"

#define ETI_PLAN_AXES 32  // two axes for each dimension, as repeat needs

typedef struct eti_axis {
  size_t n;
  ptrdiff_t dst, src;  // elements until the plan is finished, bytes after
} eti_axis;

typedef struct eti_copy_plan {
  ptrdiff_t dst_offset, src_offset;  // of the first element; elements until finished, bytes after
  eti_cast_fn cast;                  // NULL when elements are copied unchanged
  size_t chunk, n_chunks;  // items of the innermost split axis per unit of work; units per outer
                           // index
  size_t n_units, grain;
  uint8_t dst_bytes, src_bytes;  // element sizes
  uint8_t kind, rank;
  eti_axis axis[ETI_PLAN_AXES];  // [rank]
} eti_copy_plan;

// Starts a plan without axes. Elements of `bytes` bytes are copied unchanged: 1, 2, 4, 8 or 16.
void eti_plan_begin(eti_copy_plan *plan, size_t bytes);
// Starts a plan that converts. ET_NOT_SUPPORTED when there is no conversion from `from` to `to`.
et_status eti_plan_begin_cast(eti_copy_plan *plan, et_dtype to, et_dtype from, et_error *err);

// Adds an axis; at most ETI_PLAN_AXES. Order does not matter. Destination elements must be
// distinct; source strides are free.
static inline void eti_plan_axis(eti_copy_plan *plan, size_t n, ptrdiff_t dst, ptrdiff_t src) {
  ET_ASSERT(plan->rank < ETI_PLAN_AXES);
  plan->axis[plan->rank++] = (eti_axis){.n = n, .dst = dst, .src = src};
}

void eti_plan_finish(eti_copy_plan *plan);
void eti_plan_run(const eti_copy_plan *plan, const et_pool *pool, void *dst, const void *src);

// Bytes of a finished plan that must be kept to run it later; the rest are unused axes.
static inline size_t eti_plan_bytes(const eti_copy_plan *plan) {
  return offsetof(eti_copy_plan, axis) + plan->rank * sizeof(eti_axis);
}

// A strided view of a tensor's elements, with a shape of its own; offset and strides in elements.
typedef struct eti_window {
  eti_shape shape;
  ptrdiff_t strides[ET_MAX_RANK];
  ptrdiff_t offset;
} eti_window;

static inline eti_window eti_window_of(const et_tensor *t) {
  eti_window v = {.shape.rank = t->rank};
  for (size_t d = 0; d < t->rank; d++) {
    v.shape.sizes[d] = t->sizes[d];
    v.strides[d] = t->strides[d];
  }
  return v;
}

// Makes a finished plan for dst[...] = src[...] over two windows of one shape. The caller has begun
// the plan, which sets the element types.
void eti_plan_windows(eti_copy_plan *plan, const eti_window *dst, const eti_window *src);

// Copies a window to another of the same shape, without a plan; elements have `bytes` bytes.
void eti_copy_windows(const et_pool *pool, void *dst, const eti_window *to, const void *src,
                      const eti_window *from, size_t bytes);
// Fills a window with *value.
void eti_fill_window(const et_pool *pool, void *dst, const eti_window *to, const void *value,
                     size_t bytes);

// Makes a plan that copies `src` to `dst` in logical (row-major) order when their shapes differ;
// equal element counts. False when no list of axes expresses it: then use eti_copy_in_order.
bool eti_plan_reshape(eti_copy_plan *plan, const et_tensor *dst, const et_tensor *src);

// Copies without a plan: element k of src, in logical order, becomes element (k + shift) mod numel
// of dst. Equal element types and counts; shift < numel.
void eti_copy_in_order(const et_tensor *dst, const et_tensor *src, size_t shift);

// Copies between tensors of one shape and any layouts, converting when the element types differ.
et_status eti_copy_tensor(const et_kernel_ctx *ctx, const et_tensor *dst, const et_tensor *src);

#endif  // ET_STRIDED_COPY_H
