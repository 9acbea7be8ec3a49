// reduce.c — sums, means, products, extremes, variances and any, over some or all dimensions. Sums
// of f32 are added in lanes within a row, in groups of eight across rows, and in f64 beyond (see
// micro/rows/row_reduce.h); integers add in i64 and wrap. NaN wins in extremes. An empty reduction
// gives the operation's neutral element, or an error if there is none.
#include "kernels/kernel.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/rows/row_reduce.h"
#include "kernels/ops.h"
#include "kernels/lib/reduction.h"

#include <math.h>

// ---- reducers, named by the type they load

#define MICRO(name, types)                                                                 \
  static void name##_rows(void *acc, const void *x, ptrdiff_t step, size_t n, size_t w,    \
                          const void *center) {                                            \
    eti_row_reduce_micro_get()->name.rows(acc, x, step, n, w, center);                     \
  }                                                                                        \
  static void name##_columns(void *acc, const void *x, ptrdiff_t step, size_t n, size_t w, \
                             const void *center) {                                         \
    eti_row_reduce_micro_get()->name.columns(acc, x, step, n, w, center);                  \
  }
ETI_ROW_REDUCE_LIST(MICRO)
#undef MICRO

#define FROM_DOUBLE(value) {.is_float = true, .d = value}
#define FROM_INT(value) {.i = value}
#define REDUCER(name, load_, acc_, init_, merge_)             \
  static const eti_reducer name = {.load = load_,             \
                                   .acc = acc_,               \
                                   .init = init_,             \
                                   .rows = name##_rows,       \
                                   .columns = name##_columns, \
                                   .merge = merge_##_columns};
REDUCER(sum_f32, ET_F32, ET_F64, FROM_DOUBLE(0.0), sum_f64)
REDUCER(sum_f64, ET_F64, ET_F64, FROM_DOUBLE(0.0), sum_f64)
REDUCER(sum_i64, ET_I64, ET_I64, FROM_DOUBLE(0.0), sum_i64)
REDUCER(square_f32, ET_F32, ET_F64, FROM_DOUBLE(0.0), sum_f64)
REDUCER(square_f64, ET_F64, ET_F64, FROM_DOUBLE(0.0), sum_f64)
REDUCER(prod_f32, ET_F32, ET_F64, FROM_DOUBLE(1.0), prod_f64)
REDUCER(prod_f64, ET_F64, ET_F64, FROM_DOUBLE(1.0), prod_f64)
REDUCER(prod_i64, ET_I64, ET_I64, FROM_DOUBLE(1.0), prod_i64)
REDUCER(max_f32, ET_F32, ET_F32, FROM_DOUBLE(-(double)INFINITY), max_f32)
REDUCER(max_f64, ET_F64, ET_F64, FROM_DOUBLE(-(double)INFINITY), max_f64)
REDUCER(max_u8, ET_U8, ET_U8, FROM_INT(0), max_u8)
REDUCER(max_i8, ET_I8, ET_I8, FROM_INT(INT8_MIN), max_i8)
REDUCER(max_i16, ET_I16, ET_I16, FROM_INT(INT16_MIN), max_i16)
REDUCER(max_i32, ET_I32, ET_I32, FROM_INT(INT32_MIN), max_i32)
REDUCER(max_i64, ET_I64, ET_I64, FROM_INT(INT64_MIN), max_i64)
REDUCER(min_f32, ET_F32, ET_F32, FROM_DOUBLE((double)INFINITY), min_f32)
REDUCER(min_f64, ET_F64, ET_F64, FROM_DOUBLE((double)INFINITY), min_f64)
REDUCER(min_u8, ET_U8, ET_U8, FROM_INT(UINT8_MAX), min_u8)
REDUCER(min_i8, ET_I8, ET_I8, FROM_INT(INT8_MAX), min_i8)
REDUCER(min_i16, ET_I16, ET_I16, FROM_INT(INT16_MAX), min_i16)
REDUCER(min_i32, ET_I32, ET_I32, FROM_INT(INT32_MAX), min_i32)
REDUCER(min_i64, ET_I64, ET_I64, FROM_INT(INT64_MAX), min_i64)
REDUCER(any_b8, ET_B8, ET_B8, FROM_DOUBLE(0.0), any_b8)

// The reducers of one operation, selected by the type of computation.
typedef struct family {
  const eti_reducer *f32, *f64, *i64;
  const eti_reducer *small[4];  // of u8, i8, i16 and i32 themselves, or NULL
} family;
static const family sum_family = {&sum_f32, &sum_f64, &sum_i64, {NULL}};
static const family prod_family = {&prod_f32, &prod_f64, &prod_i64, {NULL}};
static const family max_family = {
    &max_f32, &max_f64, &max_i64, {&max_u8, &max_i8, &max_i16, &max_i32}};
static const family min_family = {
    &min_f32, &min_f64, &min_i64, {&min_u8, &min_i8, &min_i16, &min_i32}};

static const eti_reducer *choose_reducer(const family *f, et_dtype in, et_dtype type) {
  if (in == type && type <= ET_I32 && f->small[type] != NULL) return f->small[type];
  if (eti_is_integral(type)) return f->i64;
  // Integers of more than 24 bits are inexact in f32, so they are summed in f64 for every type of
  // result.
  return type == ET_F64 || in == ET_F64 || in == ET_I32 || in == ET_I64 ? f->f64 : f->f32;
}

// ---- results

typedef struct finish {
  const eti_reducer *reducer;
  const eti_reducer *deviations;  // second pass around the mean, or NULL
  double divisor;                 // of the mean; 0 for none
  double variance_divisor;
  eti_cast_fn store[2];  // from the accumulator to the outputs
  size_t i_mean;         // output that receives the mean of a variance, or 2 for none
} finish;

static void plain_results(void *ctx, const eti_result_block *b) {
  const finish *f = ctx;
  double acc[ETI_REDUCE_RESULTS];
  const ptrdiff_t acc_bytes = (ptrdiff_t)et_dtype_bytes(f->reducer->acc);
  eti_reduce(b->r, b->reduced, f->reducer, b->in, b->in_stride, b->n, NULL, acc);
  for (size_t j = 0; f->divisor != 0.0 && j < b->n; j++) acc[j] /= f->divisor;
  f->store[0](b->out[0], b->out_stride[0], acc, acc_bytes, b->n);
}

static void variance_results(void *ctx, const eti_result_block *b) {
  const finish *f = ctx;
  double acc[ETI_REDUCE_RESULTS], mean[ETI_REDUCE_RESULTS], centers[ETI_REDUCE_RESULTS];
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(double),
                  load_bytes = (ptrdiff_t)et_dtype_bytes(f->deviations->load);
  eti_reduce(b->r, b->reduced, f->reducer, b->in, b->in_stride, b->n, NULL, mean);
  for (size_t j = 0; j < b->n; j++) mean[j] /= (double)b->r->n;
  eti_casts[ET_F64][f->deviations->load](centers, load_bytes, mean, bytes, b->n);
  eti_reduce(b->r, b->reduced, f->deviations, b->in, b->in_stride, b->n, centers, acc);
  for (size_t j = 0; j < b->n; j++) acc[j] /= f->variance_divisor;
  f->store[0](b->out[0], b->out_stride[0], acc, bytes, b->n);
  if (f->i_mean < 2)
    f->store[f->i_mean](b->out[f->i_mean], b->out_stride[f->i_mean], mean, bytes, b->n);
}

static et_status find_store(const et_kernel_ctx *ctx, const eti_reducer *reducer,
                            const et_tensor *out, eti_cast_fn *store) {
  *store = eti_casts[reducer->acc][out->dtype];
  ET_CHECK(*store != NULL && !eti_is_complex((et_dtype)out->dtype), ctx->err, ET_NOT_SUPPORTED,
           "out: not defined for dtype %s", et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status check_input(const et_kernel_ctx *ctx, const et_tensor *in) {
  ET_CHECK(eti_dtype_in((et_dtype)in->dtype, ET_TYPES_REAL_HALF_BOOL), ctx->err, ET_NOT_SUPPORTED,
           "self: not defined for dtype %s", et_dtype_name((et_dtype)in->dtype));
  return ET_OK;
}

static et_status reduce_into(et_kernel_ctx *ctx, const et_tensor *in, et_tensor *out, uint32_t mask,
                             bool keepdim, const eti_reducer *reducer, double divisor) {
  const eti_shape shape = eti_reduced_shape(in, mask, keepdim);
  finish f = {.reducer = reducer, .divisor = divisor};
  ET_TRY(find_store(ctx, reducer, out, &f.store[0]));
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  eti_reduction r;
  eti_reduction_init(&r, in, &out, 1, mask, keepdim, false);
  eti_reduction_split(ctx, &r);
  eti_reduction_run(ctx, &r, plain_results, &f);
  return ET_OK;
}

// ---- dimensions: a list, one number, or None; an empty list means all

static et_status read_dims(const et_kernel_ctx *ctx, et_value *const *args, size_t i, size_t rank,
                           uint32_t *mask) {
  int64_t dims[ET_MAX_RANK];
  size_t n = 0;
  if (args[i] != NULL && args[i]->tag == ET_INT) {
    n = 1;
    dims[0] = args[i]->as.i;
  } else {
    bool present;
    ET_TRY(eti_arg_optional_ints(ctx, args, i, &present, dims, ET_MAX_RANK, &n));
  }
  return eti_wrap_dims(ctx, dims, n, rank, true, mask);
}

typedef struct operands {
  et_tensor *in, *out;
  uint32_t mask;
  bool keepdim;
} operands;

// (self, dim, keepdim, …, out) with out at i_out.
static et_status read_operands(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                               operands *o) {
  ET_TRY(eti_arg_tensor(ctx, args, 0, &o->in));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &o->out));
  ET_TRY(check_input(ctx, o->in));
  ET_TRY(read_dims(ctx, args, 1, o->in->rank, &o->mask));
  return eti_arg_bool(ctx, args, 2, &o->keepdim);
}

static uint32_t all_dims(const et_tensor *t) {
  return (1u << t->rank) - 1u;
}

static size_t reduced_numel(const et_tensor *in, uint32_t mask) {
  size_t n = 1;
  for (size_t d = 0; d < in->rank; d++) n *= (mask >> d & 1u) != 0 ? (size_t)in->sizes[d] : 1;
  return n;
}

// ---- sum, mean, prod: the result is computed in the output's type (the file already applied
// dtype=)

// A complex tensor as a real one, with the parts as one more innermost dimension.
typedef struct parts {
  et_tensor t;
  int32_t sizes[ET_MAX_RANK + 1];
  ptrdiff_t strides[ET_MAX_RANK + 1];
  uint8_t dim_order[ET_MAX_RANK + 1];
} parts;

static void parts_of(const et_tensor *complex, parts *p) {
  const size_t rank = complex->rank < ET_MAX_RANK ? complex->rank : ET_MAX_RANK - 1u;
  p->t = *complex;
  for (size_t d = 0; d < rank; d++) {
    p->sizes[d] = complex->sizes[d];
    p->strides[d] = 2 * complex->strides[d];
    p->dim_order[d] = complex->dim_order[d];
  }
  p->sizes[rank] = 2;
  p->strides[rank] = 1;
  p->dim_order[rank] = (uint8_t)rank;
  p->t.sizes = p->sizes;
  p->t.strides = p->strides;
  p->t.dim_order = p->dim_order;
  p->t.rank = (uint8_t)(rank + 1);
  p->t.numel = 2 * complex->numel;
  p->t.capacity = 2 * complex->capacity;
  p->t.dtype = complex->dtype == ET_C64 ? ET_F32 : ET_F64;
}

static et_status sum_complex(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &o.in));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &o.out));
  ET_TRY(read_dims(ctx, args, 1, o.in->rank, &o.mask));
  ET_TRY(eti_arg_bool(ctx, args, 2, &o.keepdim));
  ET_TRY(eti_check_same_dtype(ctx, o.in, o.out, "self and out"));
  ET_CHECK(o.in->dtype != ET_C32 && o.in->rank + 1u < ET_MAX_RANK, ctx->err, ET_NOT_SUPPORTED,
           "self: expected c64 or c128 and a rank below %d, got %s of rank %d", ET_MAX_RANK - 1,
           et_dtype_name((et_dtype)o.in->dtype), (int)o.in->rank);
  const eti_shape shape = eti_reduced_shape(o.in, o.mask, o.keepdim);
  ET_TRY(eti_resize(ctx, o.out, &shape));
  parts in, out;
  parts_of(o.in, &in);
  parts_of(o.out, &out);
  const et_dtype real = (et_dtype)in.t.dtype;
  return reduce_into(ctx, &in.t, &out.t, o.mask, o.keepdim, choose_reducer(&sum_family, real, real),
                     0.0);
}

