// arg_reduce.c — positions of extremes: argmax, argmin, max and min with indices. NaN counts as the
// greatest (and, for argmin and min, the least) value and the first of equal elements wins, as in
// ATen. Along a line the extreme of a block is found first, its place only where it is better than
// the best so far; across lines many advance together.
#include "kernels/kernel.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/rows/row_reduce.h"
#include "kernels/ops.h"
#include "kernels/lib/reduction.h"

// Entries of the tables that are called as such.
ETI_USES(rows, row_max)
ETI_USES(rows, row_min)

// ---- the best element of a line

typedef union values {
  float f[ETI_REDUCE_RESULTS];
  double d[ETI_REDUCE_RESULTS];
  int64_t i[ETI_REDUCE_RESULTS];
} values;

typedef struct best {
  bool largest;
  et_dtype dtype, load;  // load: f32, f64 or i64
  bool found;
  size_t at;      // elements seen so far
  int64_t index;  // of the best
  double d;       // the best, of floats
  int64_t i;      // the best, of integers
} best;

static et_dtype load_type(et_dtype dtype) {
  return !eti_is_float(dtype) ? ET_I64 : dtype == ET_F64 ? ET_F64 : ET_F32;
}

// Finds the first of n elements that equals the wanted one; NaN equals NaN.
#define FIRST_OF(name, type)                                                          \
  static size_t name(const type *x, type wanted, size_t n) {                          \
    size_t i = 0;                                                                     \
    for (bool none = true; none && i + 16 <= n; i += none ? 16 : 0) {                 \
      unsigned hits = 0;                                                              \
      for (size_t l = 0; l < 16; l++)                                                 \
        hits += (x[i + l] == wanted) | ((x[i + l] != x[i + l]) & (wanted != wanted)); \
      none = hits == 0;                                                               \
    }                                                                                 \
    while (i + 1 < n && x[i] != wanted && !(x[i] != x[i] && wanted != wanted)) i++;   \
    return i;                                                                         \
  }
FIRST_OF(first_f32, float)
FIRST_OF(first_f64, double)
FIRST_OF(first_i64, int64_t)

static void update_best_floats(best *b, double extreme, const void *x, size_t n) {
  if (b->found) {
    if (b->d != b->d) return;
    if (extreme == extreme && !(b->largest ? extreme > b->d : extreme < b->d)) return;
  }
  const size_t at = b->load == ET_F32 ? first_f32(x, (float)extreme, n) : first_f64(x, extreme, n);
  b->found = true;  // of zeros, the sign is that of the first
  b->d = b->load == ET_F32 ? (double)((const float *)x)[at] : ((const double *)x)[at];
  b->index = (int64_t)(b->at + at);
}

static void update_best_integers(best *b, int64_t extreme, const int64_t *x, size_t n) {
  if (b->found && !(b->largest ? extreme > b->i : extreme < b->i)) return;
  b->found = true;
  b->i = extreme;
  b->index = (int64_t)(b->at + first_i64(x, extreme, n));
}

static void best_of_run(best *b, const void *x, size_t n) {
  const eti_row_reduce_micro *const m = eti_row_reduce_micro_get();
  if (b->load == ET_F32) {
    const eti_eltwise *const e = eti_eltwise_get();
    update_best_floats(b, (double)(b->largest ? e->row_max : e->row_min)(x, n), x, n);
  } else if (b->load == ET_F64) {
    double extreme = *(const double *)x;
    (b->largest ? m->max_f64 : m->min_f64).rows(&extreme, x, 0, n, 1, NULL);
    update_best_floats(b, extreme, x, n);
  } else {
    int64_t extreme = *(const int64_t *)x;
    (b->largest ? m->max_i64 : m->min_i64).rows(&extreme, x, 0, n, 1, NULL);
    update_best_integers(b, extreme, x, n);
  }
  b->at += n;
}

