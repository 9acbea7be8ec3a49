// arg_reduce.c — where the extremes are: argmax, argmin, max and min with indices.
// NaN counts as the greatest (and, for argmin and min, the least) value and the first of equal
// elements wins, as in ATen. Works on one line of elements at a time, cast in blocks to f64 or i64,
// in which every element type is exact.
#include "kernels/kernel.h"
#include "kernels/ops.h"
#include "kernels/reduction.h"

// ---- the best element of a line

typedef struct best {
  bool largest;
  bool is_float;
  et_dtype dtype;
  bool found;
  size_t at;      // elements seen so far
  int64_t index;  // of the best
  union {
    double d;
    int64_t i;
  } value;
} best;

static bool float_beats(double x, double than, bool largest) {
  if (than != than) return false;
  return x != x || (largest ? x > than : x < than);
}

static void best_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  best *b = ctx;
  union {
    double d[ETI_REDUCE_BLOCK];
    int64_t i[ETI_REDUCE_BLOCK];
  } x;
  const eti_cast_fn cast = eti_casts[b->dtype][b->is_float ? ET_F64 : ET_I64];
  for (size_t done = 0; done < n; done += ETI_REDUCE_BLOCK) {
    const size_t m = n - done < ETI_REDUCE_BLOCK ? n - done : ETI_REDUCE_BLOCK;
    cast(&x, (ptrdiff_t)sizeof(double), (const char *)p[0] + (ptrdiff_t)done * s[0], s[0], m);
    for (size_t j = 0; j < m; j++) {
      const bool better = !b->found || (b->is_float  ? float_beats(x.d[j], b->value.d, b->largest)
                                        : b->largest ? x.i[j] > b->value.i
                                                     : x.i[j] < b->value.i);
      if (!better) continue;
      b->found = true;
      b->index = (int64_t)(b->at + j);
      if (b->is_float) {
        b->value.d = x.d[j];
      } else {
        b->value.i = x.i[j];
      }
    }
    b->at += m;
  }
}

typedef struct arg_job {
  bool largest;
  bool has_value;  // output 0 is the value, 1 the index; else 0 is the index
  eti_cast_fn store_value;
} arg_job;

static void arg_results(void *ctx, const eti_result_block *block) {
  const arg_job *job = ctx;
  const et_dtype dtype = (et_dtype)block->r->in->dtype;
  const size_t i_index = job->has_value ? 1 : 0;
  for (size_t j = 0; j < block->n; j++) {
    best b = {.largest = job->largest, .is_float = eti_is_float(dtype), .dtype = dtype};
    block->reduced->data[0] = (char *)(uintptr_t)block->in + (ptrdiff_t)j * block->in_stride;
    eti_iter_rows(block->reduced, 0, block->reduced->numel, best_row, &b);
    if (job->has_value)
      job->store_value(block->out[0] + (ptrdiff_t)j * block->out_stride[0], 0, &b.value, 0, 1);
    *(int64_t *)(void *)(block->out[i_index] + (ptrdiff_t)j * block->out_stride[i_index]) = b.index;
  }
}

static et_status check_indices(const et_kernel_ctx *ctx, const et_tensor *indices) {
  ET_CHECK(indices->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT, "indices: dtype %s, needs i64",
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
           "the extreme of no elements is undefined");
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
