// linalg_solve.c — systems of linear equations by elimination: inverses, solutions, determinants,
// LU and Cholesky factors. Every matrix of a batch is computed in f64 in work memory. Singular
// matrices are errors if check_errors is true, else a number in info. Relies on
// micro/linalg/linalg.h and small_matrix.h.
#include "kernels/kernel.h"
#include "kernels/lib/small_matrix.h"
#include "kernels/micro/linalg/linalg.h"
#include "kernels/micro/math/math_f64.h"

#include <math.h>

// Work memory of the LU factorisation of one matrix.
typedef struct elimination {
  double *lu;
  int32_t *pivots;
  double *rest;  // the work memory after both
  size_t singular;
} elimination;

static size_t elimination_numbers(size_t m, size_t n) {
  return m * n + (m < n ? m : n);
}

static elimination split_work(double *work, size_t m, size_t n) {
  return (elimination){.lu = work,
                       .pivots = (int32_t *)(void *)(work + m * n),
                       .rest = work + elimination_numbers(m, n)};
}

static et_status report_singular(const et_kernel_ctx *ctx, const char *op, bool checks,
                                 const et_tensor *info, const eti_shape *batch) {
  size_t at = 0;
  const size_t n = checks ? eti_matrix_count(true, batch) : 0,
               i = eti_first_failed(info, batch, n, &at);
  ET_CHECK(i == n, ctx->err, ET_INVALID_ARGUMENT,
           "%s: matrix %zu of the batch is singular: diagonal element %zu of U is zero", op, i, at);
  return ET_OK;
}

// Writes the factors of matrix i to the results that exist.
static void factor_matrix(const et_tensor *a, const eti_shape *batch, size_t i, bool exchanges,
                          elimination *e, const et_tensor *lu, const et_tensor *pivots,
                          const et_tensor *info) {
  const size_t m = eti_matrix_rows(a), n = eti_matrix_columns(a);
  eti_matrix_load(a, batch, i, false, false, e->lu);
  e->singular = eti_linalg_get()->lu(e->lu, m, n, exchanges, e->pivots);
  if (lu != NULL) eti_matrix_store(lu, batch, i, false, false, e->lu);
  if (pivots != NULL) eti_pivots_store(pivots, batch, i, e->pivots, m < n ? m : n);
  if (info != NULL) eti_number_store(info, batch, i, (double)e->singular);
}

// Outputs of elimination for each matrix; an operator's absent outputs are NULL.
typedef struct elimination_job {
  et_tensor *a, *lu, *pivots, *info;
  et_tensor *first, *log;  // inverse, or determinant and its logarithm, or L
  et_tensor *p, *u;
  bool exchanges;
  size_t m, n;
  eti_shape batch;
} elimination_job;

// Reads the matrices, argument 0.
static et_status read_matrices(const et_kernel_ctx *ctx, et_value *const *args, const char *op,
                               bool square, elimination_job *j) {
  *j = (elimination_job){0};
  ET_TRY(eti_matrix_arg(ctx, args, 0, op, square, &j->a));
  j->m = eti_matrix_rows(j->a);
  j->n = eti_matrix_columns(j->a);
  j->batch = eti_batch_of(j->a, 2);
  return ET_OK;
}

static void run_inverse(void *ctx, size_t i, double *work) {
  const elimination_job *const j = ctx;
  const size_t n = j->n;
  elimination e = split_work(work, n, n);
  factor_matrix(j->a, &j->batch, i, true, &e, NULL, NULL, j->info);
  for (size_t k = 0; k < n * n; k++) e.rest[k] = 0.0;
  for (size_t k = 0; k < n; k++) e.rest[k * n + k] = 1.0;
  eti_linalg_get()->lu_solve(e.lu, n, e.pivots, e.rest, n);
  eti_matrix_store(j->first, &j->batch, i, false, false, e.rest);
}

// (A, check_errors, inverse, info)
et_status op_linalg_inv_ex_inverse(et_kernel_ctx *ctx, et_value *const *args) {
  elimination_job j;
  bool checks;
  ET_TRY(read_matrices(ctx, args, "linalg.inv", true, &j));
  ET_TRY(eti_arg_bool(ctx, args, 1, &checks));
  ET_TRY(eti_arg_result(ctx, args, 2, (et_dtype)j.a->dtype, &j.first));
  ET_TRY(eti_arg_result(ctx, args, 3, ET_I32, &j.info));
  ET_TRY(eti_resize_like(ctx, j.first, j.a));
  ET_TRY(eti_matrix_resize(ctx, j.info, &j.batch, 0, 0, 0));
  ET_TRY(eti_matrix_run(ctx, eti_matrix_count(true, &j.batch),
                        elimination_numbers(j.n, j.n) + j.n * j.n, run_inverse, &j));
  return report_singular(ctx, "linalg.inv", checks, j.info, &j.batch);
}

