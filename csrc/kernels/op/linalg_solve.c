// linalg_solve.c — systems of linear equations and what elimination gives on the way: inverses,
// solutions, determinants, LU and Cholesky factors. Every matrix of a batch is computed in f64 in
// work memory. Singular matrices are errors where check_errors says so, else a number in info.
// Relies on micro/dense.h and matrices.h.
#include "kernels/matrices.h"
#include "kernels/micro/dense.h"
#include "kernels/micro/math_f64.h"

#include <math.h>

// What LU needs for one matrix.
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

static et_status report_singular(const et_kernel_ctx *ctx, const char *op, bool checks, size_t i,
                                 size_t at) {
  ET_CHECK(!checks || at == 0, ctx->err, ET_INVALID_ARGUMENT,
           "%s: matrix %zu of the batch is singular: diagonal element %zu of U is zero", op, i, at);
  return ET_OK;
}

// The factors of matrix i, written to results that are there.
static void eliminate(const et_tensor *a, const eti_shape *batch, size_t i, bool exchanges,
                      elimination *e, const et_tensor *lu, const et_tensor *pivots,
                      const et_tensor *info) {
  const size_t m = eti_matrix_rows(a), n = eti_matrix_columns(a);
  eti_matrix_load(a, batch, i, false, false, e->lu);
  e->singular = eti_dense_get()->lu(e->lu, m, n, exchanges, e->pivots);
  if (lu != NULL) eti_matrix_store(lu, batch, i, false, false, e->lu);
  if (pivots != NULL) eti_pivots_store(pivots, batch, i, e->pivots, m < n ? m : n);
  if (info != NULL) eti_number_store(info, batch, i, (double)e->singular);
}

// (A, check_errors, inverse, info)
et_status op_linalg_inv_ex_inverse(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *out, *info;
  bool checks;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.inv", true, &a));
  ET_TRY(eti_arg_bool(ctx, args, 1, &checks));
  ET_TRY(eti_arg_result(ctx, args, 2, (et_dtype)a->dtype, &out));
  ET_TRY(eti_arg_result(ctx, args, 3, ET_I32, &info));
  const size_t n = eti_matrix_rows(a);
  const eti_shape batch = eti_batch_of(a, 2);
  ET_TRY(eti_resize_like(ctx, out, a));
  ET_TRY(eti_resize_matrices(ctx, info, &batch, 0, 0, 0));
  ET_TRY(eti_matrix_work(ctx, stack, elimination_numbers(n, n) + n * n, &work));
  elimination e = split_work(work, n, n);
  for (size_t i = 0; i < eti_matrix_count(true, &batch); i++) {
    eliminate(a, &batch, i, true, &e, NULL, NULL, info);
    ET_TRY(report_singular(ctx, "linalg.inv", checks, i, e.singular));
    for (size_t k = 0; k < n * n; k++) e.rest[k] = k / n == k % n ? 1.0 : 0.0;
    eti_dense_get()->lu_solve(e.lu, n, e.pivots, e.rest, n);
    eti_matrix_store(out, &batch, i, false, false, e.rest);
  }
  return ET_OK;
}

// ATen's rule: b holds vectors when it is one, or when it is a's shape without its last dimension.
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
} system;

// Shapes of A X = B, or X A = B, and of the result.
static et_status read_system(const et_kernel_ctx *ctx, const char *op, system *s) {
  const et_tensor *const b = s->b;
  const size_t less = s->is_vector ? 1 : 2;
  ET_CHECK(b->dtype == s->a->dtype && b->rank >= less && (s->left || !s->is_vector), ctx->err,
           ET_INVALID_ARGUMENT, "%s: B is %s of rank %d, A %s; needs one type, and matrices", op,
           et_dtype_name((et_dtype)b->dtype), (int)b->rank, et_dtype_name((et_dtype)s->a->dtype));
  s->n = eti_matrix_rows(s->a);
  const size_t rows = s->is_vector ? eti_matrix_columns(b) : eti_matrix_rows(b),
               columns = s->is_vector ? 1 : eti_matrix_columns(b);
  s->k = s->left ? columns : rows;
  ET_CHECK((s->left ? rows : columns) == s->n, ctx->err, ET_INVALID_ARGUMENT,
           "%s: B has %zu by %zu numbers, A is %zu by %zu", op, rows, columns, s->n, s->n);
  ET_CHECK(s->k <= ETI_MATRIX_SIDE, ctx->err, ET_NOT_SUPPORTED,
           "%s: %zu right-hand sides, the limit is %d", op, s->k, ETI_MATRIX_SIDE);
  const eti_shape of_a = eti_batch_of(s->a, 2), of_b = eti_batch_of(b, less);
  ET_TRY(eti_broadcast(ctx, &of_a, &of_b, &s->batch));
  ET_CHECK(s->out != s->a && s->out != s->b, ctx->err, ET_INVALID_ARGUMENT,
           "%s: the result is also an input", op);
  return s->is_vector ? eti_resize_matrices(ctx, s->out, &s->batch, 1, rows, 0)
                      : eti_resize_matrices(ctx, s->out, &s->batch, 2, rows, columns);
}

