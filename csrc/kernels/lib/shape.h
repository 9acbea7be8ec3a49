// shape.h — shapes and layouts: broadcasting, dimension wrapping, resizing of outputs, contiguity.
// Relies on et_tensor; computes no element.
#ifndef ET_SHAPE_H
#define ET_SHAPE_H

#include "runtime/check.h"
#include "runtime/et.h"

typedef struct eti_shape {
  size_t rank;
  int32_t sizes[ET_MAX_RANK];
} eti_shape;

static inline eti_shape eti_shape_of(const et_tensor *t) {
  eti_shape s = {.rank = t->rank};
  for (size_t d = 0; d < t->rank; d++) s.sizes[d] = t->sizes[d];
  return s;
}

// Text of a shape for messages, "[2, 3]", shortened with "…" when it is too long. Returns text.
#define ETI_SHAPE_TEXT 80
const char *eti_shape_text(const eti_shape *shape, char text[ETI_SHAPE_TEXT]);
// Text of a tensor's type and shape, "f32[2, 3]".
#define ETI_TENSOR_TEXT (ETI_SHAPE_TEXT + 16)
const char *eti_tensor_text(const et_tensor *t, char text[ETI_TENSOR_TEXT]);

// Broadcasts two shapes by ATen's rules (more by repetition). ET_INVALID_ARGUMENT reports both
// shapes.
et_status eti_broadcast(const et_kernel_ctx *ctx, const eti_shape *a, const eti_shape *b,
                        eti_shape *out);

// Wraps a dimension: negative ones count from the end; a 0-d tensor accepts 0 and -1 (and *out is
// 0). Else ET_INVALID_ARGUMENT.
et_status eti_wrap_dim(const et_kernel_ctx *ctx, int64_t dim, size_t rank, size_t *out);
// Wraps a list of dims into a bit mask; none given (n == 0) means all when empty_is_all. Repeats
// are an error.
et_status eti_wrap_dims(const et_kernel_ctx *ctx, const int64_t *dims, size_t n, size_t rank,
                        bool empty_is_all, uint32_t *mask);

// Resizes an output; the message names it `out`.
et_status eti_resize(const et_kernel_ctx *ctx, et_tensor *out, const eti_shape *shape);
et_status eti_resize_like(const et_kernel_ctx *ctx, et_tensor *out, const et_tensor *like);

bool eti_same_shape(const et_tensor *a, const et_tensor *b);
// True if two tensors have the same sizes and the same order of elements in memory (size-1
// dimensions do not count): one linear walk serves both.
bool eti_same_layout(const et_tensor *a, const et_tensor *b);
// True if memory order is logical order (size-1 dimensions do not count).
bool eti_is_contiguous(const et_tensor *t);
// True for channels-last memory (NHWC / NDHWC / NLC).
bool eti_is_channels_last(const et_tensor *t);
// Check the dim order and fail with `status`; the message begins with `what` and has the dim order.
et_status eti_check_contiguous(const et_kernel_ctx *ctx, const et_tensor *t, et_status status,
                               const char *what);
et_status eti_check_channels_last(const et_kernel_ctx *ctx, const et_tensor *t, et_status status,
                                  const char *what);
// Checks that a tensor has `needed` contiguous elements of one of the types, which `kind` names.
et_status eti_check_elements(const et_kernel_ctx *ctx, const et_tensor *t, const char *what,
                             size_t needed, uint32_t types, const char *kind);

et_status eti_check_same_dtype(const et_kernel_ctx *ctx, const et_tensor *a, const et_tensor *b,
                               const char *what);

// Product of sizes[begin..end); 1 when empty.
static inline size_t eti_numel_range(const et_tensor *t, size_t begin, size_t end) {
  size_t n = 1;
  for (size_t d = begin; d < end; d++) n *= (size_t)t->sizes[d];
  return n;
}

// Copies bytes that may overlap: planned memory of a damaged file may, and memcpy does not allow
// it.
void eti_copy_bytes(void *dst, const void *src, size_t bytes);

#endif  // ET_SHAPE_H
