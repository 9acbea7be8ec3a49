// searchsorted.c — binary search of values in sorted boundaries: one row of boundaries for each row
// of values, or one for all. Values compare in the promoted type of both operands, as ATen does;
// NaN is greater than everything. Threads split the values. (bucketize is decomposed into operators
// that every runtime has.)
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <string.h>

typedef union number {
  double d;
  int64_t i;
} number;

// Reads elements (or a number) in the common type.
typedef struct reader {
  const char *data;
  eti_cast_fn narrow, widen;  // to the common type, then to f64 or i64
  ptrdiff_t bytes, common_bytes;
} reader;

enum { LANES = 32 };  // searches side by side

// Searches n_bounds boundaries `stride` bytes apart for n ≤ LANES values of the same type.
typedef void (*search_fn)(const char *bounds, ptrdiff_t stride, size_t n_bounds, const void *values,
                          size_t n, bool is_right, int64_t *found);

#define T float
#define SUFFIX f32
#include "kernels/op/searchsorted.body.h"
#define T double
#define SUFFIX f64
#include "kernels/op/searchsorted.body.h"
#define T int64_t
#define SUFFIX i64
#include "kernels/op/searchsorted.body.h"

typedef struct searching {
  reader bounds, values;
  const et_tensor *bounds_tensor, *values_tensor, *sorter, *out;  // values_tensor NULL: one number
  size_t n;                                                       // boundaries in a row
  ptrdiff_t bounds_step, sorter_step;                             // in bytes
  bool is_float, is_right, is_shared;
  search_fn direct;  // if boundaries have the common type and no sorter
  eti_iter it;       // operands: see `operands`
} searching;

enum operands { OUT, VALUES, BOUNDS, SORTER, N_OPERANDS };  // the last two: beginnings of rows

static number read_at(const reader *r, const char *element) {
  char common[16];
  number x;
  r->narrow(common, 0, element, 0, 1);
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
                .bytes = (ptrdiff_t)et_dtype_bytes(from),
                .common_bytes = (ptrdiff_t)et_dtype_bytes(common)};
  return ET_OK;
}

// True if boundary and value are in order; if not, the search goes on after the boundary.
static bool is_in_order(const searching *s, number bound, number value) {
  if (s->is_float) return s->is_right ? bound.d > value.d : bound.d >= value.d;
  return s->is_right ? bound.i > value.i : bound.i >= value.i;
}