// (A, B, left, check_errors, result, LU, pivots, info). X A = B is Aᵀ Xᵀ = Bᵀ.
et_status op_linalg_solve_ex_result(et_kernel_ctx *ctx, et_value *const *args) {
  system s = {0};
  et_tensor *lu, *pivots, *info;
  bool checks;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.solve", true, &s.a));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &s.b));
  ET_TRY(eti_arg_bool(ctx, args, 2, &s.left));
  ET_TRY(eti_arg_bool(ctx, args, 3, &checks));
  ET_TRY(eti_arg_result(ctx, args, 4, (et_dtype)s.a->dtype, &s.out));
  ET_TRY(eti_arg_result(ctx, args, 5, (et_dtype)s.a->dtype, &lu));
  ET_TRY(eti_arg_result(ctx, args, 6, ET_I32, &pivots));
  ET_TRY(eti_arg_result(ctx, args, 7, ET_I32, &info));
  s.is_vector = holds_vectors(s.a, s.b);
  ET_TRY(read_system(ctx, "linalg.solve", &s));
  const eti_shape own = eti_batch_of(s.a, 2);
  ET_TRY(eti_resize_matrices(ctx, lu, &own, 2, s.n, s.n));
  ET_TRY(eti_resize_matrices(ctx, pivots, &own, 1, s.n, 0));
  ET_TRY(eti_resize_matrices(ctx, info, &own, 0, 0, 0));
  ET_TRY(eti_matrix_work(ctx, stack, elimination_numbers(s.n, s.n) + s.n * s.k, &work));
  elimination e = split_work(work, s.n, s.n);
  const bool at_once = s.left && own.rank == s.batch.rank && s.out->numel > 0 &&
                       eti_matrix_count(true, &own) == eti_matrix_count(true, &s.batch);
  for (size_t i = 0; i < eti_matrix_count(true, &own); i++) {
    eliminate(s.a, &own, i, true, &e, lu, pivots, info);
    ET_TRY(report_singular(ctx, "linalg.solve", checks, i, e.singular));
    if (!at_once) continue;
    eti_matrix_load(s.b, &s.batch, i, s.is_vector, false, e.rest);
    eti_dense_get()->lu_solve(e.lu, s.n, e.pivots, e.rest, s.k);
    eti_matrix_store(s.out, &s.batch, i, s.is_vector, false, e.rest);
  }
  for (size_t i = 0; !at_once && i < eti_matrix_count(s.out->numel > 0, &s.batch); i++) {
    eti_matrix_load(s.a, &s.batch, i, false, !s.left, e.lu);
    eti_dense_get()->lu(e.lu, s.n, s.n, true, e.pivots);
    eti_matrix_load(s.b, &s.batch, i, s.is_vector, !s.left, e.rest);
    eti_dense_get()->lu_solve(e.lu, s.n, e.pivots, e.rest, s.k);
    eti_matrix_store(s.out, &s.batch, i, s.is_vector, !s.left, e.rest);
  }
  return ET_OK;
}

