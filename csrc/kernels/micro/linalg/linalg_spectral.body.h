// linalg_spectral.body.h — eigenvalues of symmetric matrices and singular values, part of
// linalg.body.h. Reflections make the matrix tridiagonal or bidiagonal, implicit shifted QR sweeps
// make that diagonal (Golub and Van Loan, Matrix Computations, 8.3 and 8.6). Vectors are kept in
// rows; the rotations of a sweep are recorded first and then applied to all of them in one pass.

typedef double wide __attribute__((vector_size(64), aligned(8), may_alias));

// Dot product in sixteen lanes and a fixed tree.
static double dot(const double *x, const double *y, size_t n) {
  wide a = {0}, b = {0};
  double t[8];
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    a += *(const wide *)(const void *)(x + i) * *(const wide *)(const void *)(y + i);
    b += *(const wide *)(const void *)(x + i + 8) * *(const wide *)(const void *)(y + i + 8);
  }
  if (i + 8 <= n) {
    a += *(const wide *)(const void *)(x + i) * *(const wide *)(const void *)(y + i);
    i += 8;
  }
  a += b;
  memcpy(t, &a, sizeof t);
  for (size_t l = 0; i < n; i++, l++) t[l] += x[i] * y[i];
  return ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7]));
}

// Scales by a power of two so that squares neither overflow nor vanish; returns the inverse factor.
static double scale_into_range(double *a, size_t n) {
  double largest = 0.0;
  int exponent = 0;
  for (size_t i = 0; i < n; i++) largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
  if (largest == 0.0 || !(largest <= DBL_MAX)) return 1.0;
  frexp(largest, &exponent);
  if (exponent > -200 && exponent < 200) return 1.0;
  exponent = exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
  scale(a, ldexp(1.0, -exponent), n);
  return ldexp(1.0, exponent);
}

// The reflection I - tau·v·vᵀ that turns x into a multiple of the first unit vector, which becomes
// *along; v replaces x. Returns tau. A vector too small for its square has no direction.
static double reflection_of(double *x, size_t n, double *along) {
  const double alpha = x[0], squares = n < 2 ? 0.0 : dot(x + 1, x + 1, n - 1);
  x[0] = 1.0;
  *along = alpha;
  if (!(squares > 0x1p-900)) return 0.0;
  const double beta = -copysign(sqrt(alpha * alpha + squares), alpha);
  scale(x + 1, 1.0 / (alpha - beta), n - 1);
  *along = beta;
  return (beta - alpha) / beta;
}

// Applies `count` reflections, the last one first, from the right to the rows of an identity.
// Vector k is in row k of `vectors`, from column k + offset on; `to` may be the same memory.
static void reflections_to_rows(double *to, size_t rows, size_t columns, const double *vectors,
                                const double *tau, size_t count, size_t offset) {
  for (size_t i = count + offset; i < rows; i++) {
    memset(to + i * columns, 0, columns * sizeof *to);
    to[i * columns + i] = 1.0;
  }
  for (size_t k = count; k-- > 0;) {
    const size_t r = k + offset, rest = columns - r - 1;
    const double *const v = vectors + k * columns + r + 1;
    for (size_t i = r + 1; i < rows; i++) {
      double *const row = to + i * columns + r;
      const double f = tau[k] * dot(row + 1, v, rest);
      row[0] = -f;
      subtract(row + 1, f, v, rest);
    }
    double *const row = to + r * columns + r;
    row[0] = 1.0 - tau[k];
    ETI_NO_DEPENDENCES
    for (size_t j = 0; j < rest; j++) row[j + 1] = -tau[k] * v[j];
    memset(row - r, 0, r * sizeof *row);
  }
  if (offset == 0 || rows == 0) return;
  memset(to, 0, columns * sizeof *to);
  to[0] = 1.0;
  for (size_t i = 1; i < rows; i++) to[i * columns] = 0.0;
}

// ---- rotations

typedef struct rotation {
  double c, s, r;
} rotation;

// [c s; -s c] turns (x, z) into (r, 0).
static inline rotation rotation_of(double x, double z) {
  const double r = sqrt(x * x + z * z), inverse = 1.0 / r;
  if (!(r > 0.0)) return (rotation){1.0, 0.0, x};
  return (rotation){x * inverse, z * inverse, r};
}

static void rotate(double *x, double *y, size_t n, rotation by) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const double a = x[i], b = y[i];
    x[i] = by.c * a + by.s * b;
    y[i] = by.c * b - by.s * a;
  }
}

