// linalg.h — linear algebra of small dense f64 matrices stored in rows, per instruction set:
// factorizations, solutions, eigenvalues. Textbook algorithms with LAPACK's conventions of pivots
// and signs. All variants come from one source (linalg.body.h, linalg_spectral.body.h) and give the
// same bits: vectors run along rows, sums have a fixed order. Allocates nothing: results overwrite
// their inputs or go to the caller's memory. Knows no tensor.
#ifndef ET_MICRO_LINALG_H
#define ET_MICRO_LINALG_H

#include "kernels/micro/isa_select.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct eti_linalg {
  // a[m × n] becomes L below the diagonal (of ones) and U on and above it, with rows exchanged so
  // that pivots are largest; pivots[i] ≥ i is the row exchanged with row i. Returns the index, from
  // 1, of the first zero on U's diagonal, or 0.
  size_t (*lu)(double *a, size_t m, size_t n, bool exchanges, int32_t *pivots);
  // b[n × k] = A⁻¹ b, with the factors from lu.
  void (*lu_solve)(const double *lu, size_t n, const int32_t *pivots, double *b, size_t k);
  // b[n × k] = T⁻¹ b, with a triangle of t.
  void (*triangular_solve)(const double *t, size_t n, bool upper, bool unit, double *b, size_t k);
  // The lower triangle of a becomes L with A = L Lᵀ; the rest is undefined. Returns the order of
  // the first minor that is not positive, or 0.
  size_t (*cholesky)(double *a, size_t n);
  // a[m × n] becomes R; q[m × columns] the first columns of Q, columns ≤ m. work has
  // min(m, n) + max(n, columns) numbers.
  void (*qr)(double *a, size_t m, size_t n, double *q, size_t columns, double *work);
  // Eigenvalues of a symmetric a[n × n], ascending; v[n × n] their eigenvectors in rows, or NULL. a
  // is destroyed. work has 3 n numbers.
  void (*eigen)(double *a, size_t n, double *values, double *v, double *work);
  // Singular values. The first n rows of a[rows × m], n ≤ rows ≤ m, are the columns of a matrix of
  // m × n. The rows of a become its left singular vectors, of descending values, then vectors
  // orthogonal to all; v[n × n] the right ones, in rows; without `vectors` both are undefined. work
  // has 4 n + m numbers.
  void (*svd)(double *a, size_t rows, size_t n, size_t m, bool vectors, double *values, double *v,
              double *work);
} eti_linalg;

extern const eti_linalg eti_linalg_scalar;
#if ETI_HAVE_X86
extern const eti_linalg eti_linalg_avx2;
extern const eti_linalg eti_linalg_avx512;
#endif

// The variant of this CPU.
const eti_linalg *eti_linalg_get(void);

#endif  // ET_MICRO_LINALG_H