// (self, B, upper, left, unitriangular, out)
et_status op_linalg_solve_triangular_out(et_kernel_ctx *ctx, et_value *const *args) {
  system s = {0};
  bool upper, unit;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.solve_triangular", true, &s.a));
  ET_TRY(eti_arg_matrices(ctx, args, 1, "linalg.solve_triangular", false, &s.b));
  ET_TRY(eti_arg_bool(ctx, args, 2, &upper));
  ET_TRY(eti_arg_bool(ctx, args, 3, &s.left));
  ET_TRY(eti_arg_bool(ctx, args, 4, &unit));
  ET_TRY(eti_arg_result(ctx, args, 5, (et_dtype)s.a->dtype, &s.out));
  ET_TRY(read_system(ctx, "linalg.solve_triangular", &s));
  ET_TRY(eti_matrix_work(ctx, stack, s.n * s.n + s.n * s.k, &work));
  double *const b = work + s.n * s.n;
  for (size_t i = 0; i < eti_matrix_count(s.out->numel > 0, &s.batch); i++) {
    eti_matrix_load(s.a, &s.batch, i, false, !s.left, work);
    eti_matrix_load(s.b, &s.batch, i, false, !s.left, b);
    eti_dense_get()->triangular_solve(work, s.n, upper == s.left, unit, b, s.k);
    eti_matrix_store(s.out, &s.batch, i, false, !s.left, b);
  }
  return ET_OK;
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

// Results at i_out: the determinant, or sign and logarithm; then LU and pivots.
static et_status find_determinants(const et_kernel_ctx *ctx, et_value *const *args, bool as_log) {
  et_tensor *a, *first, *log = NULL, *lu, *pivots;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  const size_t next = as_log ? 3 : 2;
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.det", true, &a));
  ET_TRY(eti_arg_result(ctx, args, 1, (et_dtype)a->dtype, &first));
  if (as_log) ET_TRY(eti_arg_result(ctx, args, 2, (et_dtype)a->dtype, &log));
  ET_TRY(eti_arg_result(ctx, args, next, (et_dtype)a->dtype, &lu));
  ET_TRY(eti_arg_result(ctx, args, next + 1, ET_I32, &pivots));
  const size_t n = eti_matrix_rows(a);
  const eti_shape batch = eti_batch_of(a, 2);
  ET_TRY(eti_resize_matrices(ctx, first, &batch, 0, 0, 0));
  if (as_log) ET_TRY(eti_resize_matrices(ctx, log, &batch, 0, 0, 0));
  ET_TRY(eti_resize_matrices(ctx, lu, &batch, 2, n, n));
  ET_TRY(eti_resize_matrices(ctx, pivots, &batch, 1, n, 0));
  ET_TRY(eti_matrix_work(ctx, stack, elimination_numbers(n, n), &work));
  elimination e = split_work(work, n, n);
  for (size_t i = 0; i < eti_matrix_count(true, &batch); i++) {
    eliminate(a, &batch, i, true, &e, lu, pivots, NULL);
    const determinant d = determinant_of(&e, n, as_log);
    eti_number_store(first, &batch, i, as_log ? d.sign : d.product);
    if (as_log) eti_number_store(log, &batch, i, d.log);
  }
  return ET_OK;
}

et_status op_linalg_det_result(et_kernel_ctx *ctx, et_value *const *args) {
  return find_determinants(ctx, args, false);
}
et_status op_linalg_slogdet_sign(et_kernel_ctx *ctx, et_value *const *args) {
  return find_determinants(ctx, args, true);
}

// ---- factors

// (A, pivot, check_errors, LU, pivots, info)
et_status op_linalg_lu_factor_ex_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *lu, *pivots, *info;
  bool exchanges, checks;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.lu_factor", false, &a));
  ET_TRY(eti_arg_bool(ctx, args, 1, &exchanges));
  ET_TRY(eti_arg_bool(ctx, args, 2, &checks));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &lu));
  ET_TRY(eti_arg_result(ctx, args, 4, ET_I32, &pivots));
  ET_TRY(eti_arg_result(ctx, args, 5, ET_I32, &info));
  const size_t m = eti_matrix_rows(a), n = eti_matrix_columns(a);
  const eti_shape batch = eti_batch_of(a, 2);
  ET_TRY(eti_resize_like(ctx, lu, a));
  ET_TRY(eti_resize_matrices(ctx, pivots, &batch, 1, m < n ? m : n, 0));
  ET_TRY(eti_resize_matrices(ctx, info, &batch, 0, 0, 0));
  ET_TRY(eti_matrix_work(ctx, stack, elimination_numbers(m, n), &work));
  elimination e = split_work(work, m, n);
  for (size_t i = 0; i < eti_matrix_count(true, &batch); i++) {
    eliminate(a, &batch, i, exchanges, &e, lu, pivots, info);
    ET_TRY(report_singular(ctx, "linalg.lu_factor", checks, i, e.singular));
  }
  return ET_OK;
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