static void best_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  best *b = ctx;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes(b->load);
  const bool dense = b->dtype == b->load && s[0] == item;
  values x;
  for (size_t done = 0; done < n; done += ETI_REDUCE_RESULTS) {
    const size_t m = n - done < ETI_REDUCE_RESULTS ? n - done : ETI_REDUCE_RESULTS;
    const char *const from = (const char *)p[0] + (ptrdiff_t)done * s[0];
    if (!dense) eti_casts[b->dtype][b->load](&x, item, from, s[0], m);
    best_of_run(b, dense ? (const void *)from : &x, m);
  }
}

// ---- the best elements of neighbouring columns

typedef struct columns {
  bool largest, is_float;
  eti_cast_fn load;  // to f64 or i64
  ptrdiff_t stride;
  size_t w;
  int64_t at;  // rows seen so far
  values best;
  int64_t index[ETI_REDUCE_RESULTS];
} columns;

static void best_columns(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  columns *c = ctx;
  const eti_row_reduce_micro *const m = eti_row_reduce_micro_get();
  values x;
  for (size_t i = 0; i < n; i++, c->at++) {
    const bool first = c->at == 0;
    c->load(first ? &c->best : &x, 8, (const char *)p[0] + (ptrdiff_t)i * s[0], c->stride, c->w);
    if (first) {
      for (size_t j = 0; j < c->w; j++) c->index[j] = 0;
    } else if (c->is_float) {
      (c->largest ? m->arg_max_f64 : m->arg_min_f64)(c->best.d, c->index, x.d, c->at, c->w);
    } else {
      (c->largest ? m->arg_max_i64 : m->arg_min_i64)(c->best.i, c->index, x.i, c->at, c->w);
    }
  }
}

typedef struct arg_job {
  bool largest;
  bool has_value;           // output 0 is the value, 1 the index; else 0 is the index
  eti_cast_fn store_value;  // from f64 or i64
} arg_job;

// Short lines cost more one by one than reading columns that are not contiguous.
#define SHORT_LINE 32u

static void column_results(const arg_job *job, const eti_result_block *block) {
  const et_dtype dtype = (et_dtype)block->r->in->dtype;
  const size_t i_index = job->has_value ? 1 : 0;
  columns c = {.largest = job->largest,
               .is_float = eti_is_float(dtype),
               .load = eti_casts[dtype][eti_is_float(dtype) ? ET_F64 : ET_I64],
               .stride = block->in_stride,
               .w = block->n};
  block->reduced->data[0] = (char *)(uintptr_t)block->in;
  eti_iter_rows(block->reduced, 0, block->reduced->numel, best_columns, &c);
  if (job->has_value) job->store_value(block->out[0], block->out_stride[0], &c.best, 8, c.w);
  eti_casts[ET_I64][ET_I64](block->out[i_index], block->out_stride[i_index], c.index, 8, c.w);
}

static void arg_results(void *ctx, const eti_result_block *block) {
  const arg_job *job = ctx;
  const et_dtype dtype = (et_dtype)block->r->in->dtype;
  const size_t i_index = job->has_value ? 1 : 0;
  if (block->n > 1 && (block->r->across || block->r->n <= SHORT_LINE)) {
    column_results(job, block);
    return;
  }
  for (size_t j = 0; j < block->n; j++) {
    best b = {.largest = job->largest, .dtype = dtype, .load = load_type(dtype)};
    block->reduced->data[0] = (char *)(uintptr_t)block->in + (ptrdiff_t)j * block->in_stride;
    if (block->reduced->rank == 1) {  // one run of memory, the usual case
      void *const start[1] = {block->reduced->data[0]};
      best_row(&b, start, block->reduced->strides[0], block->reduced->sizes[0]);
    } else {
      eti_iter_rows(block->reduced, 0, block->reduced->numel, best_row, &b);
    }
    const void *const value = eti_is_float(dtype) ? (const void *)&b.d : &b.i;
    if (job->has_value)
      job->store_value(block->out[0] + (ptrdiff_t)j * block->out_stride[0], 0, value, 0, 1);
    *(int64_t *)(void *)(block->out[i_index] + (ptrdiff_t)j * block->out_stride[i_index]) = b.index;
  }
}

