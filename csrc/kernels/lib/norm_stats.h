// norm_stats.h — mean and variance of groups of elements, for layer, group and batch normalisation.
// A group is the elements that share statistics, or share scale and shift, in their logical order.
// It is read in chunks: in place when its elements are adjacent and of the computing type (f32, or
// f64 for f64), else through a cast. The mean comes first, then the squares of the differences;
// each chunk is summed as in micro/rows/row_norm.h, and chunks are added in f64.
#ifndef ET_NORM_STATS_H
#define ET_NORM_STATS_H

#include "kernels/micro/rows/row_norm.h"
#include "runtime/et.h"

#include <math.h>

enum { ETI_NORM_CHUNK = 1024 };

typedef struct eti_norm_group {
  uint8_t dtype;
  size_t numel, rank;
  size_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];  // in elements
} eti_norm_group;

void eti_norm_group_add(eti_norm_group *s, int32_t size, ptrdiff_t stride);
// The group over the dimensions whose bit is set, outermost first.
void eti_norm_group_of(eti_norm_group *s, const et_tensor *t, uint32_t dims);
// Casts elements [first, first + n) of a group to (or from) n adjacent ones.
void eti_norm_group_cast(const eti_norm_group *s, char *base, size_t first, size_t n, uint8_t type,
                         void *row, bool reading);
// Reads a chunk as a row of the micro's type: in place, or copied to `room`.
const void *eti_norm_group_chunk(const eti_row_norm_micro *micro, const eti_norm_group *s,
                                 const char *base, size_t first, size_t n, void *room);
// Computes out = (x − mean) · scale + shift over one group.
void eti_norm_group_affine(const eti_row_norm_micro *micro, const eti_norm_group *xs, const char *x,
                           const eti_norm_group *os, char *out, double mean, double scale,
                           double shift);

typedef struct eti_norm_stats {
  double mean, variance;  // variance without correction
} eti_norm_stats;
eti_norm_stats eti_norm_stats_of(const eti_row_norm_micro *micro, const eti_norm_group *s,
                                 const char *base);

// Reads element i of a vector, or returns `absent` without one; and writes all elements of a
// vector.
double eti_norm_element(const et_tensor *t, size_t i, double absent);
void eti_norm_set_element(const et_tensor *t, size_t i, double value);
void eti_norm_set_elements(const et_tensor *t, size_t first, const double *values, size_t n);

// Arguments of a normalisation: input at 0, weight and bias at i_weight, eps at i_eps, then three
// results.
typedef struct eti_norm_args {
  et_tensor *x, *w, *b, *out, *mean, *rstd;
  double eps;
} eti_norm_args;
et_status eti_norm_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i_weight,
                        size_t i_eps, const char *op, eti_norm_args *a);
// Checks a parameter that has one entry per channel or is absent.
et_status eti_norm_check_vector(const et_kernel_ctx *ctx, const et_tensor *t, size_t n,
                                const char *op, const char *what);

static inline const eti_row_norm_micro *eti_norm_micro_of(uint8_t dtype) {
  return eti_row_norm_micro_best(dtype == ET_F64 ? ETI_ROW_NORM_F64 : ETI_ROW_NORM_F32);
}
static inline bool eti_norm_group_is_row(const eti_norm_group *s) {
  return s->rank == 0 || (s->rank == 1 && s->strides[0] == 1);
}
static inline double eti_rstd_of(const eti_norm_stats *s, double eps) {
  return 1.0 / sqrt(s->variance + eps);
}
static inline uint32_t eti_dims_from(size_t first, size_t rank) {
  return (uint32_t)((1ull << rank) - (1ull << first));
}

#endif  // ET_NORM_STATS_H
