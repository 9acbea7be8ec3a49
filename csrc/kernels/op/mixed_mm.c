// mixed_mm.c — products of floats with a matrix of 8-bit integers, dequantized during packing: w =
// (q - zero_point) · scale, with one scale for each row of the matrix or for each group of a row.
// Relies on micro/gemm/gemm.h, which packs the dequantized values; halves multiply in f32 and round
// once. Zero points may be absent.
#include "kernels/kernel.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/ops.h"

#include <string.h>

typedef struct mixed {
  const eti_gemm_kernel *kernel;
  const et_tensor *in, *weight, *scales, *zeros, *out;
  size_t m, n, k;
  ptrdiff_t n_step, k_step;  // of weight, in elements
  size_t n_numbers;          // scales of one column; 0 when columns share them
  size_t group;              // values of k that share a scale
} mixed;

static double number_at(const et_tensor *t, size_t i) {
  double x;
  const size_t bytes = et_dtype_bytes((et_dtype)t->dtype);
  eti_casts[t->dtype][ET_F64](&x, 0, (const char *)t->data + i * bytes, 0, 1);
  return x;
}

// Reads n values of one group of column j, from k0 on, in the kernel's type.
static void widen_column(const mixed *p, size_t j, size_t k0, size_t n, void *lane, size_t width) {
  const size_t at = j * p->n_numbers + k0 / p->group;
  const double scale = number_at(p->scales, at);
  const double zero = p->zeros == NULL ? 0.0 : number_at(p->zeros, at);
  const int8_t *const q =
      (const int8_t *)p->weight->data + (ptrdiff_t)j * p->n_step + (ptrdiff_t)k0 * p->k_step;
  if (p->kernel->dtype == ET_F64) {
    double *const to = lane;
    for (size_t i = 0; i < n; i++)
      to[i * width] = ((double)q[(ptrdiff_t)i * p->k_step] - zero) * scale;
  } else {
    float *const to = lane;
    const float s = (float)scale, z = (float)zero;
    for (size_t i = 0; i < n; i++) to[i * width] = ((float)q[(ptrdiff_t)i * p->k_step] - z) * s;
  }
}

static void pack_weight(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                        size_t k0, size_t n_k) {
  const mixed *const p = g->ctx;
  const size_t es = p->kernel->esize;
  for (size_t i = 0; i < width; i++) {
    char *const lane = (char *)dst + i * es;
    for (size_t k = 0; k < n_k;) {
      const size_t left = p->group - (k0 + k) % p->group, step = left < n_k - k ? left : n_k - k;
      if (i < n) {
        widen_column(p, first + i, k0 + k, step, lane + k * width * es, width);
      } else {
        for (size_t z = 0; z < step; z++) memset(lane + (k + z) * width * es, 0, es);
      }
      k += step;
    }
  }
}

static void describe_job(const void *ctx, size_t i, eti_gemm *g) {
  const mixed *const p = ctx;
  (void)i;
  eti_gemm_use_a_view(g, (eti_gemm_view){.data = p->in->data,
                                         .dtype = p->in->dtype,
                                         .row_step = p->in->strides[0],
                                         .k_step = p->in->strides[1]});
  g->b = (eti_gemm_operand){.height = p->kernel->nr, .pack = pack_weight};
  eti_gemm_use_c_view(g, (eti_gemm_view){.data = p->out->data,
                                         .dtype = p->out->dtype,
                                         .row_step = p->out->strides[0],
                                         .k_step = p->out->strides[1]});
  g->init = ETI_GEMM_ZERO;
}

static et_status check_types(const et_kernel_ctx *ctx, const mixed *p) {
  ET_CHECK(
      p->weight->dtype == ET_I8 && eti_dtype_in((et_dtype)p->in->dtype, ET_TYPES_FLOAT_HALF) &&
          eti_dtype_in((et_dtype)p->scales->dtype, ET_TYPES_FLOAT_HALF) &&
          eti_dtype_in((et_dtype)p->out->dtype, ET_TYPES_FLOAT_HALF),
      ctx->err, ET_NOT_SUPPORTED,
      "expected weight of i8 and the others of floats, got input %s, weight %s, scales %s, out %s",
      et_dtype_name((et_dtype)p->in->dtype), et_dtype_name((et_dtype)p->weight->dtype),
      et_dtype_name((et_dtype)p->scales->dtype), et_dtype_name((et_dtype)p->out->dtype));
  ET_CHECK(p->in->rank == 2 && p->weight->rank == 2, ctx->err, ET_INVALID_ARGUMENT,
           "expected input and weight of rank 2, got %d and %d", (int)p->in->rank,
           (int)p->weight->rank);
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(p->zeros == NULL || (eti_same_shape(p->scales, p->zeros) &&
                                eti_dtype_in((et_dtype)p->zeros->dtype, ET_TYPES_REAL_HALF)),
           ctx->err, ET_INVALID_ARGUMENT,
           "zero points: expected a real type and shape %s, as scales, got %s",
           eti_sizes_text(p->scales->sizes, p->scales->rank).text,
           eti_tensor_text(p->zeros, found));
  ET_TRY(eti_check_contiguous(ctx, p->scales, ET_NOT_SUPPORTED, "scales"));
  if (p->zeros != NULL)
    ET_TRY(eti_check_contiguous(ctx, p->zeros, ET_NOT_SUPPORTED, "zero points"));
  ET_CHECK(p->out != p->in && p->out != p->weight && p->out != p->scales, ctx->err,
           ET_INVALID_ARGUMENT, "out is also an input");
  return ET_OK;
}