// ATen's rule: b contains vectors if it is one, or if it has a's shape without the last dimension.
static bool holds_vectors(const et_tensor *a, const et_tensor *b) {
  if (b->rank == 1) return true;
  if (b->rank + 1 != a->rank) return false;
  for (size_t d = 0; d < b->rank; d++) {
    if (a->sizes[d] != b->sizes[d]) return false;
  }
  return true;
}

typedef struct system {
  et_tensor *a, *b, *out;
  bool is_vector, left;
  size_t n, k;  // of A, and right-hand sides
  eti_shape batch;
  // of linalg.solve
  et_tensor *lu, *pivots, *info;
  eti_shape own;  // batch of A
  bool at_once;   // both batches are one
  // of linalg.solve_triangular
  bool upper, unit;
} system;

// Shapes of A X = B, or X A = B, and of the result.
static et_status read_system(const et_kernel_ctx *ctx, const char *op, system *s) {
  const et_tensor *const b = s->b;
  const size_t less = s->is_vector ? 1 : 2;
  ET_CHECK(b->dtype == s->a->dtype && b->rank >= less && (s->left || !s->is_vector), ctx->err,
           ET_INVALID_ARGUMENT, "%s: expected matrices of one type, got B %s of rank %d, A %s", op,
           et_dtype_name((et_dtype)b->dtype), (int)b->rank, et_dtype_name((et_dtype)s->a->dtype));
  s->n = eti_matrix_rows(s->a);
  const size_t rows = s->is_vector ? eti_matrix_columns(b) : eti_matrix_rows(b),
               columns = s->is_vector ? 1 : eti_matrix_columns(b);
  s->k = s->left ? columns : rows;
  ET_CHECK((s->left ? rows : columns) == s->n, ctx->err, ET_INVALID_ARGUMENT,
           "%s: B of %zu by %zu numbers does not match A of %zu by %zu", op, rows, columns, s->n,
           s->n);
  ET_CHECK(s->k <= ETI_MATRIX_SIDE, ctx->err, ET_NOT_SUPPORTED,
           "%s: expected at most %d right-hand sides, got %zu", op, ETI_MATRIX_SIDE, s->k);
  const eti_shape of_a = eti_batch_of(s->a, 2), of_b = eti_batch_of(b, less);
  ET_TRY(eti_broadcast(ctx, &of_a, &of_b, &s->batch));
  ET_CHECK(s->out != s->a && s->out != s->b, ctx->err, ET_INVALID_ARGUMENT,
           "%s: the result is also an input", op);
  return s->is_vector ? eti_matrix_resize(ctx, s->out, &s->batch, 1, rows, 0)
                      : eti_matrix_resize(ctx, s->out, &s->batch, 2, rows, columns);
}

static void factor_system(void *ctx, size_t i, double *work) {
  const system *const s = ctx;
  elimination e = split_work(work, s->n, s->n);
  factor_matrix(s->a, &s->own, i, true, &e, s->lu, s->pivots, s->info);
  if (!s->at_once) return;
  eti_matrix_load(s->b, &s->batch, i, s->is_vector, false, e.rest);
  eti_linalg_get()->lu_solve(e.lu, s->n, e.pivots, e.rest, s->k);
  eti_matrix_store(s->out, &s->batch, i, s->is_vector, false, e.rest);
}

static void solve_system(void *ctx, size_t i, double *work) {
  const system *const s = ctx;
  elimination e = split_work(work, s->n, s->n);
  eti_matrix_load(s->a, &s->batch, i, false, !s->left, e.lu);
  eti_linalg_get()->lu(e.lu, s->n, s->n, true, e.pivots);
  eti_matrix_load(s->b, &s->batch, i, s->is_vector, !s->left, e.rest);
  eti_linalg_get()->lu_solve(e.lu, s->n, e.pivots, e.rest, s->k);
  eti_matrix_store(s->out, &s->batch, i, s->is_vector, !s->left, e.rest);
}

