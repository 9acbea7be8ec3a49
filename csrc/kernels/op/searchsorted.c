// searchsorted.c — binary search of values in sorted boundaries: one row of boundaries for each row
// of values, or one for all. Values compare in the promoted type of both operands, as ATen does;
// NaN lies behind everything. (bucketize is decomposed into operators that every runtime has.)
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <string.h>

typedef union number {
  double d;
  int64_t i;
} number;

// A strided tensor (or a number) whose elements are read as numbers of the common type.
typedef struct reader {
  const char *data;
  eti_cast_fn narrow, widen;  // to the common type, then to f64 or i64
  ptrdiff_t bytes;
} reader;

typedef struct searching {
  reader bounds, values;
  const et_tensor *bounds_tensor, *values_tensor, *sorter, *out;  // values_tensor NULL: one number
  size_t n;                                                       // boundaries in a row
  ptrdiff_t bounds_step;
  bool is_float, is_right, is_shared;
  // Where boundaries have the common type and no sorter: searches n of them, `step` bytes apart.
  size_t (*direct)(const char *bounds, ptrdiff_t step, size_t n, number value, bool is_right);
} searching;

static number read_at(const reader *r, ptrdiff_t at) {
  char common[16];
  number x;
  r->narrow(common, 0, r->data + at * r->bytes, 0, 1);
  r->widen(&x, 0, common, 0, 1);
  return x;
}

static et_status reader_init(const et_kernel_ctx *ctx, reader *r, const void *data, et_dtype from,
                             et_dtype common) {
  const et_dtype wide = eti_is_float(common) ? ET_F64 : ET_I64;
  ET_CHECK(eti_dtype_in(from, ET_TYPES_REAL_HALF_BOOL), ctx->err, ET_NOT_SUPPORTED,
           "not defined for dtype %s", et_dtype_name(from));
  *r = (reader){.data = data,
                .narrow = eti_casts[from][common],
                .widen = eti_casts[common][wide],
                .bytes = (ptrdiff_t)et_dtype_bytes(from)};
  return ET_OK;
}

// Whether boundary and value are in order: the search goes on behind the boundary if not.
static bool stops(const searching *s, number bound, number value) {
  if (s->is_float) return s->is_right ? bound.d > value.d : bound.d >= value.d;
  return s->is_right ? bound.i > value.i : bound.i >= value.i;
}

