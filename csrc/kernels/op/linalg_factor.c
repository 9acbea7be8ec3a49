// linalg_factor.c — orthogonal factors of matrices: QR, eigenvectors of symmetric matrices,
// singular vectors. Every matrix of a batch is computed in f64 in work memory. Signs of Q and R are
// LAPACK's; those of eigenvectors and singular vectors are arbitrary. Relies on
// micro/linalg/linalg.h and small_matrix.h.
#include "kernels/kernel.h"
#include "kernels/lib/small_matrix.h"
#include "kernels/micro/linalg/linalg.h"

#include <string.h>

typedef struct qr_job {
  et_tensor *a, *q, *r;
  bool only_r;
  size_t m, n, side;
  eti_shape batch;
} qr_job;

static void factor_qr(void *ctx, size_t i, double *work) {
  const qr_job *const j = ctx;
  double *const columns = work + j->m * j->n;
  eti_matrix_load(j->a, &j->batch, i, false, false, work);
  eti_linalg_get()->qr(work, j->m, j->n, columns, j->only_r ? 0 : j->side,
                       columns + j->m * j->side);
  eti_matrix_store(j->r, &j->batch, i, false, false, work);
  if (!j->only_r) eti_matrix_store(j->q, &j->batch, i, false, false, columns);
}

// (A, mode, Q, R)
et_status op_linalg_qr_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *q, *r;
  const char *mode;
  ET_TRY(eti_matrix_arg(ctx, args, 0, "linalg.qr", false, &a));
  ET_TRY(eti_arg_string(ctx, args, 1, &mode));
  ET_TRY(eti_arg_result(ctx, args, 2, (et_dtype)a->dtype, &q));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &r));
  const bool complete = mode != NULL && strcmp(mode, "complete") == 0,
             only_r = mode != NULL && strcmp(mode, "r") == 0;
  ET_CHECK(mode != NULL && (complete || only_r || strcmp(mode, "reduced") == 0), ctx->err,
           ET_INVALID_ARGUMENT, "linalg.qr: mode: expected reduced, complete or r, got %s",
           mode == NULL ? "None" : mode);
  const size_t m = eti_matrix_rows(a), n = eti_matrix_columns(a), k = m < n ? m : n,
               side = complete ? m : k;
  const eti_shape batch = eti_batch_of(a, 2), none = {.rank = 1, .sizes = {0}};
  ET_TRY(only_r ? eti_resize(ctx, q, &none) : eti_matrix_resize(ctx, q, &batch, 2, m, side));
  ET_TRY(eti_matrix_resize(ctx, r, &batch, 2, side, n));
  qr_job job = {
      .a = a, .q = q, .r = r, .only_r = only_r, .m = m, .n = n, .side = side, .batch = batch};
  return eti_matrix_run(ctx, eti_matrix_count(q->numel > 0 || r->numel > 0, &batch),
                        m * n + m * side + k + (n > side ? n : side), factor_qr, &job);
}

typedef struct eigen_job {
  et_tensor *a, *values, *vectors;  // vectors may be NULL
  bool upper;
  size_t n;
  eti_shape batch;
} eigen_job;

static void find_eigenvectors(void *ctx, size_t i, double *work) {
  const eigen_job *const j = ctx;
  const size_t n = j->n;
  double *const v = work + n * n, *const row = v + n * n;
  eti_matrix_load(j->a, &j->batch, i, false, j->upper, work);
  for (size_t r = 0; r < n; r++) {
    for (size_t c = r + 1; c < n; c++) work[r * n + c] = work[c * n + r];
  }
  eti_linalg_get()->eigen(work, n, row, j->vectors != NULL ? v : NULL, row + n);
  eti_row_store(j->values, &j->batch, i, row, n);
  if (j->vectors != NULL) eti_matrix_store(j->vectors, &j->batch, i, false, true, v);
}