// (A, B, left, check_errors, result, LU, pivots, info). X A = B is Aᵀ Xᵀ = Bᵀ.
et_status op_linalg_solve_ex_result(et_kernel_ctx *ctx, et_value *const *args) {
  system s = {0};
  bool checks;
  ET_TRY(eti_matrix_arg(ctx, args, 0, "linalg.solve", true, &s.a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &s.b));
  ET_TRY(eti_arg_bool(ctx, args, 2, &s.left));
  ET_TRY(eti_arg_bool(ctx, args, 3, &checks));
  ET_TRY(eti_arg_result(ctx, args, 4, (et_dtype)s.a->dtype, &s.out));
  ET_TRY(eti_arg_result(ctx, args, 5, (et_dtype)s.a->dtype, &s.lu));
  ET_TRY(eti_arg_result(ctx, args, 6, ET_I32, &s.pivots));
  ET_TRY(eti_arg_result(ctx, args, 7, ET_I32, &s.info));
  s.is_vector = holds_vectors(s.a, s.b);
  ET_TRY(read_system(ctx, "linalg.solve", &s));
  s.own = eti_batch_of(s.a, 2);
  ET_TRY(eti_matrix_resize(ctx, s.lu, &s.own, 2, s.n, s.n));
  ET_TRY(eti_matrix_resize(ctx, s.pivots, &s.own, 1, s.n, 0));
  ET_TRY(eti_matrix_resize(ctx, s.info, &s.own, 0, 0, 0));
  const size_t numbers = elimination_numbers(s.n, s.n) + s.n * s.k,
               count = eti_matrix_count(true, &s.own);
  s.at_once = s.left && s.own.rank == s.batch.rank && s.out->numel > 0 &&
              count == eti_matrix_count(true, &s.batch);
  ET_TRY(eti_matrix_run(ctx, count, numbers, factor_system, &s));
  ET_TRY(report_singular(ctx, "linalg.solve", checks, s.info, &s.own));
  if (s.at_once) return ET_OK;
  return eti_matrix_run(ctx, eti_matrix_count(s.out->numel > 0, &s.batch), numbers, solve_system,
                        &s);
}

static void solve_triangle(void *ctx, size_t i, double *work) {
  const system *const s = ctx;
  double *const b = work + s->n * s->n;
  eti_matrix_load(s->a, &s->batch, i, false, !s->left, work);
  eti_matrix_load(s->b, &s->batch, i, false, !s->left, b);
  eti_linalg_get()->triangular_solve(work, s->n, s->upper == s->left, s->unit, b, s->k);
  eti_matrix_store(s->out, &s->batch, i, false, !s->left, b);
}

// (self, B, upper, left, unitriangular, out)
et_status op_linalg_solve_triangular_out(et_kernel_ctx *ctx, et_value *const *args) {
  system s = {0};
  ET_TRY(eti_matrix_arg(ctx, args, 0, "linalg.solve_triangular", true, &s.a));
  ET_TRY(eti_matrix_arg(ctx, args, 1, "linalg.solve_triangular", false, &s.b));
  ET_TRY(eti_arg_bool(ctx, args, 2, &s.upper));
  ET_TRY(eti_arg_bool(ctx, args, 3, &s.left));
  ET_TRY(eti_arg_bool(ctx, args, 4, &s.unit));
  ET_TRY(eti_arg_result(ctx, args, 5, (et_dtype)s.a->dtype, &s.out));
  ET_TRY(read_system(ctx, "linalg.solve_triangular", &s));
  return eti_matrix_run(ctx, eti_matrix_count(s.out->numel > 0, &s.batch), s.n * s.n + s.n * s.k,
                        solve_triangle, &s);
}

// ---- determinants

typedef struct determinant {
  double sign, log, product;
} determinant;

static determinant determinant_of(const elimination *e, size_t n, bool as_log) {
  determinant d = {1.0, 0.0, 1.0};
  for (size_t i = 0; i < n; i++) {
    const double x = e->pivots[i] == (int32_t)i ? e->lu[i * n + i] : -e->lu[i * n + i];
    d.product *= x;
    if (as_log) d.log += eti_log_f64(fabs(x));
    d.sign = x == 0.0 ? 0.0 : x < 0.0 ? -d.sign : x > 0.0 ? d.sign : x;
    if (x == 0.0) break;
  }
  return d;
}

static void find_determinant(void *ctx, size_t i, double *work) {
  const elimination_job *const j = ctx;
  const bool as_log = j->log != NULL;
  elimination e = split_work(work, j->n, j->n);
  factor_matrix(j->a, &j->batch, i, true, &e, j->lu, j->pivots, NULL);
  const determinant d = determinant_of(&e, j->n, as_log);
  eti_number_store(j->first, &j->batch, i, as_log ? d.sign : d.product);
  if (as_log) eti_number_store(j->log, &j->batch, i, d.log);
}