et_status op_sum_intlist_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (args[0] != NULL && args[0]->tag == ET_TENSOR &&
      eti_is_complex((et_dtype)args[0]->as.tensor->dtype))
    return sum_complex(ctx, args);
  operands o = {0};
  ET_TRY(read_operands(ctx, args, 4, &o));
  return reduce_into(ctx, o.in, o.out, o.mask, o.keepdim,
                     choose_reducer(&sum_family, (et_dtype)o.in->dtype, (et_dtype)o.out->dtype),
                     0.0);
}

static et_status run_mean(et_kernel_ctx *ctx, const operands *o) {
  const et_dtype type = (et_dtype)o->out->dtype;
  ET_CHECK(eti_is_float(type), ctx->err, ET_INVALID_ARGUMENT,
           "out: expected floating point for a mean, got %s", et_dtype_name(type));
  const size_t n = reduced_numel(o->in, o->mask);
  // An empty mean is 0 / 0, which is NaN; a divisor of 0 means no division.
  const eti_reducer *reducer = choose_reducer(&sum_family, (et_dtype)o->in->dtype, type);
  return reduce_into(ctx, o->in, o->out, o->mask, o->keepdim, reducer,
                     n == 0 ? (double)NAN : (double)n);
}

et_status op_mean_out(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  ET_TRY(read_operands(ctx, args, 4, &o));
  return run_mean(ctx, &o);
}

