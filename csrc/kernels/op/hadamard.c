// hadamard.c — the Hadamard transform of rows, an orthogonal mix of their elements by signed sums:
// llama::fast_hadamard_transform. Rows have 2^k elements, or 28 times as many; the part of 2^k is
// scaled to be orthonormal, that of 28 is not, as the operator defines it. Rows of f32 and f64 are
// mixed in place in the output, others on the stack in f32. Threads split rows.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

#include <math.h>

enum { BLOCK = 28, ORDER = 7, STACK_BYTES = ETI_ON_STACK(65536, 1536) };

// The matrix of 28 is four by four circulant matrices of 7. Bit j is set where element j of the
// first row of one is +1.
static const uint8_t circulants[BLOCK / ORDER][BLOCK / ORDER] = {{0x01, 0x3C, 0x5A, 0x66},
                                                                 {0x43, 0x01, 0x19, 0x5A},
                                                                 {0x25, 0x66, 0x01, 0x43},
                                                                 {0x19, 0x25, 0x3C, 0x01}};

static bool is_plus(size_t row, size_t column) {
  const size_t shift = (column % ORDER + ORDER - row % ORDER) % ORDER;
  return (circulants[row / ORDER][column / ORDER] >> shift & 1) != 0;
}

#define T float
#define SUFFIX f32
#include "kernels/op/hadamard.body.h"
#define T double
#define SUFFIX f64
#include "kernels/op/hadamard.body.h"

typedef struct rows {
  const et_tensor *out;
  size_t n, width;  // of a row, and of its part that is a power of two
  bool in_place;
} rows;

static ptrdiff_t offset_of_row(const et_tensor *t, size_t row) {
  ptrdiff_t at = 0;
  for (size_t d = t->rank - 1u; d-- > 0; row /= (size_t)t->sizes[d])
    at += (ptrdiff_t)(row % (size_t)t->sizes[d]) * t->strides[d];
  return at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

static void transform_rows(void *ctx, size_t begin, size_t end) {
  const rows *const r = ctx;
  const et_tensor *const out = r->out;
  const bool wide = out->dtype == ET_F64;
  const et_dtype type = wide ? ET_F64 : ET_F32;
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)out->dtype),
                  step = out->strides[out->rank - 1u] * bytes,
                  wide_bytes = (ptrdiff_t)et_dtype_bytes(type);
  _Alignas(64) char stack[STACK_BYTES];
  for (size_t i = begin; i < end; i++) {
    char *const row = (char *)out->data + offset_of_row(out, i);
    char *const x = r->in_place ? row : stack;
    if (!r->in_place) eti_casts[out->dtype][type](x, wide_bytes, row, step, r->n);
    (wide ? transform_f64 : transform_f32)(x, r->n, r->width);
    if (!r->in_place) eti_casts[type][out->dtype](row, step, x, wide_bytes, r->n);
  }
}

et_status op_llama_fast_hadamard_transform_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  ET_TRY(eti_check_same_dtype(ctx, x, out, "mat and out"));
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF), ctx->err, ET_NOT_SUPPORTED,
           "fast_hadamard_transform: not defined for %s", et_dtype_name((et_dtype)x->dtype));
  ET_CHECK(x->rank > 0, ctx->err, ET_INVALID_ARGUMENT,
           "fast_hadamard_transform: expected rank 1 or more, got 0");
  ET_TRY(eti_resize_like(ctx, out, x));
  if (out->numel == 0) return ET_OK;
  const size_t n = (size_t)x->sizes[x->rank - 1u], width = n % BLOCK == 0 ? n / BLOCK : n;
  ET_CHECK((width & (width - 1)) == 0, ctx->err, ET_INVALID_ARGUMENT,
           "fast_hadamard_transform: rows: expected a power of two or 28 times one, got %zu", n);
  const rows r = {.out = out,
                  .n = n,
                  .width = width,
                  .in_place = eti_dtype_in((et_dtype)out->dtype, ET_TYPES_FLOAT) &&
                              out->strides[out->rank - 1u] == 1};
  const size_t wide_bytes = out->dtype == ET_F64 ? sizeof(double) : sizeof(float);
  ET_CHECK(r.in_place || n * wide_bytes <= STACK_BYTES, ctx->err, ET_NOT_SUPPORTED,
           "fast_hadamard_transform: expected rows of at most %zu where they are halves or not "
           "contiguous, got %zu",
           STACK_BYTES / wide_bytes, n);
  ET_TRY(eti_copy_tensor(ctx, out, x));
  et_parallel_for(ctx->pool, transform_rows, (void *)(uintptr_t)&r, out->numel / n,
                  1 + ETI_GRAIN_CHEAP / n);
  return ET_OK;
}