// Results at i_out: the determinant, or sign and logarithm; then LU and pivots.
static et_status find_determinants(const et_kernel_ctx *ctx, et_value *const *args, bool as_log) {
  elimination_job j;
  const size_t next = as_log ? 3 : 2;
  ET_TRY(read_matrices(ctx, args, "linalg.det", true, &j));
  const et_dtype type = (et_dtype)j.a->dtype;
  ET_TRY(eti_arg_result(ctx, args, 1, type, &j.first));
  if (as_log) ET_TRY(eti_arg_result(ctx, args, 2, type, &j.log));
  ET_TRY(eti_arg_result(ctx, args, next, type, &j.lu));
  ET_TRY(eti_arg_result(ctx, args, next + 1, ET_I32, &j.pivots));
  ET_TRY(eti_matrix_resize(ctx, j.first, &j.batch, 0, 0, 0));
  if (as_log) ET_TRY(eti_matrix_resize(ctx, j.log, &j.batch, 0, 0, 0));
  ET_TRY(eti_matrix_resize(ctx, j.lu, &j.batch, 2, j.n, j.n));
  ET_TRY(eti_matrix_resize(ctx, j.pivots, &j.batch, 1, j.n, 0));
  return eti_matrix_run(ctx, eti_matrix_count(true, &j.batch), elimination_numbers(j.n, j.n),
                        find_determinant, &j);
}

et_status op_linalg_det_result(et_kernel_ctx *ctx, et_value *const *args) {
  return find_determinants(ctx, args, false);
}
et_status op_linalg_slogdet_sign(et_kernel_ctx *ctx, et_value *const *args) {
  return find_determinants(ctx, args, true);
}

// ---- factors

static void run_factor(void *ctx, size_t i, double *work) {
  const elimination_job *const j = ctx;
  elimination e = split_work(work, j->m, j->n);
  factor_matrix(j->a, &j->batch, i, j->exchanges, &e, j->lu, j->pivots, j->info);
}

// (A, pivot, check_errors, LU, pivots, info)
et_status op_linalg_lu_factor_ex_out(et_kernel_ctx *ctx, et_value *const *args) {
  elimination_job j;
  bool checks;
  ET_TRY(read_matrices(ctx, args, "linalg.lu_factor", false, &j));
  ET_TRY(eti_arg_bool(ctx, args, 1, &j.exchanges));
  ET_TRY(eti_arg_bool(ctx, args, 2, &checks));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)j.a->dtype, &j.lu));
  ET_TRY(eti_arg_result(ctx, args, 4, ET_I32, &j.pivots));
  ET_TRY(eti_arg_result(ctx, args, 5, ET_I32, &j.info));
  ET_TRY(eti_resize_like(ctx, j.lu, j.a));
  ET_TRY(eti_matrix_resize(ctx, j.pivots, &j.batch, 1, j.m < j.n ? j.m : j.n, 0));
  ET_TRY(eti_matrix_resize(ctx, j.info, &j.batch, 0, 0, 0));
  ET_TRY(eti_matrix_run(ctx, eti_matrix_count(true, &j.batch), elimination_numbers(j.m, j.n),
                        run_factor, &j));
  return report_singular(ctx, "linalg.lu_factor", checks, j.info, &j.batch);
}

// The permutation P of A = P L U: exchanges from the last to the first applied to the identity.
static void permutation_of(const int32_t *pivots, size_t m, size_t k, double *p) {
  for (size_t i = 0; i < m * m; i++) p[i] = i / m == i % m ? 1.0 : 0.0;
  for (size_t i = k; i-- > 0;) {
    const size_t j = (size_t)pivots[i];
    for (size_t c = 0; c < m; c++) {
      const double kept = p[i * m + c];
      p[i * m + c] = p[j * m + c];
      p[j * m + c] = kept;
    }
  }
}

// Copies a triangle of lu[· × n] to rows × columns, with ones on the diagonal of the lower one.
static void cut_triangle(const double *lu, size_t n, size_t rows, size_t columns, bool lower,
                         double *to) {
  for (size_t r = 0; r < rows; r++) {
    for (size_t c = 0; c < columns; c++) {
      const bool inside = lower ? c < r : c >= r;
      to[r * columns + c] = inside ? lu[r * n + c] : lower && r == c ? 1.0 : 0.0;
    }
  }
}