// (A, pivot, P, L, U)
et_status op_linalg_lu_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *p, *l, *u;
  bool exchanges;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.lu", false, &a));
  ET_TRY(eti_arg_bool(ctx, args, 1, &exchanges));
  ET_TRY(eti_arg_result(ctx, args, 2, (et_dtype)a->dtype, &p));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &l));
  ET_TRY(eti_arg_result(ctx, args, 4, (et_dtype)a->dtype, &u));
  const size_t m = eti_matrix_rows(a), n = eti_matrix_columns(a), k = m < n ? m : n,
               side = m > n ? m : n;
  const eti_shape batch = eti_batch_of(a, 2), none = {.rank = 1, .sizes = {0}};
  ET_TRY(exchanges ? eti_resize_matrices(ctx, p, &batch, 2, m, m) : eti_resize(ctx, p, &none));
  ET_TRY(eti_resize_matrices(ctx, l, &batch, 2, m, k));
  ET_TRY(eti_resize_matrices(ctx, u, &batch, 2, k, n));
  ET_TRY(eti_matrix_work(ctx, stack, elimination_numbers(m, n) + side * side, &work));
  elimination e = split_work(work, m, n);
  for (size_t i = 0; i < eti_matrix_count(l->numel > 0 || u->numel > 0 || p->numel > 0, &batch);
       i++) {
    eliminate(a, &batch, i, exchanges, &e, NULL, NULL, NULL);
    cut_triangle(e.lu, n, m, k, true, e.rest);
    eti_matrix_store(l, &batch, i, false, false, e.rest);
    cut_triangle(e.lu, n, k, n, false, e.rest);
    eti_matrix_store(u, &batch, i, false, false, e.rest);
    if (!exchanges) continue;
    permutation_of(e.pivots, m, k, e.rest);
    eti_matrix_store(p, &batch, i, false, false, e.rest);
  }
  return ET_OK;
}

// (self, upper, check_errors, L, info). Only the triangle that is asked for is read.
et_status op_linalg_cholesky_ex_l(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *out, *info;
  bool upper, checks;
  double *work;
  _Alignas(64) char stack[ETI_MATRIX_STACK];
  ET_TRY(eti_arg_matrices(ctx, args, 0, "linalg.cholesky", true, &a));
  ET_TRY(eti_arg_bool(ctx, args, 1, &upper));
  ET_TRY(eti_arg_bool(ctx, args, 2, &checks));
  ET_TRY(eti_arg_result(ctx, args, 3, (et_dtype)a->dtype, &out));
  ET_TRY(eti_arg_result(ctx, args, 4, ET_I32, &info));
  const size_t n = eti_matrix_rows(a);
  const eti_shape batch = eti_batch_of(a, 2);
  ET_TRY(eti_resize_like(ctx, out, a));
  ET_TRY(eti_resize_matrices(ctx, info, &batch, 0, 0, 0));
  ET_TRY(eti_matrix_work(ctx, stack, n * n, &work));
  for (size_t i = 0; i < eti_matrix_count(true, &batch); i++) {
    eti_matrix_load(a, &batch, i, false, upper, work);
    const size_t order = eti_dense_get()->cholesky(work, n);
    ET_CHECK(!checks || order == 0, ctx->err, ET_INVALID_ARGUMENT,
             "linalg.cholesky: matrix %zu of the batch is not positive-definite: its leading minor "
             "of order %zu is not positive",
             i, order);
    for (size_t k = 0; k < n * n; k++) work[k] = k % n > k / n ? 0.0 : work[k];
    eti_matrix_store(out, &batch, i, false, upper, work);
    eti_number_store(info, &batch, i, (double)order);
  }
  return ET_OK;
}
