// scan.c — running sums along one dimension. Floating point adds in f64 and rounds every partial
// sum once; integers add in i64 and wrap. The output's type is the type of the sums: elements are
// converted to it first, as ATen does with dtype=.
#include "kernels/kernel.h"
#include "kernels/ops.h"
#include "kernels/reduction.h"

typedef struct scan_job {
  size_t n;
  ptrdiff_t in_stride, out_stride;  // along the dimension, in bytes
  eti_cast_fn load, store;
  bool is_float;
} scan_job;

static void scan_results(void *ctx, const eti_result_block *block) {
  const scan_job *job = ctx;
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(double);
  union {
    double d[ETI_REDUCE_BLOCK];
    int64_t i[ETI_REDUCE_BLOCK];
  } x;
  for (size_t j = 0; j < block->n; j++) {
    const char *in = block->in + (ptrdiff_t)j * block->in_stride;
    char *out = block->out[0] + (ptrdiff_t)j * block->out_stride[0];
    double sum = 0.0;
    uint64_t total = 0;
    for (size_t i = 0; i < job->n; i += ETI_REDUCE_BLOCK) {
      const size_t m = job->n - i < ETI_REDUCE_BLOCK ? job->n - i : ETI_REDUCE_BLOCK;
      job->load(&x, bytes, in + (ptrdiff_t)i * job->in_stride, job->in_stride, m);
      for (size_t e = 0; job->is_float && e < m; e++) x.d[e] = sum += x.d[e];
      for (size_t e = 0; !job->is_float && e < m; e++)
        x.i[e] = (int64_t)(total += (uint64_t)x.i[e]);
      job->store(out + (ptrdiff_t)i * job->out_stride, job->out_stride, &x, bytes, m);
    }
  }
}

// (self, dim, dtype, out)
et_status op_cumsum_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  int64_t wanted = 0;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_int(ctx, args, 1, &wanted));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_wrap_dim(ctx, wanted, in->rank, &dim));
  const et_dtype from = (et_dtype)in->dtype, to = (et_dtype)out->dtype;
  ET_CHECK(eti_dtype_in(from, ET_TYPES_REAL_HALF_BOOL) && eti_dtype_in(to, ET_TYPES_REAL_HALF_BOOL),
           ctx->err, ET_NOT_SUPPORTED, "not defined for dtypes %s and %s", et_dtype_name(from),
           et_dtype_name(to));
  ET_TRY(eti_resize_like(ctx, out, in));
  if (out->numel == 0) return ET_OK;
  const et_dtype sums = eti_is_float(to) ? ET_F64 : ET_I64;
  scan_job job = {.n = in->rank == 0 ? 1 : (size_t)in->sizes[dim],
                  .load = eti_casts[from][sums],
                  .store = eti_casts[sums][to],
                  .is_float = sums == ET_F64};
  if (in->rank > 0) {
    job.in_stride = in->strides[dim] * (ptrdiff_t)et_dtype_bytes(from);
    job.out_stride = out->strides[dim] * (ptrdiff_t)et_dtype_bytes(to);
  }
  eti_reduction r;
  eti_reduction_init(&r, in, &out, 1, in->rank == 0 ? 0 : 1u << dim, true, false);
  eti_reduction_run(ctx, &r, scan_results, &job);
  return ET_OK;
}
