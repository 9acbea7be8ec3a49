// pool_geometry.c — arguments and divisions that pooling operators share; see pool.h.
#include "kernels/kernel.h"
#include "kernels/op/pool/pool.h"

et_status eti_pool_read_input(const et_kernel_ctx *ctx, et_value *const *args, et_dtype_set types,
                              eti_pool *p) {
  et_tensor *x;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_CHECK(x->rank == p->spatial + 1 || x->rank == p->spatial + 2, ctx->err, ET_INVALID_ARGUMENT,
           "%s: input: expected rank %zu or %zu, got %d", p->op, p->spatial + 1, p->spatial + 2,
           (int)x->rank);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, types), ctx->err, ET_NOT_SUPPORTED,
           "%s: dtype %s is not supported", p->op, et_dtype_name((et_dtype)x->dtype));
  p->x = x;
  p->lead = x->rank - p->spatial;
  double area = 1.0;
  for (size_t d = 0; d < 3; d++) {
    const bool there = d + p->spatial >= 3;
    p->in[d] = there ? x->sizes[p->lead + d + p->spatial - 3] : 1;
    p->kernel[d] = p->stride[d] = p->dilation[d] = p->size[d] = 1;
    p->padding[d] = 0;
    area *= (double)p->in[d];
    ET_CHECK(p->in[d] > 0, ctx->err, ET_INVALID_ARGUMENT,
             "%s: input: expected spatial dimensions of 1 or more, got 0", p->op);
  }
  ET_CHECK(area <= (double)INT32_MAX, ctx->err, ET_NOT_SUPPORTED,
           "%s: a plane has more than 2^31 elements", p->op);
  const int type = x->dtype == ET_F64                    ? ETI_ROW_POOL_F64
                   : eti_is_integral((et_dtype)x->dtype) ? ETI_ROW_POOL_I64
                                                         : ETI_ROW_POOL_F32;
  p->micro = eti_row_pool_micro_best(type);
  return ET_OK;
}

et_status eti_pool_read_divisor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                eti_pool *p) {
  bool is_given = false;
  ET_TRY(eti_arg_bool(ctx, args, i, &p->count_padding));
  ET_TRY(eti_arg_optional_int(ctx, args, i + 1, &is_given, &p->divisor));
  ET_CHECK(!is_given || p->divisor != 0, ctx->err, ET_INVALID_ARGUMENT,
           "%s: divisor_override: expected other than 0, got 0", p->op);
  if (!is_given) p->divisor = 0;
  return ET_OK;
}

eti_shape eti_pool_out_shape(const eti_pool *p) {
  eti_shape shape = {.rank = p->lead + p->spatial};
  for (size_t d = 0; d < p->lead; d++) shape.sizes[d] = p->x->sizes[d];
  for (size_t d = 0; d < p->spatial; d++)
    shape.sizes[p->lead + d] = (int32_t)p->size[3 - p->spatial + d];
  return shape;
}

void eti_pool_take_steps(const eti_pool *p, const et_tensor *t, ptrdiff_t steps[3]) {
  for (size_t d = 0; d < 3; d++)
    steps[d] = d + p->spatial >= 3 ? t->strides[p->lead + d + p->spatial - 3] : 0;
}

void eti_pool_divide(const eti_pool *p, int64_t by, char *sums, size_t n) {
  switch (p->micro->dtype) {
    case ET_F32:
      for (size_t i = 0; i < n; i++) ((float *)(void *)sums)[i] /= (float)by;
      break;
    case ET_F64:
      for (size_t i = 0; i < n; i++) ((double *)(void *)sums)[i] /= (double)by;
      break;
    default:
      for (size_t i = 0; i < n; i++) {
        int64_t *const v = (int64_t *)(void *)sums + i;
        *v = by == -1 ? (int64_t)(0 - (uint64_t)*v) : *v / by;
      }
      break;
  }
}
