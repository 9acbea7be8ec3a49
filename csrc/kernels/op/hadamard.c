// hadamard.c — the Hadamard transform of rows, an orthogonal mix of their elements by signed sums:
// llama::fast_hadamard_transform. Rows have 2^k elements, or 28 times as many; the part of 2^k is
// scaled to be orthonormal, that of 28 is not, as the operator defines it. Rows of f32 and f64 are
// mixed in place in the output, halves and rows that are not contiguous in scratch from prepare.
// Threads split rows.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

#include <math.h>

enum { BLOCK = 28, ORDER = 7 };

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
  char *scratch;    // slot_bytes for each of n_slots shares of the rows; NULL: rows in place
  size_t slot_bytes, n_slots;
} rows;

static ptrdiff_t offset_of_row(const et_tensor *t, size_t row) {
  ptrdiff_t at = 0;
  for (size_t d = t->rank - 1u; d-- > 0; row /= (size_t)t->sizes[d])
    at += (ptrdiff_t)(row % (size_t)t->sizes[d]) * t->strides[d];
  return at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

static void transform_row(const rows *r, size_t i, char *room) {
  const et_tensor *const out = r->out;
  const bool wide = out->dtype == ET_F64;
  const et_dtype type = wide ? ET_F64 : ET_F32;
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)out->dtype),
                  step = out->strides[out->rank - 1u] * bytes,
                  wide_bytes = (ptrdiff_t)et_dtype_bytes(type);
  char *const row = (char *)out->data + offset_of_row(out, i);
  char *const x = room == NULL ? row : room;
  if (room != NULL) eti_casts[out->dtype][type](x, wide_bytes, row, step, r->n);
  (wide ? transform_f64 : transform_f32)(x, r->n, r->width);
  if (room != NULL) eti_casts[type][out->dtype](row, step, x, wide_bytes, r->n);
}

static void transform_in_place(void *ctx, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++) transform_row(ctx, i, NULL);
}

// Each item is a slot of the scratch, with a share of the rows.
static void transform_in_scratch(void *ctx, size_t begin, size_t end) {
  const rows *const r = ctx;
  const size_t n_rows = r->out->numel / r->n;
  for (size_t slot = begin; slot < end; slot++) {
    const size_t to = n_rows * (slot + 1) / r->n_slots;
    for (size_t i = n_rows * slot / r->n_slots; i < to; i++)
      transform_row(r, i, r->scratch + slot * r->slot_bytes);
  }
}

// Bytes of scratch for a row of n elements; 0 if rows of out are transformed in place.
static size_t slot_bytes_of(const et_tensor *out, size_t n) {
  if (eti_dtype_in((et_dtype)out->dtype, ET_TYPES_FLOAT) && out->strides[out->rank - 1u] == 1)
    return 0;
  const size_t bytes = n * (out->dtype == ET_F64 ? sizeof(double) : sizeof(float));
  return (bytes + 63) / 64 * 64;
}

static et_status run_rows(const et_kernel_ctx *ctx, rows *r) {
  const size_t n_rows = r->out->numel / r->n;
  r->slot_bytes = slot_bytes_of(r->out, r->n);
  if (r->slot_bytes == 0) {
    et_parallel_for(ctx->pool, transform_in_place, r, n_rows, 1 + ETI_GRAIN_CHEAP / r->n);
    return ET_OK;
  }
  const size_t fit = ctx->scratch_bytes / r->slot_bytes,
               threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads,
               shares = 1 + r->out->numel / ETI_GRAIN_CHEAP;
  ET_CHECK(fit > 0, ctx->err, ET_OUT_OF_RESOURCES,
           "fast_hadamard_transform: expected %zu bytes of scratch, got %zu; prepare requests them",
           r->slot_bytes, ctx->scratch_bytes);
  r->scratch = ctx->scratch;
  r->n_slots = fit < threads ? fit : threads;
  if (r->n_slots > shares) r->n_slots = shares;
  et_parallel_for(ctx->pool, transform_in_scratch, r, r->n_slots, 1);
  return ET_OK;
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
  ET_TRY(eti_copy_tensor(ctx, out, x));
  rows r = {.out = out, .n = n, .width = width};
  return run_rows(ctx, &r);
}

et_status prepare_llama_fast_hadamard_transform_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx silent = eti_silent_args(ctx);
  et_tensor *x, *out;
  if (eti_arg_tensor(&silent, args, 0, &x) != ET_OK ||
      eti_arg_tensor(&silent, args, 1, &out) != ET_OK || x->rank == 0 || out->rank == 0)
    return ET_OK;  // run refuses
  const size_t threads = ctx->n_threads == 0 ? 1 : ctx->n_threads,
               bytes = threads * slot_bytes_of(out, (size_t)x->sizes[x->rank - 1u]);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