static void factor_apart(void *ctx, size_t i, double *work) {
  const elimination_job *const j = ctx;
  const size_t m = j->m, n = j->n, k = m < n ? m : n;
  elimination e = split_work(work, m, n);
  factor_matrix(j->a, &j->batch, i, j->exchanges, &e, NULL, NULL, NULL);
  cut_triangle(e.lu, n, m, k, true, e.rest);
  eti_matrix_store(j->first, &j->batch, i, false, false, e.rest);
  cut_triangle(e.lu, n, k, n, false, e.rest);
  eti_matrix_store(j->u, &j->batch, i, false, false, e.rest);
  if (!j->exchanges) return;
  permutation_of(e.pivots, m, k, e.rest);
  eti_matrix_store(j->p, &j->batch, i, false, false, e.rest);
}

// (A, pivot, P, L, U)
et_status op_linalg_lu_out(et_kernel_ctx *ctx, et_value *const *args) {
  elimination_job j;
  ET_TRY(read_matrices(ctx, args, "linalg.lu", false, &j));
  const et_dtype type = (et_dtype)j.a->dtype;
  ET_TRY(eti_arg_bool(ctx, args, 1, &j.exchanges));
  ET_TRY(eti_arg_result(ctx, args, 2, type, &j.p));
  ET_TRY(eti_arg_result(ctx, args, 3, type, &j.first));
  ET_TRY(eti_arg_result(ctx, args, 4, type, &j.u));
  const size_t m = j.m, n = j.n, k = m < n ? m : n, side = m > n ? m : n;
  const eti_shape none = {.rank = 1, .sizes = {0}};
  ET_TRY(j.exchanges ? eti_matrix_resize(ctx, j.p, &j.batch, 2, m, m)
                     : eti_resize(ctx, j.p, &none));
  ET_TRY(eti_matrix_resize(ctx, j.first, &j.batch, 2, m, k));
  ET_TRY(eti_matrix_resize(ctx, j.u, &j.batch, 2, k, n));
  const bool any = j.first->numel > 0 || j.u->numel > 0 || j.p->numel > 0;
  return eti_matrix_run(ctx, eti_matrix_count(any, &j.batch),
                        elimination_numbers(m, n) + side * side, factor_apart, &j);
}

typedef struct cholesky_job {
  et_tensor *a, *out, *info;
  bool upper;
  size_t n;
  eti_shape batch;
} cholesky_job;

static void find_root(void *ctx, size_t i, double *work) {
  const cholesky_job *const j = ctx;
  const size_t n = j->n;
  eti_matrix_load(j->a, &j->batch, i, false, j->upper, work);
  const size_t order = eti_linalg_get()->cholesky(work, n);
  for (size_t k = 0; k < n * n; k++) work[k] = k % n > k / n ? 0.0 : work[k];
  eti_matrix_store(j->out, &j->batch, i, false, j->upper, work);
  eti_number_store(j->info, &j->batch, i, (double)order);
}

// (self, upper, check_errors, L, info). Only the requested triangle is read.
et_status op_linalg_cholesky_ex_l(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *out, *info;
  bool upper, checks;
  ET_TRY(eti_matrix_arg(ctx, args, 0, "linalg.cholesky", true, &a));
  ET_TRY(eti_arg_bool(ctx, args, 1, &upper));
  ET_TRY(eti_arg_bool(ctx, args, 2, &checks));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &out));
  ET_TRY(eti_arg_result(ctx, args, 4, ET_I32, &info));
  const size_t n = eti_matrix_rows(a);
  const eti_shape batch = eti_batch_of(a, 2);
  ET_TRY(eti_resize_like(ctx, out, a));
  ET_TRY(eti_matrix_resize(ctx, info, &batch, 0, 0, 0));
  cholesky_job job = {.a = a, .out = out, .info = info, .upper = upper, .n = n, .batch = batch};
  const size_t count = eti_matrix_count(true, &batch);
  size_t order = 0;
  ET_TRY(eti_matrix_run(ctx, count, n * n, find_root, &job));
  const size_t i = eti_first_failed(info, &batch, checks ? count : 0, &order);
  ET_CHECK(!checks || i == count, ctx->err, ET_INVALID_ARGUMENT,
           "linalg.cholesky: matrix %zu of the batch is not positive-definite: its leading minor "
           "of order %zu is not positive",
           i, order);
  return ET_OK;
}