et_status op_mean_dtype_out(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &o.in));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &o.out));
  ET_TRY(check_input(ctx, o.in));
  o.mask = all_dims(o.in);
  return run_mean(ctx, &o);
}

et_status op_prod_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(check_input(ctx, in));
  return reduce_into(ctx, in, out, all_dims(in), false,
                     choose_reducer(&prod_family, (et_dtype)in->dtype, (et_dtype)out->dtype), 0.0);
}

et_status op_prod_int_out(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  ET_TRY(read_operands(ctx, args, 4, &o));
  return reduce_into(ctx, o.in, o.out, o.mask, o.keepdim,
                     choose_reducer(&prod_family, (et_dtype)o.in->dtype, (et_dtype)o.out->dtype),
                     0.0);
}

// ---- extremes

static et_status run_extreme(et_kernel_ctx *ctx, const operands *o, const family *f) {
  const et_dtype type = (et_dtype)o->in->dtype;
  ET_TRY(eti_check_cast(ctx, type, o->out));
  const size_t n = reduced_numel(o->in, o->mask);
  const eti_shape kept = eti_reduced_shape(o->in, o->mask, false);
  size_t results = 1;
  for (size_t d = 0; d < kept.rank; d++) results *= (size_t)kept.sizes[d];
  ET_CHECK(n != 0 || results == 0, ctx->err, ET_INVALID_ARGUMENT,
           "the maximum or minimum of no elements is undefined");
  return reduce_into(ctx, o->in, o->out, o->mask, o->keepdim, choose_reducer(f, type, type), 0.0);
}