static et_status search(const et_kernel_ctx *ctx, const searching *s, ptrdiff_t row,
                        ptrdiff_t sorter_row, number value, int64_t *found) {
  size_t low = 0, high = s->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    int64_t at = (int64_t)middle;
    if (s->sorter != NULL) {
      const int64_t *order = s->sorter->data;
      at = order[sorter_row + (ptrdiff_t)middle * s->sorter->strides[s->sorter->rank - 1]];
      ET_CHECK((uint64_t)at < s->n, ctx->err, ET_INVALID_ARGUMENT,
               "sorter: index %lld is outside of the %zu boundaries", (long long)at, s->n);
    }
    if (stops(s, read_at(&s->bounds, row + (ptrdiff_t)at * s->bounds_step), value)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  *found = (int64_t)low;
  return ET_OK;
}

#define SEARCH(name, T, field)                                                                    \
  static size_t name(const char *bounds, ptrdiff_t step, size_t n, number value, bool is_right) { \
    const T x = (T)value.field;                                                                   \
    size_t low = 0;                                                                               \
    for (size_t left = n; left > 0;) {                                                            \
      const size_t half = left / 2;                                                               \
      const T bound = *(const T *)(const void *)(bounds + (ptrdiff_t)(low + half) * step);        \
      const bool stop = is_right ? bound > x : bound >= x;                                        \
      low = stop ? low : low + half + 1;                                                          \
      left = stop ? half : left - half - 1;                                                       \
    }                                                                                             \
    return low;                                                                                   \
  }
SEARCH(search_f32, float, d)
SEARCH(search_f64, double, d)
SEARCH(search_i64, int64_t, i)
#undef SEARCH

static et_status search_all(const et_kernel_ctx *ctx, const searching *s) {
  const et_tensor *out = s->out;
  int32_t index[ET_MAX_RANK] = {0};
  for (size_t k = 0; k < out->numel; k++) {
    ptrdiff_t to = 0, value_at = 0, row = 0, sorter_row = 0;
    for (size_t d = 0; d < out->rank; d++) {
      const ptrdiff_t i = index[d];
      to += i * out->strides[d];
      if (s->values_tensor != NULL) value_at += i * s->values_tensor->strides[d];
      if (s->is_shared || d + 1 == out->rank) continue;
      row += i * s->bounds_tensor->strides[d];
      if (s->sorter != NULL) sorter_row += i * s->sorter->strides[d];
    }
    int64_t found = 0;
    const number value = read_at(&s->values, value_at);
    if (s->direct != NULL) {
      found = (int64_t)s->direct(s->bounds.data + row * s->bounds.bytes,
                                 s->bounds_step * s->bounds.bytes, s->n, value, s->is_right);
    } else {
      ET_TRY(search(ctx, s, row, sorter_row, value, &found));
    }
    if (out->dtype == ET_I64) {
      ((int64_t *)out->data)[to] = found;
    } else {
      ((int32_t *)out->data)[to] = (int32_t)found;
    }
    for (size_t d = out->rank; d-- > 0;) {
      if (++index[d] < out->sizes[d]) break;
      index[d] = 0;
    }
  }
  return ET_OK;
}

// The rows of boundaries must go with the rows of values.
static et_status check_rows(const et_kernel_ctx *ctx, const searching *s) {
  const et_tensor *b = s->bounds_tensor, *v = s->values_tensor;
  ET_CHECK(b->rank > 0, ctx->err, ET_INVALID_ARGUMENT, "the boundaries have no dimensions");
  bool same = s->is_shared || (v != NULL && v->rank == b->rank);
  for (size_t d = 0; same && !s->is_shared && d + 1 < b->rank; d++)
    same = b->sizes[d] == v->sizes[d];
  ET_CHECK(same, ctx->err, ET_INVALID_ARGUMENT,
           "boundaries of rank %d need values whose dimensions but the last are the same",
           (int)b->rank);
  if (s->sorter == NULL) return ET_OK;
  ET_CHECK(s->sorter->dtype == ET_I64 && eti_same_shape(s->sorter, b), ctx->err,
           ET_INVALID_ARGUMENT, "sorter: needs i64 in the shape of the boundaries");
  return ET_OK;
}

// The value operand is a tensor or a number; the output is last.
static et_status searchsorted(const et_kernel_ctx *ctx, et_value *const *args, searching *s) {
  et_tensor *bounds = NULL, *values = NULL, *out = NULL;
  eti_scalar scalar = {.is_float = false};
  et_dtype common;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &bounds));
  ET_TRY(eti_arg_tensor(ctx, args, 6, &out));
  ET_CHECK(out->dtype == ET_I64 || out->dtype == ET_I32, ctx->err, ET_INVALID_ARGUMENT,
           "out is %s, needs i64 or i32", et_dtype_name((et_dtype)out->dtype));
  s->bounds_tensor = bounds;
  s->out = out;
  eti_shape shape = {.rank = 0};
  if (args[1] != NULL && args[1]->tag == ET_TENSOR) {
    ET_TRY(eti_arg_tensor(ctx, args, 1, &values));
    ET_TRY(eti_result_type(ctx, bounds, values, &common));
    ET_TRY(reader_init(ctx, &s->values, values->data, (et_dtype)values->dtype, common));
    shape = eti_shape_of(values);
  } else {
    ET_TRY(eti_arg_scalar(ctx, args, 1, &scalar));
    ET_TRY(eti_result_type_scalar(ctx, bounds, &scalar, &common));
    ET_TRY(reader_init(ctx, &s->values, scalar.is_float ? (const void *)&scalar.d : &scalar.i,
                       scalar.is_float ? ET_F64 : ET_I64, common));
  }
  ET_TRY(reader_init(ctx, &s->bounds, bounds->data, (et_dtype)bounds->dtype, common));
  s->values_tensor = values;
  s->is_float = eti_is_float(common);
  s->is_shared = bounds->rank == 1;
  if (bounds->dtype == common && s->sorter == NULL)
    s->direct = common == ET_F32   ? search_f32
                : common == ET_F64 ? search_f64
                : common == ET_I64 ? search_i64
                                   : NULL;
  ET_TRY(check_rows(ctx, s));
  s->n = (size_t)bounds->sizes[bounds->rank - 1];
  s->bounds_step = bounds->strides[bounds->rank - 1];
  ET_TRY(eti_resize(ctx, out, &shape));
  return search_all(ctx, s);
}

// (sorted_sequence, self, out_int32, right, side, sorter, out): side wins over right
et_status op_searchsorted_out(et_kernel_ctx *ctx, et_value *const *args) {
  searching s = {.n = 0};
  const char *side = NULL;
  et_tensor *sorter = NULL;
  ET_TRY(eti_arg_bool(ctx, args, 3, &s.is_right));
  ET_TRY(eti_arg_string(ctx, args, 4, &side));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 5, &sorter));
  if (side != NULL) {
    const bool left = strcmp(side, "left") == 0;
    ET_CHECK(left || strcmp(side, "right") == 0, ctx->err, ET_INVALID_ARGUMENT,
             "side \"%s\": needs \"left\" or \"right\"", side);
    s.is_right = !left;
  }
  s.sorter = sorter;
  return searchsorted(ctx, args, &s);
}
