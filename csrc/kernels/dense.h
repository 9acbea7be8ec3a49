// dense.h — linear algebra of small dense matrices of f64 in rows: factorizations and what follows
// from them. Textbook algorithms with LAPACK's conventions of pivots and signs. Takes no memory:
// results overwrite their inputs or go where the caller says. Knows no tensor.
#ifndef ET_DENSE_H
#define ET_DENSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// a[m × n] becomes L below the diagonal (of ones) and U on and above it, with rows exchanged so
// that pivots are largest; pivots[i] ≥ i is the row that row i changed places with. Returns the
// place, from 1, of the first zero on U's diagonal, or 0.
size_t eti_dense_lu(double *a, size_t m, size_t n, bool exchanges, int32_t *pivots);
// b[n × k] = A⁻¹ b, of what eti_dense_lu made.
void eti_dense_lu_solve(const double *lu, size_t n, const int32_t *pivots, double *b, size_t k);
// b[n × k] = T⁻¹ b, of the triangle of t.
void eti_dense_triangular_solve(const double *t, size_t n, bool upper, bool unit, double *b,
                                size_t k);
// The lower triangle of a becomes L with A = L Lᵀ. Returns the order of the first minor that is not
// positive, or 0.
size_t eti_dense_cholesky(double *a, size_t n);
// a[m × n] becomes R; q[m × columns] the first columns of Q, columns ≤ m. work has
// min(m, n) numbers.
void eti_dense_qr(double *a, size_t m, size_t n, double *q, size_t columns, double *work);
// a[n × n], symmetric, becomes diagonal; v its eigenvectors in columns, in the order of ascending
// values. v may be NULL.
void eti_dense_eigen(double *a, size_t n, double *values, double *v);
// a[m × n], m ≥ n, becomes the left singular vectors, in columns, of descending values; v[n × n]
// the right ones, in columns. Columns of zero values are zero.
void eti_dense_svd(double *a, size_t m, size_t n, double *values, double *v);
// Gives the columns of q[m × columns], columns ≤ m, that are zero directions of their own: all are
// orthonormal then, if the others were.
void eti_dense_complete(double *q, size_t m, size_t columns);

#endif  // ET_DENSE_H
