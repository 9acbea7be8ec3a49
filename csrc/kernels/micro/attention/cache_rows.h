// cache_rows.h — the loops over rows of f32 that attention over a key/value cache needs beside its
// products: rotary embedding, codes of 8 bits, and weighted sums.
//
// Numeric contract: every product, sum and quotient is rounded, in the order written here, so that
// all instruction sets give the same bits. Relies on kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_MICRO_CACHE_ROWS_H
#define ET_MICRO_CACHE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETI_CACHE_MIXED = 16 };  // elements between those that are mixed

typedef struct eti_cache_rows_micro {
  // y[i] = x[i] · cos[i] − x[i + half] · sin[i], y[i + half] = x[i + half] · cos[i + half] + x[i] ·
  // sin[i + half], for i < half. y is not x.
  void (*rotate)(float *y, const float *x, const float *cos, const float *sin, size_t half);
  // Transforms runs of `run` elements by Hadamard's matrix over elements 16 apart, in place: for h
  // = 16, 32, … run / 2, each pair x[i], x[i + h] becomes x[i] + x[i + h], x[i] − x[i + h]. run is
  // 16 times a power of two, and divides n.
  void (*mix)(float *x, size_t n, size_t run);
  // The scale of a row and its codes, as panel_cache.h says.
  float (*quantize)(int8_t *codes, const float *x, size_t n);
  // y[i] = y[i] · a + x[i] · b
  void (*merge)(float *y, float a, const float *x, float b, size_t n);
  // True if some x[i] is NaN.
  bool (*has_nan)(const float *x, size_t n);
} eti_cache_rows_micro;

const eti_cache_rows_micro *eti_cache_rows_best(void);
// The variant of an instruction set; NULL when the build or CPU lacks it.
const eti_cache_rows_micro *eti_cache_rows_of_isa(int isa);

extern const eti_cache_rows_micro eti_cache_rows_scalar;
extern const eti_cache_rows_micro eti_cache_rows_avx2;
extern const eti_cache_rows_micro eti_cache_rows_avx512;

#endif  // ET_MICRO_CACHE_ROWS_H