static et_status extreme_over_dims(et_kernel_ctx *ctx, et_value *const *args, const family *f) {
  operands o = {0};
  ET_TRY(read_operands(ctx, args, 3, &o));
  return run_extreme(ctx, &o, f);
}

static et_status extreme_over_all(et_kernel_ctx *ctx, et_value *const *args, const family *f) {
  operands o = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &o.in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &o.out));
  ET_TRY(check_input(ctx, o.in));
  o.mask = all_dims(o.in);
  return run_extreme(ctx, &o, f);
}

et_status op_amax_out(et_kernel_ctx *ctx, et_value *const *args) {
  return extreme_over_dims(ctx, args, &max_family);
}
et_status op_amin_out(et_kernel_ctx *ctx, et_value *const *args) {
  return extreme_over_dims(ctx, args, &min_family);
}
et_status op_max_unary_out(et_kernel_ctx *ctx, et_value *const *args) {
  return extreme_over_all(ctx, args, &max_family);
}
et_status op_min_unary_out(et_kernel_ctx *ctx, et_value *const *args) {
  return extreme_over_all(ctx, args, &min_family);
}

// ---- any

// Reads bytes directly: the reducer tests them for 0.
static et_status any_into(et_kernel_ctx *ctx, const et_tensor *in, et_tensor *out, uint32_t mask,
                          bool keepdim) {
  et_tensor as_read = *in;
  if (et_dtype_bytes((et_dtype)in->dtype) == 1) as_read.dtype = ET_B8;
  return reduce_into(ctx, &as_read, out, mask, keepdim, &any_b8, 0.0);
}