static int64_t search_value(const searching *s, const char *bounds, const char *sorter,
                            number value) {
  size_t low = 0, high = s->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    size_t at = middle;
    if (s->sorter != NULL) {
      const void *const order = sorter + (ptrdiff_t)middle * s->sorter_step;
      const int64_t given = *(const int64_t *)order;
      // The index was checked before, but memory that overlaps the output may have changed since.
      at = (uint64_t)given < s->n ? (size_t)given : 0;
    }
    if (is_in_order(s, read_at(&s->bounds, bounds + (ptrdiff_t)at * s->bounds_step), value)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return (int64_t)low;
}

// Searches a row of values, which share their boundaries unless these have a stride.
static void search_row(void *ctx, void *const p[], const ptrdiff_t strides[], size_t n) {
  const searching *const s = ctx;
  const size_t most = strides[BOUNDS] == 0 && s->direct != NULL ? LANES : 1;
  _Alignas(8) char values[LANES * 8];
  int64_t found[LANES];
  for (size_t i = 0; i < n; i += most) {
    const size_t m = n - i < most ? n - i : most;
    const ptrdiff_t k = (ptrdiff_t)i;
    const char *const from = (const char *)p[VALUES] + k * strides[VALUES];
    const char *const bounds = (const char *)p[BOUNDS] + k * strides[BOUNDS];
    if (s->direct != NULL) {
      s->values.narrow(values, s->values.common_bytes, from, strides[VALUES], m);
      s->direct(bounds, s->bounds_step, s->n, values, m, s->is_right, found);
    } else {
      found[0] = search_value(s, bounds, (const char *)p[SORTER] + k * strides[SORTER],
                              read_at(&s->values, from));
    }
    char *const to = (char *)p[OUT] + k * strides[OUT];
    eti_casts[ET_I64][s->out->dtype](to, strides[OUT], found, 8, m);
  }
}

static void search_range(void *ctx, size_t begin, size_t end) {
  const searching *const s = ctx;
  eti_iter_rows(&s->it, begin, end, search_row, ctx);
}

static void search_all(const et_kernel_ctx *ctx, searching *s) {
  const et_tensor *const out = s->out;
  s->it = (eti_iter){.rank = 0, .numel = out->numel, .n_operands = N_OPERANDS};
  s->it.data[OUT] = out->data;
  s->it.data[VALUES] = (char *)(uintptr_t)s->values.data;
  s->it.data[BOUNDS] = (char *)(uintptr_t)s->bounds.data;
  s->it.data[SORTER] = s->sorter == NULL ? s->it.data[BOUNDS] : s->sorter->data;
  for (size_t d = out->rank; d-- > 0;) {
    ptrdiff_t strides[N_OPERANDS] = {out->strides[d] * (ptrdiff_t)et_dtype_bytes(out->dtype)};
    if (s->values_tensor != NULL) strides[VALUES] = s->values_tensor->strides[d] * s->values.bytes;
    if (!s->is_shared && d + 1u < out->rank) {
      strides[BOUNDS] = s->bounds_tensor->strides[d] * s->bounds.bytes;
      if (s->sorter != NULL) strides[SORTER] = s->sorter->strides[d] * (ptrdiff_t)sizeof(int64_t);
    }
    eti_iter_add_dim(&s->it, (size_t)out->sizes[d], strides);
  }
  const size_t grain = ETI_GRAIN_MATH / 8;
  if (out->numel > 0) et_parallel_for(ctx->pool, search_range, s, out->numel, grain);
}

static et_status check_sorter(const et_kernel_ctx *ctx, const searching *s) {
  const et_tensor *const b = s->bounds_tensor;
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(s->sorter->dtype == ET_I64 && eti_same_shape(s->sorter, b), ctx->err,
           ET_INVALID_ARGUMENT, "sorter: expected i64%s, the shape of the boundaries, got %s",
           eti_sizes_text(b->sizes, b->rank).text, eti_tensor_text(s->sorter, found));
  const int64_t *const order = s->sorter->data;
  for (size_t i = 0; i < s->sorter->numel; i++) {  // dense, so that the order does not matter
    ET_CHECK((uint64_t)order[i] < s->n, ctx->err, ET_INVALID_ARGUMENT,
             "sorter: index %lld is outside of the %zu boundaries", (long long)order[i], s->n);
  }
  return ET_OK;
}

// Checks that the rows of boundaries match the rows of values.
static et_status check_rows(const et_kernel_ctx *ctx, const searching *s) {
  const et_tensor *b = s->bounds_tensor, *v = s->values_tensor;
  bool same = s->is_shared || (v != NULL && v->rank == b->rank);
  for (size_t d = 0; same && !s->is_shared && d + 1 < b->rank; d++)
    same = b->sizes[d] == v->sizes[d];
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(same, ctx->err, ET_INVALID_ARGUMENT,
           "values: expected shape %s, as the boundaries, except in the last dimension, got %s",
           eti_sizes_text(b->sizes, b->rank).text,
           v == NULL ? "a number" : eti_tensor_text(v, found));
  return s->sorter == NULL ? ET_OK : check_sorter(ctx, s);
}

// The value operand is a tensor or a number; the output is last.
static et_status run_searchsorted(const et_kernel_ctx *ctx, et_value *const *args, searching *s) {
  et_tensor *bounds = NULL, *values = NULL, *out = NULL;
  eti_scalar scalar = {.is_float = false};
  et_dtype common;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &bounds));
  ET_TRY(eti_arg_tensor(ctx, args, 6, &out));
  ET_CHECK(out->dtype == ET_I64 || out->dtype == ET_I32, ctx->err, ET_INVALID_ARGUMENT,
           "out: expected i64 or i32, got %s", et_dtype_name((et_dtype)out->dtype));
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
  ET_CHECK(bounds->rank > 0, ctx->err, ET_INVALID_ARGUMENT,
           "boundaries: expected rank 1 or more, got 0");
  const size_t last = bounds->rank - 1u;
  s->n = (size_t)bounds->sizes[last];
  s->bounds_step = bounds->strides[last] * s->bounds.bytes;
  ET_TRY(check_rows(ctx, s));
  if (s->sorter != NULL) s->sorter_step = s->sorter->strides[last] * (ptrdiff_t)sizeof(int64_t);
  ET_TRY(eti_resize(ctx, out, &shape));
  search_all(ctx, s);
  return ET_OK;
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
             "side: expected \"left\" or \"right\", got \"%s\"", side);
    s.is_right = !left;
  }
  s.sorter = sorter;
  return run_searchsorted(ctx, args, &s);
}
