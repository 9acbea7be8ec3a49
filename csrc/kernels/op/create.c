// create.c — operators that create elements from numbers: full, zeros, ones, fill, arange,
// scalar_tensor, empty. An output's memory is dense in any dim order, so filling it is one linear
// walk; arange writes the only dimension it has. Relies on the cast table to store numbers as
// elements.
#include "kernels/kernel.h"
#include "kernels/loops/cast_values.h"
#include "kernels/lib/copy_op.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

#define MAX_ELEMENT 16

typedef struct fill_ctx {
  unsigned char *data;
  size_t item;
  unsigned char element[MAX_ELEMENT];
} fill_ctx;

static void fill_range(void *opaque, size_t begin, size_t end) {
  const fill_ctx *f = opaque;
  unsigned char *p = f->data + begin * f->item;
  const size_t n = end - begin;
  switch (f->item) {
    case 1:
      memset(p, f->element[0], n);
      break;
    case 2: {
      uint16_t v;
      memcpy(&v, f->element, sizeof v);
      for (size_t i = 0; i < n; i++) ((uint16_t *)(void *)p)[i] = v;
      break;
    }
    case 4: {
      uint32_t v;
      memcpy(&v, f->element, sizeof v);
      for (size_t i = 0; i < n; i++) ((uint32_t *)(void *)p)[i] = v;
      break;
    }
    case 8: {
      uint64_t v;
      memcpy(&v, f->element, sizeof v);
      for (size_t i = 0; i < n; i++) ((uint64_t *)(void *)p)[i] = v;
      break;
    }
    default:
      for (size_t i = 0; i < n; i++) memcpy(p + i * f->item, f->element, f->item);
  }
}

// Writes one number into every element of out.
static et_status fill_with(const et_kernel_ctx *ctx, et_tensor *out, const eti_scalar *value) {
  fill_ctx f = {.data = out->data, .item = et_dtype_bytes((et_dtype)out->dtype)};
  ET_CHECK(eti_scalar_store(value, (et_dtype)out->dtype, f.element), ctx->err, ET_NOT_SUPPORTED,
           "a tensor of %s cannot be filled", et_dtype_name((et_dtype)out->dtype));
  et_parallel_for(ctx->pool, fill_range, &f, out->numel, 65536);
  return ET_OK;
}

// Resizes the tensor at i_out to the list of sizes in argument 0.
static et_status sized_out(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                           et_tensor **out) {
  int64_t sizes[ET_MAX_RANK];
  eti_shape shape;
  ET_TRY(eti_arg_tensor(ctx, args, i_out, out));
  ET_TRY(eti_arg_ints(ctx, args, 0, sizes, ET_MAX_RANK, &shape.rank));
  for (size_t d = 0; d < shape.rank; d++)
    ET_TRY(eti_checked_size(ctx, sizes[d], "output", &shape.sizes[d]));
  return eti_resize(ctx, *out, &shape);
}

static eti_scalar scalar_int(int64_t i) {
  return (eti_scalar){.i = i, .d = (double)i};
}

et_status op_full_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  eti_scalar value;
  ET_TRY(eti_arg_scalar(ctx, args, 1, &value));
  ET_TRY(sized_out(ctx, args, 2, &out));
  return fill_with(ctx, out, &value);
}

et_status op_zeros_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  ET_TRY(sized_out(ctx, args, 1, &out));
  if (out->numel > 0) memset(out->data, 0, et_tensor_bytes(out));
  return ET_OK;
}

et_status op_ones_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  const eti_scalar one = scalar_int(1);
  ET_TRY(sized_out(ctx, args, 1, &out));
  return fill_with(ctx, out, &one);
}

// Leaves the contents undefined, as ATen does.
et_status op_empty_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  return sized_out(ctx, args, 2, &out);
}

// fill.Scalar and full_like: the shape of argument 0, filled with argument 1.
static et_status fill_like(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out) {
  et_tensor *self = NULL, *out = NULL;
  eti_scalar value;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_scalar(ctx, args, 1, &value));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &out));
  ET_TRY(eti_resize_like(ctx, out, self));
  return fill_with(ctx, out, &value);
}

et_status op_fill_scalar_out(et_kernel_ctx *ctx, et_value *const *args) {
  return fill_like(ctx, args, 2);
}
et_status op_full_like_out(et_kernel_ctx *ctx, et_value *const *args) {
  return fill_like(ctx, args, 3);
}

et_status op_fill_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *value = NULL, *out = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &value));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_CHECK(value->rank == 0 && value->numel == 1, ctx->err, ET_INVALID_ARGUMENT,
           "argument 1: expected a value of rank 0, got %u", (unsigned)value->rank);
  fill_ctx f = {.item = et_dtype_bytes((et_dtype)out->dtype)};
  const eti_cast_fn cast = eti_casts[value->dtype][out->dtype];
  ET_CHECK(cast != NULL, ctx->err, ET_NOT_SUPPORTED,
           "a tensor of %s cannot be filled from one of %s", et_dtype_name((et_dtype)out->dtype),
           et_dtype_name((et_dtype)value->dtype));
  cast(f.element, 0, value->data, 0, 1);
  ET_TRY(eti_resize_like(ctx, out, self));
  f.data = out->data;
  et_parallel_for(ctx->pool, fill_range, &f, out->numel, 65536);
  return ET_OK;
}

