// linalg.body.h — the source of every variant of linalg.h; the including file names its table,
// ETI_LINALG_TABLE. Gaussian elimination with row exchanges and LAPACK's Householder reflections
// are here, eigenvalues and singular values in linalg_spectral.body.h. Every loop over numbers runs
// along rows and is one of the four below.
#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/linalg/linalg.h"
#include "kernels/micro/math/math_core.h"

#include <float.h>
#include <math.h>
#include <string.h>

// y -= f·x
ETI_INLINE void subtract(double *y, double f, const double *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] -= f * x[i];
}

// y += sign·Σ f[j]·x[j] one after the other, four rows at a time; rows are `step` apart.
ETI_INLINE void combine_rows(double *y, double sign, const double *f, ptrdiff_t f_step,
                             const double *x, ptrdiff_t step, size_t rows, size_t n) {
  size_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    const double *const g = f + (ptrdiff_t)j * f_step, *const x0 = x + (ptrdiff_t)j * step;
    const double *const x1 = x0 + step, *const x2 = x1 + step, *const x3 = x2 + step;
    const double f0 = sign * g[0], f1 = sign * g[f_step];
    const double f2 = sign * g[2 * f_step], f3 = sign * g[3 * f_step];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++)
      y[i] = (((y[i] + f0 * x0[i]) + f1 * x1[i]) + f2 * x2[i]) + f3 * x3[i];
  }
  for (; j < rows; j++) subtract(y, -sign * f[(ptrdiff_t)j * f_step], x + (ptrdiff_t)j * step, n);
}

static void add_rows(double *y, const double *f, ptrdiff_t f_step, const double *x, ptrdiff_t step,
                     size_t rows, size_t n) {
  combine_rows(y, 1, f, f_step, x, step, rows, n);
}

static inline void scale(double *y, double f, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] *= f;
}

ETI_INLINE void exchange(double *x, double *y, size_t n) {
  if (x == y) return;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const double kept = x[i];
    x[i] = y[i];
    y[i] = kept;
  }
}

// ---- elimination. Matrices of 2 … 4 rows, as in most batches, have code of their own: loops of
// unknown length take longer than their arithmetic.

ETI_INLINE size_t eliminate(double *a, size_t m, size_t n, bool exchanges, int32_t *pivots) {
  size_t zero = 0;
  for (size_t i = 0; i < m && i < n; i++) {
    double *const row = a + i * n;
    size_t best = i;
    for (size_t r = i + 1; exchanges && r < m; r++) {
      if (fabs(a[r * n + i]) > fabs(a[best * n + i])) best = r;
    }
    pivots[i] = (int32_t)best;
    exchange(row, a + best * n, n);
    const double pivot = row[i];
    if (pivot == 0.0) {
      if (zero == 0) zero = i + 1;
      continue;
    }
    for (size_t r = i + 1; r < m; r++) {
      double *const other = a + r * n;
      other[i] /= pivot;
      subtract(other + i + 1, other[i], row + i + 1, n - i - 1);
    }
  }
  return zero;
}

static size_t lu(double *a, size_t m, size_t n, bool exchanges, int32_t *pivots) {
  ET_ASSERT(ETI_HOLDS(a, m * n, double) && ETI_HOLDS(pivots, m < n ? m : n, int32_t));
  if (m == 4 && n == 4) return eliminate(a, 4, 4, exchanges, pivots);
  if (m == 3 && n == 3) return eliminate(a, 3, 3, exchanges, pivots);
  if (m == 2 && n == 2) return eliminate(a, 2, 2, exchanges, pivots);
  return eliminate(a, m, n, exchanges, pivots);
}

ETI_INLINE void substitute(const double *t, size_t n, bool upper, bool unit, double *b, size_t k) {
  const ptrdiff_t way = upper ? -1 : 1;
  const size_t first = upper ? n - 1 : 0;
  for (size_t s = 0; s < n; s++) {
    const size_t i = upper ? n - 1 - s : s;
    double *const row = b + i * k;
    combine_rows(row, -1, t + i * n + first, way, b + first * k, way * (ptrdiff_t)k, s, k);
    if (unit) continue;
    const double diagonal = t[i * n + i];
    ETI_NO_DEPENDENCES
    for (size_t c = 0; c < k; c++) row[c] /= diagonal;
  }
}

static void triangular_solve(const double *t, size_t n, bool upper, bool unit, double *b,
                             size_t k) {
  ET_ASSERT(ETI_HOLDS(t, n * n, double) && ETI_HOLDS(b, n * k, double));
  substitute(t, n, upper, unit, b, k);
}

