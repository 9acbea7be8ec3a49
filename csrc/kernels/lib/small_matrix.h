// small_matrix.h — tensors as batches of small matrices for the operators of linear algebra: reads
// a matrix into rows of f64 and writes it back, for any layout and element type; provides work
// memory from scratch, else from the stack. Relies on shape.h and cast.h. Knows no algorithm.
#ifndef ET_SMALL_MATRIX_H
#define ET_SMALL_MATRIX_H

#include "kernels/lib/shape.h"
#include "kernels/stack.h"

enum {
  ETI_MATRIX_STACK = ETI_ON_STACK(32768, 1024),  // bytes
  ETI_MATRIX_SIDE = 16384,                       // rows or columns: products of two fit any size_t
};

// Sizes of the batch: all dimensions but the last `less`.
eti_shape eti_batch_of(const et_tensor *t, size_t less);
// The first element of matrix (or vector, less = 1) i of a batch, to which t's batch broadcasts.
char *eti_matrix_at(const et_tensor *t, const eti_shape *batch, size_t i, size_t less);

// Copies matrix i, optionally transposed. A stored vector is read as n × 1.
void eti_matrix_load(const et_tensor *t, const eti_shape *batch, size_t i, bool is_vector,
                     bool transposed, double *to);
void eti_matrix_store(const et_tensor *t, const eti_shape *batch, size_t i, bool is_vector,
                      bool transposed, const double *from);
// Stores number i of a tensor of the batch's shape, and row i of a tensor with one more dimension.
void eti_number_store(const et_tensor *t, const eti_shape *batch, size_t i, double x);
void eti_row_store(const et_tensor *t, const eti_shape *batch, size_t i, const double *from,
                   size_t n);
void eti_pivots_store(const et_tensor *t, const eti_shape *batch, size_t i, const int32_t *pivots,
                      size_t n);

// Resizes a result to batch × sizes.
et_status eti_matrix_resize(const et_kernel_ctx *ctx, et_tensor *out, const eti_shape *batch,
                            size_t rank, size_t rows, size_t columns);
// Reads the tensor at position i: f32 or f64, with at least two dimensions, not too large, and
// square if required.
et_status eti_matrix_arg(const et_kernel_ctx *ctx, et_value *const *args, size_t i, const char *op,
                         bool square, et_tensor **out);
et_status eti_arg_result(const et_kernel_ctx *ctx, et_value *const *args, size_t i, et_dtype dtype,
                         et_tensor **out);

// Calls fn for each of `count` matrices, on several threads, with n numbers of work memory: on the
// stack if they fit, else in ctx->scratch. ET_OUT_OF_RESOURCES reports the missing bytes.
typedef void (*eti_matrix_fn)(void *job, size_t i, double *work);
et_status eti_matrix_run(const et_kernel_ctx *ctx, size_t count, size_t n, eti_matrix_fn fn,
                         void *job);
// Index of the first of `count` matrices whose info (i32) is not 0, or count; *at is that info.
size_t eti_first_failed(const et_tensor *info, const eti_shape *batch, size_t count, size_t *at);
// The prepare step of all matrix operators: claims scratch for the matrices of arguments 0 and 1.
et_status eti_matrix_prepare(et_prepare_ctx *ctx, et_value *const *args);

// Number of matrices of a batch; 0 when no result has elements, since an empty batch may have any
// size.
static inline size_t eti_matrix_count(bool any, const eti_shape *batch) {
  size_t n = any ? 1 : 0;
  for (size_t d = 0; d < batch->rank && any; d++) n *= (size_t)batch->sizes[d];
  return n;
}
static inline size_t eti_matrix_rows(const et_tensor *t) {
  return (size_t)t->sizes[t->rank - 2u];
}
static inline size_t eti_matrix_columns(const et_tensor *t) {
  return (size_t)t->sizes[t->rank - 1u];
}

#endif  // ET_SMALL_MATRIX_H