et_status op_scalar_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  eti_scalar value;
  ET_TRY(eti_arg_scalar(ctx, args, 0, &value));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  const eti_shape shape = {.rank = 0};
  ET_TRY(eti_resize(ctx, out, &shape));
  return fill_with(ctx, out, &value);
}

// ---- arange

// Number of elements of [start, end) in steps; ATen computes it in integers when all three are,
// else in f64.
static et_status arange_length(const et_kernel_ctx *ctx, const eti_scalar *start,
                               const eti_scalar *end, const eti_scalar *step, int32_t *n) {
  double length;
  ET_CHECK(step->d != 0.0, ctx->err, ET_INVALID_ARGUMENT,
           "arange: step: expected other than 0, got 0");
  ET_CHECK(isfinite(start->d) && isfinite(end->d) && isfinite(step->d), ctx->err,
           ET_INVALID_ARGUMENT, "arange: from %g to %g in steps of %g has no finite length",
           start->d, end->d, step->d);
  ET_CHECK((step->d > 0.0) ? start->d <= end->d : start->d >= end->d, ctx->err, ET_INVALID_ARGUMENT,
           "arange: a step of %g leads away from the end, from %g to %g", step->d, start->d,
           end->d);
  if (!start->is_float && !end->is_float && !step->is_float) {
    // Differences of i64 fit in u64 for known signs.
    const bool up = step->i > 0;
    const uint64_t span =
        up ? (uint64_t)end->i - (uint64_t)start->i : (uint64_t)start->i - (uint64_t)end->i;
    const uint64_t by = up ? (uint64_t)step->i : (uint64_t)0 - (uint64_t)step->i;
    const uint64_t count = span / by + (span % by != 0);
    ET_CHECK(count <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "arange: %llu elements are too many", (unsigned long long)count);
    *n = (int32_t)count;
    return ET_OK;
  }
  length = ceil((end->d - start->d) / step->d);
  ET_CHECK(length <= (double)INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "arange: %g elements are too many", length);
  *n = (int32_t)length;
  return ET_OK;
}

// Element i is start + i * step: in i64 for integers, in f64 for f64, in f32 for f32 and the halves
// (as ATen's kernels).
typedef struct arange_job {
  et_dtype dtype;
  char *data;
  double start, step;
  int64_t first, by;  // the same as integers
} arange_job;

static void arange_blocks(const arange_job *a, size_t begin, size_t end) {
  enum { BLOCK = ETI_ON_STACK(256, 128) };
  union {
    int64_t i[BLOCK];
    double d[BLOCK];
  } block;
  const bool whole = eti_is_integral(a->dtype);
  const size_t item = et_dtype_bytes(a->dtype);
  const eti_cast_fn cast = eti_casts[whole ? ET_I64 : ET_F64][a->dtype];
  for (size_t done = begin; done < end; done += BLOCK) {
    const size_t n = end - done < BLOCK ? end - done : BLOCK;
    if (whole) {
      for (size_t j = 0; j < n; j++)
        block.i[j] = (int64_t)((uint64_t)a->first + (uint64_t)a->by * (uint64_t)(done + j));
    } else {  // positions are below 2^31
      for (size_t j = 0; j < n; j++) block.d[j] = a->start + a->step * (double)(int32_t)(done + j);
      for (size_t j = 0; j < n && a->dtype != ET_F64; j++) block.d[j] = (double)(float)block.d[j];
    }
    cast(a->data + done * item, (ptrdiff_t)item, &block, (ptrdiff_t)sizeof(int64_t), n);
  }
}

static void arange_range(void *ctx, size_t begin, size_t end) {
  const arange_job *const a = ctx;
  if (a->dtype != ET_F32) {
    arange_blocks(a, begin, end);
    return;
  }
  float *const out = (float *)(void *)a->data;
  const double start = a->start, step = a->step;
  for (size_t i = begin; i < end; i++) out[i] = (float)(start + step * (double)(int32_t)i);
}

static et_status run_arange(const et_kernel_ctx *ctx, const eti_scalar *start,
                            const eti_scalar *end, const eti_scalar *step, et_tensor *out) {
  eti_shape shape = {.rank = 1};
  ET_TRY(arange_length(ctx, start, end, step, &shape.sizes[0]));
  ET_TRY(eti_resize(ctx, out, &shape));
  const et_dtype dtype = (et_dtype)out->dtype;
  ET_CHECK(eti_casts[ET_F64][dtype] != NULL && !eti_is_complex(dtype), ctx->err, ET_NOT_SUPPORTED,
           "arange: not defined for dtype %s", et_dtype_name(dtype));
  arange_job job = {.dtype = dtype,
                    .data = out->data,
                    .start = start->d,
                    .step = step->d,
                    .first = start->is_float ? eti_f64_to_i64(start->d) : start->i,
                    .by = step->is_float ? eti_f64_to_i64(step->d) : step->i};
  et_parallel_for(ctx->pool, arange_range, &job, out->numel, 16384);
  return ET_OK;
}

et_status op_arange_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  eti_scalar end;
  const eti_scalar zero = scalar_int(0), one = scalar_int(1);
  ET_TRY(eti_arg_scalar(ctx, args, 0, &end));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  return run_arange(ctx, &zero, &end, &one, out);
}

et_status op_arange_start_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  eti_scalar start, end, step;
  ET_TRY(eti_arg_scalar(ctx, args, 0, &start));
  ET_TRY(eti_arg_scalar(ctx, args, 1, &end));
  ET_TRY(eti_arg_scalar(ctx, args, 2, &step));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  return run_arange(ctx, &start, &end, &step, out);
}