ETI_INLINE void solve_with(const double *factors, size_t n, const int32_t *pivots, double *b,
                           size_t k) {
  for (size_t i = 0; i < n; i++) exchange(b + i * k, b + (size_t)pivots[i] * k, k);
  substitute(factors, n, false, true, b, k);
  substitute(factors, n, true, false, b, k);
}

static void lu_solve(const double *factors, size_t n, const int32_t *pivots, double *b, size_t k) {
  ET_ASSERT(ETI_HOLDS(factors, n * n, double) && ETI_HOLDS(b, n * k, double));
  ET_ASSERT(ETI_HOLDS(pivots, n, int32_t));
  if (n == 4 && k == 4) {
    solve_with(factors, 4, pivots, b, 4);
  } else if (n == 3 && k == 3) {
    solve_with(factors, 3, pivots, b, 3);
  } else if (n == 2 && k == 2) {
    solve_with(factors, 2, pivots, b, 2);
  } else if (n == 4 && k == 1) {
    solve_with(factors, 4, pivots, b, 1);
  } else {
    solve_with(factors, n, pivots, b, k);
  }
}

// Column j of L is also kept in row j, beyond the diagonal, for the rows below.
static size_t cholesky(double *a, size_t n) {
  ET_ASSERT(ETI_HOLDS(a, n * n, double));
  for (size_t j = 0; j < n; j++) {
    double *const row = a + j * n;
    if (!(row[j] > 0.0)) return j + 1;
    const double root = sqrt(row[j]);
    row[j] = root;
    for (size_t i = j + 1; i < n; i++) row[i] = a[i * n + j] /= root;
    for (size_t i = j + 1; i < n; i++) subtract(a + i * n + j + 1, row[i], row + j + 1, i - j);
  }
  return 0;
}

// ---- reflections

// Turns column j of a, from row j on, into a multiple of the first unit vector. The reflection is
// I - tau·v·vᵀ, v[0] = 1; the rest of v replaces the column below the diagonal. Returns tau.
static double make_reflection(double *a, size_t m, size_t n, size_t j) {
  double largest = 0.0, squares = 0.0;
  for (size_t i = j + 1; i < m; i++) largest = fmax(largest, fabs(a[i * n + j]));
  if (largest == 0.0) return 0.0;
  const double alpha = a[j * n + j], size = fmax(largest, fabs(alpha));
  for (size_t i = j; i < m; i++) squares += a[i * n + j] / size * (a[i * n + j] / size);
  const double beta = -copysign(size * sqrt(squares), alpha);
  for (size_t i = j + 1; i < m; i++) a[i * n + j] /= alpha - beta;
  a[j * n + j] = beta;
  return (beta - alpha) / beta;
}

// Reflects b[m × k], columns from `first` on, with the vector in column j of a. dots has k numbers.
static void reflect(const double *a, size_t m, size_t n, size_t j, double tau, double *b, size_t k,
                    size_t first, double *dots) {
  const double *const v = a + (j + 1) * n + j;
  double *const row = b + j * k + first;
  const size_t width = k - first, rows = m - j - 1;
  if (first >= k) return;
  memcpy(dots, row, width * sizeof *dots);
  add_rows(dots, v, (ptrdiff_t)n, row + k, (ptrdiff_t)k, rows, width);
  scale(dots, tau, width);
  subtract(row, 1.0, dots, width);
  for (size_t i = 0; i < rows; i++) subtract(row + (i + 1) * k, v[i * n], dots, width);
}

static void qr(double *a, size_t m, size_t n, double *q, size_t columns, double *work) {
  ET_ASSERT(columns <= m && ETI_HOLDS(a, m * n, double) && ETI_HOLDS(q, m * columns, double));
  ET_ASSERT(ETI_HOLDS(work, m < n ? m : n, double));
  const size_t steps = m < n ? m : n;
  double *const dots = work + steps;
  for (size_t j = 0; j < steps; j++) {
    work[j] = make_reflection(a, m, n, j);
    reflect(a, m, n, j, work[j], a, n, j + 1, dots);
  }
  if (columns > 0) memset(q, 0, m * columns * sizeof *q);
  for (size_t i = 0; i < columns; i++) q[i * columns + i] = 1.0;
  // Columns before j are still those of the identity there.
  for (size_t j = columns == 0 ? 0 : steps; j-- > 0;)
    reflect(a, m, n, j, work[j], q, columns, j, dots);
  for (size_t i = 1; i < m; i++) memset(a + i * n, 0, (i < n ? i : n) * sizeof *a);
}

#include "kernels/micro/linalg/linalg_spectral.body.h"

const eti_linalg ETI_LINALG_TABLE = {.lu = lu,
                                     .lu_solve = lu_solve,
                                     .triangular_solve = triangular_solve,
                                     .cholesky = cholesky,
                                     .qr = qr,
                                     .eigen = eigen,
                                     .svd = svd};