// Applies `count` rotations k of rows k and k + 1 of a, one after the other: a row stays in
// registers until both of its rotations are done.
static void rotate_rows(double *a, size_t n, const double *c, const double *s, size_t count) {
  size_t i = 0;
#define WIDE(p) (*(wide *)(void *)(p))
  for (; i + 32 <= n; i += 32) {
    double *row = a + i;
    wide x0 = WIDE(row), x1 = WIDE(row + 8), x2 = WIDE(row + 16), x3 = WIDE(row + 24);
    for (size_t k = 0; k < count; k++, row += n) {
      const double *const next = row + n;
      const wide y0 = WIDE(next), y1 = WIDE(next + 8), y2 = WIDE(next + 16), y3 = WIDE(next + 24);
      WIDE(row) = c[k] * x0 + s[k] * y0;
      WIDE(row + 8) = c[k] * x1 + s[k] * y1;
      WIDE(row + 16) = c[k] * x2 + s[k] * y2;
      WIDE(row + 24) = c[k] * x3 + s[k] * y3;
      x0 = c[k] * y0 - s[k] * x0;
      x1 = c[k] * y1 - s[k] * x1;
      x2 = c[k] * y2 - s[k] * x2;
      x3 = c[k] * y3 - s[k] * x3;
    }
    WIDE(row) = x0, WIDE(row + 8) = x1, WIDE(row + 16) = x2, WIDE(row + 24) = x3;
  }
  for (; i + 8 <= n; i += 8) {
    double *row = a + i;
    wide x = WIDE(row);
    for (size_t k = 0; k < count; k++, row += n) {
      const wide y = WIDE(row + n);
      WIDE(row) = c[k] * x + s[k] * y;
      x = c[k] * y - s[k] * x;
    }
    WIDE(row) = x;
  }
#undef WIDE
  for (; i < n; i++) {
    double *row = a + i, x = *row;
    for (size_t k = 0; k < count; k++, row += n) {
      const double y = row[n];
      *row = c[k] * x + s[k] * y;
      x = c[k] * y - s[k] * x;
    }
    *row = x;
  }
}

// Sorts values, and rows with them, ascending or descending.
static void sort_rows(double *values, size_t n, bool descending, double *a, size_t columns,
                      double *b) {
  for (size_t i = 0; i + 1 < n; i++) {
    size_t best = i;
    for (size_t j = i + 1; j < n; j++) {
      if (descending ? values[j] > values[best] : values[j] < values[best]) best = j;
    }
    if (best == i) continue;
    exchange(values + i, values + best, 1);
    if (a != NULL) exchange(a + i * columns, a + best * columns, columns);
    if (b != NULL) exchange(b + i * n, b + best * n, n);
  }
}

enum { SWEEPS_PER_VALUE = 40 };

// The eigenvalue of [[p, q], [q, r]] that is nearer to r.
static double shift_of(double p, double q, double r) {
  const double half = 0.5 * (p - r), root = sqrt(half * half + q * q);
  const double under = half + copysign(root, half);
  return under == 0.0 ? r : r - q * (q / under);
}

static double largest_of(const double *d, const double *e, size_t n) {
  double most = 0.0;
  for (size_t i = 0; i < n; i++) most = fabs(d[i]) > most ? fabs(d[i]) : most;
  for (size_t i = 0; i + 1 < n; i++) most = fabs(e[i]) > most ? fabs(e[i]) : most;
  return most;
}

// ---- eigenvalues

// a = Q T Qᵀ: d and e become diagonals of T; reflection k is in row k, beyond the diagonal.
static void make_tridiagonal(double *a, size_t n, double *d, double *e, double *tau, double *w) {
  for (size_t k = 0; k + 2 < n; k++) {
    double *const v = a + k * n + k + 1, *const rest = v + n;
    const size_t m = n - k - 1;
    d[k] = v[-1];
    tau[k] = reflection_of(v, m, &e[k]);
    if (tau[k] == 0.0) continue;
    memset(w, 0, m * sizeof *w);
    add_rows(w, v, 1, rest, (ptrdiff_t)n, m, m);
    scale(w, tau[k], m);
    subtract(w, 0.5 * tau[k] * dot(w, v, m), v, m);
    for (size_t i = 0; i < m; i++) {
      double *const row = rest + i * n;
      const double f = v[i], g = w[i];
      ETI_NO_DEPENDENCES
      for (size_t j = 0; j < m; j++) row[j] -= f * w[j] + g * v[j];
    }
  }
  for (size_t i = n < 2 ? 0 : n - 2; i < n; i++) d[i] = a[i * n + i];
  if (n >= 2) e[n - 2] = a[(n - 2) * n + n - 1];
}