et_status op_any_out(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  ET_TRY(read_operands(ctx, args, 3, &o));
  // An empty list of dimensions means none here, in ATen: in the other reductions it means all.
  if (args[1] != NULL && args[1]->tag == ET_INT_LIST && args[1]->n == 0) o.mask = 0;
  return any_into(ctx, o.in, o.out, o.mask, o.keepdim);
}

et_status op_any_all_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  ET_TRY(check_input(ctx, in));
  return any_into(ctx, in, out, all_dims(in), false);
}

// ---- variance

static et_status run_variance(et_kernel_ctx *ctx, const operands *o, et_tensor *mean_out,
                              double correction) {
  const et_dtype type = (et_dtype)o->in->dtype;
  ET_CHECK(eti_is_float(type), ctx->err, ET_INVALID_ARGUMENT,
           "self: expected floating point for a variance, got %s", et_dtype_name(type));
  et_tensor *outs[2] = {o->out, mean_out};
  const size_t n_outs = mean_out == NULL ? 1 : 2;
  const bool wide = type == ET_F64 || o->out->dtype == ET_F64;
  const double n = (double)reduced_numel(o->in, o->mask), divisor = n - correction;
  finish f = {.reducer = wide ? &sum_f64 : &sum_f32,
              .deviations = wide ? &square_f64 : &square_f32,
              .variance_divisor = divisor > 0.0 ? divisor : 0.0,
              .i_mean = mean_out == NULL ? 2 : 1};
  const eti_shape shape = eti_reduced_shape(o->in, o->mask, o->keepdim);
  for (size_t k = 0; k < n_outs; k++) {
    ET_CHECK(eti_is_float((et_dtype)outs[k]->dtype), ctx->err, ET_INVALID_ARGUMENT,
             "out: expected floating point, got %s", et_dtype_name((et_dtype)outs[k]->dtype));
    ET_TRY(find_store(ctx, f.reducer, outs[k], &f.store[k]));
    ET_TRY(eti_resize(ctx, outs[k], &shape));
  }
  if (o->out->numel == 0) return ET_OK;
  eti_reduction r;
  eti_reduction_init(&r, o->in, outs, n_outs, o->mask, o->keepdim, false);
  eti_reduction_split(ctx, &r);
  eti_reduction_run(ctx, &r, variance_results, &f);
  return ET_OK;
}

// (self, dim, correction, keepdim, out …): a correction of None is 1.
static et_status read_correction(const et_kernel_ctx *ctx, et_value *const *args, operands *o,
                                 double *correction) {
  bool present;
  *correction = 1.0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &o->in));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &o->out));
  ET_TRY(read_dims(ctx, args, 1, o->in->rank, &o->mask));
  ET_TRY(eti_arg_optional_double(ctx, args, 2, &present, correction));
  return eti_arg_bool(ctx, args, 3, &o->keepdim);
}

et_status op_var_correction_out(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  double correction;
  ET_TRY(read_correction(ctx, args, &o, &correction));
  return run_variance(ctx, &o, NULL, correction);
}

et_status op_var_mean_correction_out(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  double correction;
  et_tensor *mean_out;
  ET_TRY(read_correction(ctx, args, &o, &correction));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &mean_out));
  return run_variance(ctx, &o, mean_out, correction);
}

et_status op_var_out(et_kernel_ctx *ctx, et_value *const *args) {
  operands o = {0};
  bool unbiased = false;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &o.in));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &o.out));
  ET_TRY(read_dims(ctx, args, 1, o.in->rank, &o.mask));
  ET_TRY(eti_arg_bool(ctx, args, 2, &unbiased));
  ET_TRY(eti_arg_bool(ctx, args, 3, &o.keepdim));
  return run_variance(ctx, &o, NULL, unbiased ? 1.0 : 0.0);
}
