// shape.c — see shape.h. Sizes come from files, so products of broadcast shapes are never computed
// here: et_tensor_resize refuses shapes that exceed the output's memory before any kernel walks
// them.
#include "kernels/lib/shape.h"

#include "kernels/lib/promote.h"
#include "runtime/message_text.h"

#include <string.h>

const char *eti_shape_text(const eti_shape *shape, char text[ETI_SHAPE_TEXT]) {
  const eti_text made = eti_sizes_text(shape->sizes, shape->rank);
  _Static_assert(sizeof made.text == ETI_SHAPE_TEXT, "room for the text");
  return memcpy(text, made.text, sizeof made.text);
}

const char *eti_tensor_text(const et_tensor *t, char text[ETI_TENSOR_TEXT]) {
  const char *const name = et_dtype_name((et_dtype)t->dtype);
  const size_t n = strlen(name);
  ET_ASSERT(n + ETI_SHAPE_TEXT <= ETI_TENSOR_TEXT);
  memcpy(text, name, n);
  const eti_text sizes = eti_sizes_text(t->sizes, t->rank);
  memcpy(text + n, sizes.text, sizeof sizes.text);
  return text;
}

et_status eti_broadcast(const et_kernel_ctx *ctx, const eti_shape *a, const eti_shape *b,
                        eti_shape *out) {
  eti_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (size_t d = 0; d < result.rank; d++) {  // d counts from the innermost
    const int32_t x = d < a->rank ? a->sizes[a->rank - 1 - d] : 1;
    const int32_t y = d < b->rank ? b->sizes[b->rank - 1 - d] : 1;
    if (x != y && x != 1 && y != 1) {
      char text_a[ETI_SHAPE_TEXT], text_b[ETI_SHAPE_TEXT];
      return ET_FAIL(ctx->err, ET_INVALID_ARGUMENT,
                     "shapes %s and %s do not broadcast: dimension -%zu is %d and %d",
                     eti_shape_text(a, text_a), eti_shape_text(b, text_b), d + 1, (int)x, (int)y);
    }
    result.sizes[result.rank - 1 - d] = x == 1 ? y : x;
  }
  *out = result;
  return ET_OK;
}

et_status eti_wrap_dim(const et_kernel_ctx *ctx, int64_t dim, size_t rank, size_t *out) {
  const int64_t n = rank == 0 ? 1 : (int64_t)rank;
  ET_CHECK(dim >= -n && dim < n, ctx->err, ET_INVALID_ARGUMENT,
           "expected a dimension of a tensor of rank %zu, got %lld", rank, (long long)dim);
  *out = (size_t)(dim < 0 ? dim + n : dim);
  return ET_OK;
}

et_status eti_wrap_dims(const et_kernel_ctx *ctx, const int64_t *dims, size_t n, size_t rank,
                        bool empty_is_all, uint32_t *mask) {
  uint32_t result = 0;
  for (size_t i = 0; i < n; i++) {
    size_t d = 0;
    ET_TRY(eti_wrap_dim(ctx, dims[i], rank, &d));
    ET_CHECK((result >> d & 1u) == 0, ctx->err, ET_INVALID_ARGUMENT,
             "dimension %zu appears twice in a list of dimensions", d);
    result |= 1u << d;
  }
  if (n == 0 && empty_is_all) result = (1u << rank) - 1u;
  *mask = result;
  return ET_OK;
}

et_status eti_resize(const et_kernel_ctx *ctx, et_tensor *out, const eti_shape *shape) {
  if (out->rank == shape->rank) {
    size_t d = 0;
    while (d < shape->rank && out->sizes[d] == shape->sizes[d]) d++;
    if (d == shape->rank) return ET_OK;
  }
  const et_status status = et_tensor_resize(out, shape->sizes, shape->rank, ctx->err);
  if (status != ET_OK) eti_context(ctx->err, "out: ");
  return status;
}

et_status eti_resize_like(const et_kernel_ctx *ctx, et_tensor *out, const et_tensor *like) {
  if (eti_same_shape(out, like)) return ET_OK;
  const eti_shape shape = eti_shape_of(like);
  return eti_resize(ctx, out, &shape);
}

bool eti_same_shape(const et_tensor *a, const et_tensor *b) {
  if (a->rank != b->rank) return false;
  for (size_t d = 0; d < a->rank; d++) {
    if (a->sizes[d] != b->sizes[d]) return false;
  }
  return true;
}

bool eti_same_layout(const et_tensor *a, const et_tensor *b) {
  if (a->rank != b->rank) return false;
  for (size_t d = 0; d < a->rank; d++) {
    if (a->sizes[d] != b->sizes[d]) return false;
    if (a->sizes[d] != 1 && a->strides[d] != b->strides[d]) return false;
  }
  return true;
}

bool eti_is_contiguous(const et_tensor *t) {
  if ((t->flags & ET_TENSOR_CONTIGUOUS) != 0 || t->numel <= 1) return true;
  ptrdiff_t expected = 1;
  for (size_t d = t->rank; d-- > 0;) {
    if (t->sizes[d] == 1) continue;
    if (t->strides[d] != expected) return false;
    expected *= t->sizes[d];
  }
  return true;
}

bool eti_is_channels_last(const et_tensor *t) {
  if (t->rank < 3 || t->rank > 5) return false;
  if (t->numel <= 1) return true;
  ptrdiff_t expected = 1;
  if (t->sizes[1] != 1 && t->strides[1] != expected) return false;
  expected *= t->sizes[1];
  for (size_t d = t->rank; d-- > 2;) {
    if (t->sizes[d] == 1) continue;
    if (t->strides[d] != expected) return false;
    expected *= t->sizes[d];
  }
  return t->sizes[0] == 1 || t->strides[0] == expected;
}

et_status eti_check_contiguous(const et_kernel_ctx *ctx, const et_tensor *t, et_status status,
                               const char *what) {
  ET_CHECK(eti_is_contiguous(t), ctx->err, status, "%s: expected the contiguous dim order, got %s",
           what, eti_dim_order_text(t->dim_order, t->rank).text);
  return ET_OK;
}

et_status eti_check_channels_last(const et_kernel_ctx *ctx, const et_tensor *t, et_status status,
                                  const char *what) {
  ET_CHECK(eti_is_channels_last(t), ctx->err, status,
           "%s: expected the channels-last dim order, got %s", what,
           eti_dim_order_text(t->dim_order, t->rank).text);
  return ET_OK;
}

et_status eti_check_elements(const et_kernel_ctx *ctx, const et_tensor *t, const char *what,
                             size_t needed, uint32_t types, const char *kind) {
  ET_CHECK(eti_dtype_in((et_dtype)t->dtype, types) && t->numel == needed && eti_is_contiguous(t),
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected %zu contiguous elements of %s, got %zu of %s", what, needed, kind,
           t->numel, et_dtype_name((et_dtype)t->dtype));
  return ET_OK;
}

et_status eti_check_same_dtype(const et_kernel_ctx *ctx, const et_tensor *a, const et_tensor *b,
                               const char *what) {
  (void)what;
  ET_CHECK(a->dtype == b->dtype, ctx->err, ET_INVALID_ARGUMENT, "%s: dtypes %s and %s differ", what,
           et_dtype_name((et_dtype)a->dtype), et_dtype_name((et_dtype)b->dtype));
  return ET_OK;
}

void eti_copy_bytes(void *dst, const void *src, size_t bytes) {
  if (bytes != 0 && dst != src) memmove(dst, src, bytes);
}