// Reads (input[m, k], weight, scales, zero_points?, …, out[m, n]) and gives out its size.
static et_status read_mixed_mm(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                               bool transposed, mixed *out_p) {
  et_tensor *in, *weight, *scales, *zeros, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &weight));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &scales));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 3, &zeros));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &out));
  mixed p = {.in = in, .weight = weight, .scales = scales, .zeros = zeros, .out = out};
  ET_TRY(check_types(ctx, &p));
  const size_t along = transposed ? 1 : 0;  // the dimension of weight that is summed over
  p.m = (size_t)in->sizes[0];
  p.k = (size_t)in->sizes[1];
  p.n = (size_t)weight->sizes[1 - along];
  p.k_step = weight->strides[along];
  p.n_step = weight->strides[1 - along];
  ET_CHECK(weight->sizes[along] == in->sizes[1], ctx->err, ET_INVALID_ARGUMENT,
           "input: expected rows of %d values, as weight, got %d", (int)weight->sizes[along],
           (int)in->sizes[1]);
  const size_t groups = transposed && scales->rank == 2 ? (size_t)scales->sizes[1] : 1;
  ET_CHECK((scales->rank == 1 || (transposed && scales->rank == 2)) &&
               scales->sizes[0] == weight->sizes[0] && groups > 0 && p.k % groups == 0,
           ctx->err, ET_INVALID_ARGUMENT,
           "scales: expected one for each of the %d rows of weight, or for each of equal groups of "
           "a row, got rank %d and %d rows",
           (int)weight->sizes[0], (int)scales->rank,
           (int)(scales->rank == 0 ? 0 : scales->sizes[0]));
  p.n_numbers = transposed ? groups : 0;
  p.group = transposed && p.k > 0 ? p.k / groups : 1;
  const eti_shape shape = {.rank = 2, .sizes = {in->sizes[0], (int32_t)p.n}};
  p.kernel = eti_gemm_kernel_for(in->dtype == ET_F64 ? ETI_ACC_F64 : ETI_ACC_F32);
  *out_p = p;
  return eti_resize(ctx, out, &shape);
}

static eti_gemm shape_of(const mixed *p) {
  return (eti_gemm){.kernel = p->kernel, .m = p->m, .n = p->n, .k = p->k, .ctx = p};
}

static et_status run_mixed_mm(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                              bool transposed) {
  mixed p;
  ET_TRY(read_mixed_mm(ctx, args, i_out, transposed, &p));
  if (p.out->numel == 0) return ET_OK;
  const eti_gemm shape = shape_of(&p);
  eti_gemm_run(ctx->pool, &shape, 1, describe_job, &p, ctx->scratch, ctx->scratch_bytes);
  return ET_OK;
}

// Requests the work memory. Tensors without data are described with the address of the product.
static et_status prepare_mixed_mm(et_prepare_ctx *ctx, et_value *const *args, size_t i_out,
                                  bool transposed) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  mixed p;
  ET_TRY(read_mixed_mm(&k, args, i_out, transposed, &p));
  if (p.out->numel == 0) return ET_OK;
  et_tensor in = *p.in, out = *p.out;
  in.data = out.data = &p;
  p.in = &in;
  p.out = &out;
  eti_gemm job = shape_of(&p);
  describe_job(&p, 0, &job);
  const bool is_dynamic = (out.flags & ET_TENSOR_DYNAMIC) != 0;
  const size_t bytes = eti_gemm_work_bytes(&job, is_dynamic, ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}

et_status op_mixed_mm_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_mixed_mm(ctx, args, 4, false);
}
et_status prepare_mixed_mm_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_mixed_mm(ctx, args, 4, false);
}
et_status op_mixed_linear_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_mixed_mm(ctx, args, 5, true);
}
et_status prepare_mixed_linear_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_mixed_mm(ctx, args, 5, true);
}
