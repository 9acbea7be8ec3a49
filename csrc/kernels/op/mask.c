// mask.c — operators that follow a mask, or what differs from zero: masked_select, masked_scatter,
// nonzero. Relies on lanes.h.
#include "kernels/lanes.h"
#include "kernels/move.h"

static et_status mask_of(const et_kernel_ctx *ctx, et_value *const *args, et_tensor **mask) {
  ET_TRY(eti_arg_tensor(ctx, args, 1, mask));
  ET_CHECK((*mask)->dtype == ET_B8 || (*mask)->dtype == ET_U8, ctx->err, ET_INVALID_ARGUMENT,
           "the mask is %s, needs bool", et_dtype_name((et_dtype)(*mask)->dtype));
  return ET_OK;
}

// True elements of the mask (lane 1) broadcast to the shape of the lanes.
static et_status count_true(const et_kernel_ctx *ctx, const eti_lanes *start, const et_tensor *mask,
                            int64_t *count) {
  eti_lanes l = *start;
  const size_t last = l.shape.rank - 1;
  *count = 0;
  if (eti_lanes_empty(&l)) return ET_OK;
  do {
    const uint8_t *m = (const uint8_t *)mask->data + l.at[1];
    for (ptrdiff_t i = 0; i < l.shape.sizes[last]; i++) *count += m[i * l.strides[1][last]] != 0;
    ET_CHECK(*count <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "the mask selects too many elements");
  } while (eti_lanes_next(&l));
  return ET_OK;
}

static et_status masked_lanes(const et_kernel_ctx *ctx, const et_tensor *self,
                              const et_tensor *mask, eti_lanes *l) {
  const eti_shape a = eti_shape_of(self), b = eti_shape_of(mask);
  eti_shape shape;
  ET_TRY(eti_broadcast(ctx, &a, &b, &shape));
  eti_lanes_begin(l, &shape);
  eti_lanes_set(l, 1, mask);
  return ET_OK;
}

et_status op_masked_select_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *mask = NULL, *out = NULL;
  eti_lanes l;
  int64_t count = 0, k = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(mask_of(ctx, args, &mask));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(masked_lanes(ctx, self, mask, &l));
  eti_lanes_set(&l, 2, self);
  ET_TRY(count_true(ctx, &l, mask, &count));
  const eti_shape shape = {.rank = 1, .sizes = {(int32_t)count}};
  ET_TRY(eti_resize(ctx, out, &shape));
  if (eti_lanes_empty(&l)) return ET_OK;
  const size_t last = l.shape.rank - 1, bytes = et_dtype_bytes((et_dtype)out->dtype);
  do {
    const uint8_t *m = (const uint8_t *)mask->data + l.at[1];
    for (ptrdiff_t i = 0; i < l.shape.sizes[last] && k < count; i++) {
      if (m[i * l.strides[1][last]] == 0) continue;
      const ptrdiff_t at = l.at[2] + i * l.strides[2][last];
      eti_copy_one((char *)out->data + (size_t)k++ * bytes,
                   (const char *)self->data + at * (ptrdiff_t)bytes, bytes);
    }
  } while (eti_lanes_next(&l));
  return ET_OK;
}

// Offset, in elements, of logical element k.
static ptrdiff_t offset_of(const eti_view *view, int64_t k) {
  ptrdiff_t offset = 0;
  for (size_t d = view->shape.rank; d-- > 0;) {
    offset += (ptrdiff_t)(k % view->shape.sizes[d]) * view->strides[d];
    k /= view->shape.sizes[d];
  }
  return offset;
}

et_status op_masked_scatter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *mask = NULL, *source = NULL, *out = NULL;
  eti_lanes l;
  int64_t count = 0, k = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(mask_of(ctx, args, &mask));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &source));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_check_same_dtype(ctx, self, source, "self and source"));
  ET_TRY(masked_lanes(ctx, self, mask, &l));
  ET_TRY(count_true(ctx, &l, mask, &count));
  ET_CHECK((uint64_t)count <= source->numel, ctx->err, ET_INVALID_ARGUMENT,
           "masked_scatter: source has %zu elements, the mask needs %lld", source->numel,
           (long long)count);
  eti_lanes_set(&l, 2, self);
  const eti_view from = eti_view_of(source);
  eti_view own = {.shape = l.shape};
  for (size_t d = 0; d < l.shape.rank; d++) own.strides[d] = l.strides[2][d];
  if (self->rank == 0 && mask->rank == 0) own.shape.rank = 0;
  ET_TRY(eti_resize(ctx, out, &own.shape));
  eti_copy_first(ctx, out, &own, self->data);
  eti_lanes_set(&l, 0, out);
  if (eti_lanes_empty(&l)) return ET_OK;
  const bool dense = eti_is_contiguous(source);
  const size_t last = l.shape.rank - 1, bytes = et_dtype_bytes((et_dtype)out->dtype);
  do {
    const uint8_t *m = (const uint8_t *)mask->data + l.at[1];
    for (ptrdiff_t i = 0; i < l.shape.sizes[last] && k < count; i++) {
      if (m[i * l.strides[1][last]] == 0) continue;
      const ptrdiff_t at = l.at[0] + i * l.strides[0][last],
                      taken = dense ? (ptrdiff_t)k : offset_of(&from, k);
      eti_copy_one((char *)out->data + at * (ptrdiff_t)bytes,
                   (const char *)source->data + taken * (ptrdiff_t)bytes, bytes);
      k++;
    }
  } while (eti_lanes_next(&l));
  return ET_OK;
}