// (A, UPLO, compute_v, eigenvalues, eigenvectors). Only the triangle that UPLO names is read.
et_status op_linalg_eigh_eigenvalues(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *values, *vectors;
  const char *triangle;
  bool with_vectors;
  ET_TRY(eti_matrix_arg(ctx, args, 0, "linalg.eigh", true, &a));
  ET_TRY(eti_arg_string(ctx, args, 1, &triangle));
  ET_TRY(eti_arg_bool(ctx, args, 2, &with_vectors));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &values));
  ET_TRY(eti_arg_result(ctx, args, 4, (et_dtype)a->dtype, &vectors));
  const char which = triangle == NULL ? '?' : triangle[0];
  ET_CHECK(which == 'L' || which == 'l' || which == 'U' || which == 'u', ctx->err,
           ET_INVALID_ARGUMENT, "linalg.eigh: UPLO: expected L or U, got %s",
           triangle == NULL ? "None" : triangle);
  const size_t n = eti_matrix_rows(a);
  const eti_shape batch = eti_batch_of(a, 2), none = {.rank = 1, .sizes = {0}};
  ET_TRY(eti_matrix_resize(ctx, values, &batch, 1, n, 0));
  ET_TRY(with_vectors ? eti_resize_like(ctx, vectors, a) : eti_resize(ctx, vectors, &none));
  eigen_job job = {.a = a,
                   .values = values,
                   .vectors = with_vectors ? vectors : NULL,
                   .upper = which == 'U' || which == 'u',
                   .n = n,
                   .batch = batch};
  return eti_matrix_run(ctx, eti_matrix_count(values->numel > 0, &batch), 2 * n * n + 4 * n,
                        find_eigenvectors, &job);
}

typedef struct singular {
  et_tensor *a, *u, *s, *vh;
  bool full, with_vectors;
  size_t m, n, k;  // of A, and the smaller of both
  eti_shape batch;
} singular;

// The columns of a tall matrix are rows of work memory, and so are its left vectors. A wide matrix
// is its own transpose there, with left and right exchanged.
static void run_svd(void *ctx, size_t i, double *work) {
  const singular *const d = ctx;
  const bool wide = d->m < d->n;
  const size_t tall = wide ? d->n : d->m, k = d->k, rows = d->full ? tall : k;
  double *const left = work, *const right = work + tall * rows, *const values = right + k * k;
  eti_matrix_load(d->a, &d->batch, i, false, !wide, left);
  eti_linalg_get()->svd(left, rows, k, tall, d->with_vectors, values, right, values + k);
  eti_row_store(d->s, &d->batch, i, values, k);
  if (!d->with_vectors) return;
  eti_matrix_store(wide ? d->vh : d->u, &d->batch, i, false, !wide, left);
  eti_matrix_store(wide ? d->u : d->vh, &d->batch, i, false, wide, right);
}

// (A, full_matrices, compute_uv, driver, U, S, Vh)
et_status op_linalg_svd_u(et_kernel_ctx *ctx, et_value *const *args) {
  singular d = {0};
  ET_TRY(eti_matrix_arg(ctx, args, 0, "linalg.svd", false, &d.a));
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
  ET_TRY(eti_matrix_resize(ctx, d.s, &d.batch, 1, d.k, 0));
  if (d.with_vectors) {
    ET_TRY(eti_matrix_resize(ctx, d.u, &d.batch, 2, d.m, d.full ? d.m : d.k));
    ET_TRY(eti_matrix_resize(ctx, d.vh, &d.batch, 2, d.full ? d.n : d.k, d.n));
  } else {
    ET_TRY(eti_resize(ctx, d.u, &none));
    ET_TRY(eti_resize(ctx, d.vh, &none));
  }
  const size_t tall = d.m > d.n ? d.m : d.n;
  const bool any = d.s->numel > 0 || d.u->numel > 0 || d.vh->numel > 0;
  return eti_matrix_run(ctx, eti_matrix_count(any, &d.batch),
                        tall * (d.full ? tall : d.k) + d.k * (d.k + 5) + tall, run_svd, &d);
}
