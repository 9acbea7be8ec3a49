// dense.c — see dense.h. Gaussian elimination with row exchanges, Householder reflections as
// LAPACK's, and Jacobi rotations for eigen- and singular values, which are slower than the usual
// reductions and more accurate.
#include "kernels/dense.h"

#include "kernels/micro/math_f64.h"

#include <float.h>
#include <math.h>

enum { MAX_SWEEPS = 60 };

static void exchange_rows(double *a, size_t n, size_t i, size_t j) {
  if (i == j) return;
  for (size_t c = 0; c < n; c++) {
    const double x = a[i * n + c];
    a[i * n + c] = a[j * n + c];
    a[j * n + c] = x;
  }
}

size_t eti_dense_lu(double *a, size_t m, size_t n, bool exchanges, int32_t *pivots) {
  size_t zero = 0;
  for (size_t i = 0; i < m && i < n; i++) {
    size_t best = i;
    for (size_t r = i + 1; exchanges && r < m; r++) {
      if (fabs(a[r * n + i]) > fabs(a[best * n + i])) best = r;
    }
    pivots[i] = (int32_t)best;
    exchange_rows(a, n, i, best);
    const double pivot = a[i * n + i];
    if (pivot == 0.0) {
      if (zero == 0) zero = i + 1;
      continue;
    }
    for (size_t r = i + 1; r < m; r++) {
      const double factor = a[r * n + i] / pivot;
      a[r * n + i] = factor;
      for (size_t c = i + 1; c < n; c++) a[r * n + c] -= factor * a[i * n + c];
    }
  }
  return zero;
}

void eti_dense_triangular_solve(const double *t, size_t n, bool upper, bool unit, double *b,
                                size_t k) {
  for (size_t step = 0; step < n; step++) {
    const size_t i = upper ? n - 1 - step : step;
    for (size_t s = 0; s < step; s++) {
      const size_t j = upper ? n - 1 - s : s;
      const double factor = t[i * n + j];
      for (size_t c = 0; c < k; c++) b[i * k + c] -= factor * b[j * k + c];
    }
    if (unit) continue;
    for (size_t c = 0; c < k; c++) b[i * k + c] /= t[i * n + i];
  }
}

void eti_dense_lu_solve(const double *lu, size_t n, const int32_t *pivots, double *b, size_t k) {
  for (size_t i = 0; i < n; i++) exchange_rows(b, k, i, (size_t)pivots[i]);
  eti_dense_triangular_solve(lu, n, false, true, b, k);
  eti_dense_triangular_solve(lu, n, true, false, b, k);
}

size_t eti_dense_cholesky(double *a, size_t n) {
  for (size_t j = 0; j < n; j++) {
    double square = a[j * n + j];
    for (size_t k = 0; k < j; k++) square -= a[j * n + k] * a[j * n + k];
    if (!(square > 0.0)) return j + 1;
    const double root = sqrt(square);
    a[j * n + j] = root;
    for (size_t i = j + 1; i < n; i++) {
      double x = a[i * n + j];
      for (size_t k = 0; k < j; k++) x -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = x / root;
    }
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

// b[m × k], columns from `first` on, is reflected with the vector in column j of a.
static void reflect(const double *a, size_t m, size_t n, size_t j, double tau, double *b, size_t k,
                    size_t first) {
  for (size_t c = first; c < k; c++) {
    double dot = b[j * k + c];
    for (size_t i = j + 1; i < m; i++) dot += a[i * n + j] * b[i * k + c];
    dot *= tau;
    b[j * k + c] -= dot;
    for (size_t i = j + 1; i < m; i++) b[i * k + c] -= a[i * n + j] * dot;
  }
}

void eti_dense_qr(double *a, size_t m, size_t n, double *q, size_t columns, double *work) {
  const size_t steps = m < n ? m : n;
  for (size_t j = 0; j < steps; j++) {
    work[j] = make_reflection(a, m, n, j);
    reflect(a, m, n, j, work[j], a, n, j + 1);
  }
  for (size_t i = 0; i < m * columns; i++) q[i] = i % columns == i / columns ? 1.0 : 0.0;
  for (size_t j = columns == 0 ? 0 : steps; j-- > 0;) reflect(a, m, n, j, work[j], q, columns, 0);
  for (size_t i = 1; i < m; i++) {
    for (size_t c = 0; c < i && c < n; c++) a[i * n + c] = 0.0;
  }
}

// ---- rotations

typedef struct rotation {
  double c, s;
} rotation;

// The rotation that makes [[p, off], [off, q]] diagonal.
static rotation rotation_of(double p, double q, double off) {
  const double tau = (q - p) / (2.0 * off);
  const double t = copysign(1.0, tau) / (fabs(tau) + eti_hypot_f64(1.0, tau));
  const double c = 1.0 / eti_hypot_f64(1.0, t);
  return (rotation){c, t * c};
}

static void rotate(double *x, double *y, size_t n, size_t step, rotation r) {
  for (size_t i = 0; i < n; i++) {
    const double a = x[i * step], b = y[i * step];
    x[i * step] = r.c * a - r.s * b;
    y[i * step] = r.s * a + r.c * b;
  }
}

static void exchange(double *x, double *y, size_t n, size_t step) {
  for (size_t i = 0; i < n; i++) {
    const double kept = x[i * step];
    x[i * step] = y[i * step];
    y[i * step] = kept;
  }
}

static void identity(double *v, size_t n) {
  for (size_t i = 0; i < n * n; i++) v[i] = i / n == i % n ? 1.0 : 0.0;
}

// One pass over all pairs. True when something was left to rotate.
static bool sweep_eigen(double *a, size_t n, double *v, double tiny) {
  bool changed = false;
  for (size_t p = 0; p + 1 < n; p++) {
    for (size_t q = p + 1; q < n; q++) {
      const double off = a[p * n + q];
      if (!(fabs(off) > tiny)) continue;
      const rotation r = rotation_of(a[p * n + p], a[q * n + q], off);
      rotate(a + p, a + q, n, n, r);
      rotate(a + p * n, a + q * n, n, 1, r);
      a[p * n + q] = a[q * n + p] = 0.0;  // but for rounding
      if (v != NULL) rotate(v + p, v + q, n, n, r);
      changed = true;
    }
  }
  return changed;
}

void eti_dense_eigen(double *a, size_t n, double *values, double *v) {
  double largest = 0.0;
  for (size_t i = 0; i < n * n; i++) largest = fmax(largest, fabs(a[i]));
  if (v != NULL) identity(v, n);
  for (int i = 0; i < MAX_SWEEPS && sweep_eigen(a, n, v, largest * 0x1p-54); i++) continue;
  for (size_t i = 0; i < n; i++) values[i] = a[i * n + i];
  for (size_t i = 0; i + 1 < n; i++) {
    size_t best = i;
    for (size_t j = i + 1; j < n; j++) best = values[j] < values[best] ? j : best;
    if (best == i) continue;
    exchange(values + i, values + best, 1, 1);
    if (v != NULL) exchange(v + i, v + best, n, n);
  }
}

static double dot(const double *x, const double *y, size_t n, size_t step) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++) sum += x[i * step] * y[i * step];
  return sum;
}