// ---- nonzero

// Bits that make an element differ from zero: all but the sign of floating point numbers. A pattern
// of 8 bytes is enough, since a complex number repeats the one of its parts.
static uint64_t nonzero_bits(et_dtype dtype) {
  switch (dtype) {
    case ET_F16:
    case ET_BF16:
    case ET_C32:
      return UINT64_C(0x7FFF7FFF7FFF7FFF);
    case ET_F32:
    case ET_C64:
      return UINT64_C(0x7FFFFFFF7FFFFFFF);
    case ET_F64:
    case ET_C128:
      return UINT64_C(0x7FFFFFFFFFFFFFFF);
    default:
      return UINT64_MAX;
  }
}

enum { FIND = 256 };  // elements searched at a time

// at[0..found): the positions of the n ≤ FIND elements that differ from zero.
static size_t find_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits,
                           int32_t at[FIND]) {
  size_t found = 0;
#define FIND_IN(is_nonzero)                     \
  for (size_t i = 0; i < n; i++, p += stride) { \
    at[found] = (int32_t)i;                     \
    found += (is_nonzero);                      \
  }
  switch (bytes) {
    case 1:
      FIND_IN(*(const uint8_t *)p != 0)
      break;
    case 2:
      FIND_IN((*(const uint16_t *)(const void *)p & (uint16_t)bits) != 0)
      break;
    case 4:
      FIND_IN((*(const uint32_t *)(const void *)p & (uint32_t)bits) != 0)
      break;
    case 8:
      FIND_IN((*(const uint64_t *)(const void *)p & bits) != 0)
      break;
    default:
      FIND_IN(((((const uint64_t *)(const void *)p)[0] | ((const uint64_t *)(const void *)p)[1]) &
               bits) != 0)
      break;
  }
#undef FIND_IN
  return found;
}

static size_t count_nonzero(const et_tensor *t, size_t bytes, uint64_t bits) {
  const char *const data = t->data;
  int32_t at[FIND];
  size_t count = 0;
  for (size_t i = 0; i < t->numel; i += FIND) {
    const size_t n = t->numel - i < FIND ? t->numel - i : FIND;
    count += find_nonzero(data + i * bytes, (ptrdiff_t)bytes, n, bytes, bits, at);
  }
  return count;
}

// One innermost line: its hits become rows k, k + 1 … of out, of `count` in all.
static size_t list_line(const eti_lanes *l, const et_tensor *self, size_t bytes, uint64_t bits,
                        const et_tensor *out, size_t k, size_t count) {
  const size_t rank = self->rank;
  const ptrdiff_t step = l->strides[2][rank - 1] * (ptrdiff_t)bytes;
  const char *const line = (const char *)self->data + l->at[2] * (ptrdiff_t)bytes;
  const size_t size = (size_t)l->shape.sizes[rank - 1];
  int32_t at[FIND];
  for (size_t i = 0; i < size; i += FIND) {
    const size_t n = size - i < FIND ? size - i : FIND;
    const size_t found = find_nonzero(line + (ptrdiff_t)i * step, step, n, bytes, bits, at);
    for (size_t hit = 0; hit < found && k < count; hit++) {
      int64_t *const row = (int64_t *)out->data + (ptrdiff_t)k++ * out->strides[0];
      for (size_t d = 0; d + 1 < rank; d++) row[(ptrdiff_t)d * out->strides[1]] = l->index[d];
      row[(ptrdiff_t)(rank - 1) * out->strides[1]] = (int64_t)i + at[hit];
    }
  }
  return k;
}

et_status op_nonzero_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  eti_lanes l;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  ET_CHECK(out->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT, "nonzero: out is %s, needs i64",
           et_dtype_name((et_dtype)out->dtype));
  const size_t rank = self->rank, bytes = et_dtype_bytes((et_dtype)self->dtype);
  const uint64_t bits = nonzero_bits((et_dtype)self->dtype);
  const size_t count = count_nonzero(self, bytes, bits);
  ET_CHECK(count <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT, "nonzero: %zu elements are not zero",
           count);
  const eti_shape own = eti_shape_of(self),
                  shape = {.rank = 2, .sizes = {(int32_t)count, (int32_t)rank}};
  eti_lanes_begin(&l, &own);
  eti_lanes_set(&l, 2, self);
  ET_TRY(eti_resize(ctx, out, &shape));
  if (eti_lanes_empty(&l) || rank == 0) return ET_OK;
  size_t k = 0;
  do k = list_line(&l, self, bytes, bits, out, k, count);
  while (eti_lanes_next(&l));
  return ET_OK;
}