// Runs one sweep over rows low … high, with the shift of the last two; records its rotations.
static void sweep_tridiagonal(double *d, double *e, size_t low, size_t high, double *c, double *s) {
  double x = d[low] - shift_of(d[high - 1], e[high - 1], d[high]), z = e[low];
  for (size_t k = low; k < high; k++) {
    const rotation by = rotation_of(x, z);
    if (k > low) e[k - 1] = by.r;
    const double t = by.s * (d[k + 1] - d[k]) + 2.0 * by.c * e[k];
    d[k] += by.s * t;
    d[k + 1] -= by.s * t;
    e[k] = x = by.c * t - e[k];
    c[k] = by.c;
    s[k] = by.s;
    if (k + 1 == high) continue;
    z = by.s * e[k + 1];
    e[k + 1] *= by.c;
  }
}

static void eigen(double *a, size_t n, double *values, double *v, double *work) {
  ET_ASSERT(ETI_HOLDS(a, n * n, double) && ETI_HOLDS(values, n, double));
  ET_ASSERT(ETI_HOLDS_OR_NULL(v, double) && ETI_HOLDS(work, n, double));
  double *const e = work, *const c = work + n, *const s = c + n;
  const double unit = scale_into_range(a, n * n);
  make_tridiagonal(a, n, values, e, c, s);
  if (v != NULL) reflections_to_rows(v, n, n, a, c, n < 2 ? 0 : n - 2, 1);
  const double tiny = 0x1p-54 * largest_of(values, e, n);
  size_t high = n < 1 ? 0 : n - 1;
  for (size_t left = SWEEPS_PER_VALUE * n; high > 0 && left > 0;) {
    if (!(fabs(e[high - 1]) > tiny)) {
      high--;
      continue;
    }
    size_t low = high - 1;
    while (low > 0 && fabs(e[low - 1]) > tiny) low--;
    sweep_tridiagonal(values, e, low, high, c, s);
    if (v != NULL) rotate_rows(v + low * n, n, c + low, s + low, high - low);
    left--;
  }
  sort_rows(values, n, false, v, n, NULL);
  scale(values, unit, n);
}

// ---- singular values

// The transpose of a is Q B Pᵀ: d and e become diagonals of B. Reflection k of Q is in row k of a,
// that of P in row k of p, beyond the diagonal.
static void make_bidiagonal(double *a, size_t n, size_t m, double *d, double *e, double *tau_q,
                            double *tau_p, double *p, double *sums) {
  for (size_t k = 0; k < n; k++) {
    double *const v = a + k * m + k;
    tau_q[k] = reflection_of(v, m - k, &d[k]);
    for (size_t j = k + 1; j < n; j++) {
      double *const row = a + j * m + k;
      subtract(row, tau_q[k] * dot(row, v, m - k), v, m - k);
    }
    if (k + 1 < n) e[k] = a[(k + 1) * m + k];
    if (k + 2 >= n) continue;
    double *const w = p + k * n + k + 1, *const rest = a + (k + 1) * m + k + 1;
    const size_t rows = n - k - 1, width = m - k - 1;
    for (size_t j = 0; j < rows; j++) w[j] = rest[j * m - 1];
    tau_p[k] = reflection_of(w, rows, &e[k]);
    memset(sums, 0, width * sizeof *sums);
    add_rows(sums, w, 1, rest, (ptrdiff_t)m, rows, width);
    for (size_t j = 0; j < rows; j++) subtract(rest + j * m, tau_p[k] * w[j], sums, width);
  }
}

// B, its vectors (NULL if not wanted) and room for a sweep's rotations.
typedef struct bidiagonal {
  double *d, *e, *left, *right;
  size_t n, m;
  double *left_c, *left_s, *right_c, *right_s;
} bidiagonal;

// Empties the row of a zero at d[at], low ≤ at < high, which splits B.
static void empty_row(const bidiagonal *b, size_t at, size_t high) {
  double f = b->e[at];
  b->e[at] = b->d[at] = 0.0;
  for (size_t k = at + 1; k <= high; k++) {
    const rotation by = rotation_of(b->d[k], f);
    b->d[k] = by.r;
    if (b->left != NULL) rotate(b->left + k * b->m, b->left + at * b->m, b->m, by);
    if (k == high) return;
    f = -by.s * b->e[k];
    b->e[k] *= by.c;
  }
}

