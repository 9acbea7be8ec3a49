// linalg_factor.c — orthogonal factors of matrices: QR, eigenvectors of symmetric matrices,
// singular vectors. Every matrix of a batch is computed in f64 in work memory. Signs of Q and R are
// LAPACK's; those of eigen- and singular vectors are free, as everywhere. Relies on micro/dense.h
// and matrices.h.
#include "kernels/matrices.h"
#include "kernels/micro/dense.h"

#include <string.h>

// (A, mode, Q, R)
et_status op_linalg_qr_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *q, *r;
  const char *mode;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.qr", false, &a));
  ET_TRY(eti_arg_string(ctx, args, 1, &mode));
  ET_TRY(eti_arg_result(ctx, args, 2, (et_dtype)a->dtype, &q));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &r));
  const bool complete = mode != NULL && strcmp(mode, "complete") == 0,
             only_r = mode != NULL && strcmp(mode, "r") == 0;
  ET_CHECK(mode != NULL && (complete || only_r || strcmp(mode, "reduced") == 0), ctx->err,
           ET_INVALID_ARGUMENT, "linalg.qr: mode %s, needs reduced, complete or r",
           mode == NULL ? "None" : mode);
  const size_t m = eti_matrix_rows(a), n = eti_matrix_columns(a), k = m < n ? m : n,
               side = complete ? m : k;
  const eti_shape batch = eti_batch_of(a, 2), none = {.rank = 1, .sizes = {0}};
  ET_TRY(only_r ? eti_resize(ctx, q, &none) : eti_resize_matrices(ctx, q, &batch, 2, m, side));
  ET_TRY(eti_resize_matrices(ctx, r, &batch, 2, side, n));
  ET_TRY(eti_matrix_work(ctx, stack, m * n + m * side + k + (n > side ? n : side), &work));
  double *const columns = work + m * n;
  for (size_t i = 0; i < eti_matrix_count(q->numel > 0 || r->numel > 0, &batch); i++) {
    eti_matrix_load(a, &batch, i, false, false, work);
    eti_dense_get()->qr(work, m, n, columns, only_r ? 0 : side, columns + m * side);
    eti_matrix_store(r, &batch, i, false, false, work);
    if (!only_r) eti_matrix_store(q, &batch, i, false, false, columns);
  }
  return ET_OK;
}

// (A, UPLO, compute_v, eigenvalues, eigenvectors). Only the triangle that UPLO names is read.
et_status op_linalg_eigh_eigenvalues(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *values, *vectors;
  const char *triangle;
  bool with_vectors;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.eigh", true, &a));
  ET_TRY(eti_arg_string(ctx, args, 1, &triangle));
  ET_TRY(eti_arg_bool(ctx, args, 2, &with_vectors));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &values));
  ET_TRY(eti_arg_result(ctx, args, 4, (et_dtype)a->dtype, &vectors));
  const char which = triangle == NULL ? '?' : triangle[0];
  ET_CHECK(which == 'L' || which == 'l' || which == 'U' || which == 'u', ctx->err,
           ET_INVALID_ARGUMENT, "linalg.eigh: UPLO is %s, needs L or U",
           triangle == NULL ? "None" : triangle);
  const size_t n = eti_matrix_rows(a);
  const eti_shape batch = eti_batch_of(a, 2), none = {.rank = 1, .sizes = {0}};
  ET_TRY(eti_resize_matrices(ctx, values, &batch, 1, n, 0));
  ET_TRY(with_vectors ? eti_resize_like(ctx, vectors, a) : eti_resize(ctx, vectors, &none));
  ET_TRY(eti_matrix_work(ctx, stack, 2 * n * n + 4 * n, &work));
  double *const v = work + n * n, *const row = v + n * n;
  for (size_t i = 0; i < eti_matrix_count(values->numel > 0, &batch); i++) {
    eti_matrix_load(a, &batch, i, false, which == 'U' || which == 'u', work);
    for (size_t r = 0; r < n; r++) {
      for (size_t c = r + 1; c < n; c++) work[r * n + c] = work[c * n + r];
    }
    eti_dense_get()->eigen(work, n, row, with_vectors ? v : NULL, row + n);
    eti_row_store(values, &batch, i, row, n);
    if (with_vectors) eti_matrix_store(vectors, &batch, i, false, true, v);
  }
  return ET_OK;
}

typedef struct singular {
  et_tensor *a, *u, *s, *vh;
  bool full, with_vectors;
  size_t m, n, k;  // of A, and the smaller of both
  eti_shape batch;
} singular;

// The columns of a tall matrix lie in rows of work memory, and so do its left vectors; wide ones
// are their own transposes there, with left and right exchanged.
static void decompose(const singular *d, size_t i, double *work) {
  const bool wide = d->m < d->n;
  const size_t tall = wide ? d->n : d->m, k = d->k, rows = d->full ? tall : k;
  double *const left = work, *const right = work + tall * rows, *const values = right + k * k;
  eti_matrix_load(d->a, &d->batch, i, false, !wide, left);
  eti_dense_get()->svd(left, rows, k, tall, d->with_vectors, values, right, values + k);
  eti_row_store(d->s, &d->batch, i, values, k);
  if (!d->with_vectors) return;
  eti_matrix_store(wide ? d->vh : d->u, &d->batch, i, false, !wide, left);
  eti_matrix_store(wide ? d->u : d->vh, &d->batch, i, false, wide, right);
}

// (A, full_matrices, compute_uv, driver, U, S, Vh)
et_status op_linalg_svd_u(et_kernel_ctx *ctx, et_value *const *args) {
  singular d = {0};
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.svd", false, &d.a));
  ET_TRY(eti_arg_bool(ctx, args, 1, &d.full));
  ET_TRY(eti_arg_bool(ctx, args, 2, &d.with_vectors));
  ET_TRY(eti_arg_result(ctx, args, 4, (et_dtype)d.a->dtype, &d.u));
  ET_TRY(eti_arg_result(ctx, args, 5, (et_dtype)d.a->dtype, &d.s));
  ET_TRY(eti_arg_result(ctx, args, 6, (et_dtype)d.a->dtype, &d.vh));
  d.m = eti_matrix_rows(d.a);
  d.n = eti_matrix_columns(d.a);
  d.k = d.m < d.n ? d.m : d.n;
  d.batch = eti_batch_of(d.a, 2);
  const eti_shape none = {.rank = 1, .sizes = {0}};
  ET_TRY(eti_resize_matrices(ctx, d.s, &d.batch, 1, d.k, 0));
  if (d.with_vectors) {
    ET_TRY(eti_resize_matrices(ctx, d.u, &d.batch, 2, d.m, d.full ? d.m : d.k));
    ET_TRY(eti_resize_matrices(ctx, d.vh, &d.batch, 2, d.full ? d.n : d.k, d.n));
  } else {
    ET_TRY(eti_resize(ctx, d.u, &none));
    ET_TRY(eti_resize(ctx, d.vh, &none));
  }
  const size_t tall = d.m > d.n ? d.m : d.n;
  ET_TRY(eti_matrix_work(ctx, stack, tall * (d.full ? tall : d.k) + d.k * (d.k + 5) + tall, &work));
  const bool any = d.s->numel > 0 || d.u->numel > 0 || d.vh->numel > 0;
  for (size_t i = 0; i < eti_matrix_count(any, &d.batch); i++) decompose(&d, i, work);
  return ET_OK;
}