// Rotates columns until every pair is orthogonal.
static bool sweep_singular(double *a, size_t m, size_t n, double *v) {
  const double tiny = 0x1p-51 * sqrt((double)m);
  bool changed = false;
  for (size_t p = 0; p + 1 < n; p++) {
    for (size_t q = p + 1; q < n; q++) {
      const double pp = dot(a + p, a + p, m, n), qq = dot(a + q, a + q, m, n),
                   pq = dot(a + p, a + q, m, n);
      if (!(fabs(pq) > tiny * sqrt(pp * qq)) || fabs(pq) < DBL_MIN) continue;
      const rotation r = rotation_of(pp, qq, pq);
      rotate(a + p, a + q, m, n, r);
      rotate(v + p, v + q, n, n, r);
      changed = true;
    }
  }
  return changed;
}

void eti_dense_svd(double *a, size_t m, size_t n, double *values, double *v) {
  double largest = 0.0;
  for (size_t i = 0; i < m * n; i++) largest = fmax(largest, fabs(a[i]));
  // Squares must neither overflow nor vanish.
  int exponent = 0;
  if (largest > 0.0 && isfinite(largest)) frexp(largest, &exponent);
  for (size_t i = 0; i < m * n; i++) a[i] = ldexp(a[i], -exponent);
  identity(v, n);
  for (int i = 0; i < MAX_SWEEPS && sweep_singular(a, m, n, v); i++) continue;
  for (size_t j = 0; j < n; j++) values[j] = sqrt(dot(a + j, a + j, m, n));
  for (size_t i = 0; i + 1 < n; i++) {
    size_t best = i;
    for (size_t j = i + 1; j < n; j++) best = values[j] > values[best] ? j : best;
    if (best == i) continue;
    exchange(values + i, values + best, 1, 1);
    exchange(a + i, a + best, m, n);
    exchange(v + i, v + best, n, n);
  }
  // What rounding leaves of a zero has no direction.
  const double tiny = n == 0 ? 0.0 : values[0] * (double)(m > n ? m : n) * 0x1p-53;
  for (size_t j = 0; j < n; j++) {
    const double size = values[j] > tiny ? values[j] : 0.0;
    for (size_t i = 0; i < m; i++) a[i * n + j] = size == 0.0 ? 0.0 : a[i * n + j] / size;
    values[j] = ldexp(values[j], exponent);
  }
}

// Subtracts from column j what lies along the columns of the first `known`.
static void orthogonalize(double *q, size_t m, size_t columns, size_t j, size_t known) {
  for (size_t c = 0; c < known; c++) {
    if (c == j) continue;
    const double along = dot(q + c, q + j, m, columns);
    for (size_t i = 0; i < m; i++) q[i * columns + j] -= along * q[i * columns + c];
  }
}

void eti_dense_complete(double *q, size_t m, size_t columns) {
  for (size_t j = 0; j < columns; j++) {
    if (dot(q + j, q + j, m, columns) > 0.5) continue;
    // Some unit vector keeps at least 1 / √m of its length; twice is enough to be orthogonal.
    for (size_t unit = 0; unit < m; unit++) {
      for (size_t i = 0; i < m; i++) q[i * columns + j] = i == unit ? 1.0 : 0.0;
      orthogonalize(q, m, columns, j, columns);
      const double left = dot(q + j, q + j, m, columns);
      if (left * 4.0 * (double)m < 1.0) continue;
      for (size_t i = 0; i < m; i++) q[i * columns + j] /= sqrt(left);
      orthogonalize(q, m, columns, j, columns);
      const double length = sqrt(dot(q + j, q + j, m, columns));
      for (size_t i = 0; i < m; i++) q[i * columns + j] /= length;
      break;
    }
  }
}