static et_status check_indices(const et_kernel_ctx *ctx, const et_tensor *indices) {
  ET_CHECK(indices->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT, "indices: expected i64, got %s",
           et_dtype_name((et_dtype)indices->dtype));
  return ET_OK;
}

static et_status check_values(const et_kernel_ctx *ctx, const et_tensor *in) {
  ET_CHECK(eti_dtype_in((et_dtype)in->dtype, ET_TYPES_REAL_HALF_BOOL), ctx->err, ET_NOT_SUPPORTED,
           "self: not defined for dtype %s", et_dtype_name((et_dtype)in->dtype));
  return ET_OK;
}

static et_status arg_reduce(et_kernel_ctx *ctx, const et_tensor *in, et_tensor *const *outs,
                            size_t n_outs, uint32_t mask, bool keepdim, const eti_shape *shape,
                            arg_job *job) {
  for (size_t k = 0; k < n_outs; k++) ET_TRY(eti_resize(ctx, outs[k], shape));
  if (outs[0]->numel == 0) return ET_OK;
  ET_CHECK(in->numel != 0, ctx->err, ET_INVALID_ARGUMENT,
           "the maximum or minimum of no elements is undefined");
  eti_reduction r;
  eti_reduction_init(&r, in, outs, n_outs, mask, keepdim, true);
  eti_reduction_run(ctx, &r, arg_results, job);
  return ET_OK;
}

// (self, dim or None, keepdim, out): without dim the index counts all elements in logical order.
static et_status arg_extreme(et_kernel_ctx *ctx, et_value *const *args, bool largest) {
  et_tensor *in, *out;
  int64_t wanted = 0;
  bool present = false, keepdim = false;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_optional_int(ctx, args, 1, &present, &wanted));
  ET_TRY(eti_arg_bool(ctx, args, 2, &keepdim));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(check_values(ctx, in));
  ET_TRY(check_indices(ctx, out));
  uint32_t mask = 0;
  ET_TRY(eti_wrap_dims(ctx, &wanted, present ? 1 : 0, in->rank, true, &mask));
  const eti_shape shape = eti_reduced_shape(in, mask, keepdim);
  arg_job job = {.largest = largest};
  return arg_reduce(ctx, in, &out, 1, mask, keepdim, &shape, &job);
}

et_status op_argmax_out(et_kernel_ctx *ctx, et_value *const *args) {
  return arg_extreme(ctx, args, true);
}
et_status op_argmin_out(et_kernel_ctx *ctx, et_value *const *args) {
  return arg_extreme(ctx, args, false);
}

// (self, dim, keepdim, values, indices)
static et_status extreme_with_index(et_kernel_ctx *ctx, et_value *const *args, bool largest) {
  et_tensor *in, *outs[2];
  int64_t wanted = 0;
  bool keepdim = false;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_int(ctx, args, 1, &wanted));
  ET_TRY(eti_arg_bool(ctx, args, 2, &keepdim));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &outs[0]));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &outs[1]));
  ET_TRY(check_values(ctx, in));
  ET_TRY(eti_check_same_dtype(ctx, in, outs[0], "values"));
  ET_TRY(check_indices(ctx, outs[1]));
  uint32_t mask = 0;
  ET_TRY(eti_wrap_dims(ctx, &wanted, 1, in->rank, false, &mask));
  const eti_shape shape = eti_reduced_shape(in, mask, keepdim);
  arg_job job = {
      .largest = largest,
      .has_value = true,
      .store_value = eti_casts[eti_is_float((et_dtype)in->dtype) ? ET_F64 : ET_I64][in->dtype]};
  return arg_reduce(ctx, in, outs, 2, mask, keepdim, &shape, &job);
}

et_status op_max_dim_max(et_kernel_ctx *ctx, et_value *const *args) {
  return extreme_with_index(ctx, args, true);
}
et_status op_min_dim_min(et_kernel_ctx *ctx, et_value *const *args) {
  return extreme_with_index(ctx, args, false);
}