// Empties the column of a zero at the end.
static void empty_column(const bidiagonal *b, size_t low, size_t high) {
  double f = b->e[high - 1];
  b->e[high - 1] = b->d[high] = 0.0;
  for (size_t k = high; k-- > low;) {
    const rotation by = rotation_of(b->d[k], f);
    b->d[k] = by.r;
    if (b->right != NULL) rotate(b->right + k * b->n, b->right + high * b->n, b->n, by);
    if (k == low) return;
    f = -by.s * b->e[k - 1];
    b->e[k - 1] *= by.c;
  }
}

static void sweep_bidiagonal(const bidiagonal *b, size_t low, size_t high) {
  double *const d = b->d, *const e = b->e;
  const double before = high - 1 > low ? e[high - 2] : 0.0, p = d[high - 1], q = e[high - 1];
  const double shift = shift_of(p * p + before * before, p * q, d[high] * d[high] + q * q);
  double y = d[low] - shift / d[low], z = e[low];
  for (size_t k = low; k < high; k++) {
    const rotation right = rotation_of(y, z);
    if (k > low) e[k - 1] = right.r;
    y = right.c * d[k] + right.s * e[k];
    e[k] = right.c * e[k] - right.s * d[k];
    z = right.s * d[k + 1];
    d[k + 1] *= right.c;
    const rotation left = rotation_of(y, z);
    d[k] = left.r;
    y = left.c * e[k] + left.s * d[k + 1];
    d[k + 1] = left.c * d[k + 1] - left.s * e[k];
    e[k] = y;
    b->right_c[k] = right.c, b->right_s[k] = right.s;
    b->left_c[k] = left.c, b->left_s[k] = left.s;
    if (k + 1 == high) continue;
    z = left.s * e[k + 1];
    e[k + 1] *= left.c;
  }
  if (b->left == NULL) return;
  rotate_rows(b->right + low * b->n, b->n, b->right_c + low, b->right_s + low, high - low);
  rotate_rows(b->left + low * b->m, b->m, b->left_c + low, b->left_s + low, high - low);
}

static void make_diagonal(const bidiagonal *b) {
  const double tiny = 0x1p-53 * largest_of(b->d, b->e, b->n);
  size_t high = b->n < 1 ? 0 : b->n - 1;
  for (size_t left = SWEEPS_PER_VALUE * b->n; high > 0 && left > 0; left--) {
    while (high > 0 && !(fabs(b->e[high - 1]) > tiny)) high--;
    if (high == 0) return;
    size_t low = high;
    while (low > 0 && fabs(b->e[low - 1]) > tiny) low--;
    size_t zero = low;
    while (zero <= high && fabs(b->d[zero]) > tiny) zero++;
    if (zero > high) {
      sweep_bidiagonal(b, low, high);
    } else if (zero == high) {
      empty_column(b, low, high);
    } else {
      empty_row(b, zero, high);
    }
  }
}

static void svd(double *a, size_t rows, size_t n, size_t m, bool vectors, double *values, double *v,
                double *work) {
  ET_ASSERT(n <= rows && rows <= m && ETI_HOLDS(a, rows * m, double));
  ET_ASSERT(ETI_HOLDS(values, n, double) && ETI_HOLDS(v, n, double) && ETI_HOLDS(work, n, double));
  double *const e = work, *const first = e + n, *const second = first + n,
                *const third = second + n;
  const double unit = scale_into_range(a, n * m);
  make_bidiagonal(a, n, m, values, e, first, second, v, third + n);
  if (vectors) {
    reflections_to_rows(a, rows, m, a, first, n, 0);
    reflections_to_rows(v, n, n, v, second, n < 2 ? 0 : n - 2, 1);
  }
  const bidiagonal b = {.d = values,
                        .e = e,
                        .left = vectors ? a : NULL,
                        .right = vectors ? v : NULL,
                        .n = n,
                        .m = m,
                        .left_c = first,
                        .left_s = second,
                        .right_c = third,
                        .right_s = third + n};
  make_diagonal(&b);
  for (size_t i = 0; i < n; i++) {
    if (!(values[i] < 0.0)) continue;
    values[i] = -values[i];
    if (vectors) scale(v + i * n, -1.0, n);
  }
  sort_rows(values, n, true, b.left, m, b.right);
  scale(values, unit, n);
}
