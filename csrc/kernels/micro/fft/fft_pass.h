// fft_pass.h — the inner loops of discrete Fourier transforms: one pass of the self-sorting
// mixed-radix algorithm over several transforms side by side, with real and imaginary parts in
// separate planes. The arithmetic, and so the bits, are the same in every instruction set. Relies
// on kernels/micro/isa_select.h. Knows neither tensors nor the sequence of passes.
#ifndef ET_MICRO_FFT_PASS_H
#define ET_MICRO_FFT_PASS_H

#include "kernels/dtype_sets.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETI_FFT_MAX_RADIX = 31 };

typedef struct eti_fft_planes {
  void *re, *im;
} eti_fft_planes;

// A pass: transforms of length radix from element q + s·(p + m·j) of src, j < radix, to element q +
// s·(radix·p + k) of dst, k < radix; result k is multiplied by twiddle k - 1 of p. Planes of source
// and destination do not overlap.
typedef struct eti_fft_pass {
  size_t radix;          // 2, 4, 8, or an odd number ≤ ETI_FFT_MAX_RADIX
  size_t m, s;           // each at least 1
  bool keeps_parts;      // results go to q + s·(p + m·k), for transforms of one k at a time
  const void *twiddles;  // [m][radix - 1] complex numbers
  const void *roots;     // [radix] complex numbers: exp(-2πi·k / radix)
} eti_fft_pass;

// Position of number i of n in planes that a first pass with keeps_parts, of radix 2^order, has
// reordered; order 0 is the natural order.
static inline size_t eti_fft_place(size_t i, size_t n, unsigned order) {
  return (i & (((size_t)1 << order) - 1)) * (n >> order) + (i >> order);
}

// True if n numbers can have such an order.
static inline bool eti_fft_has_order(size_t n, unsigned order) {
  return order < 8 && n % ((size_t)1 << order) == 0;
}

typedef struct eti_fft_micro {
  uint8_t dtype;  // et_dtype of a part: f32 or f64
  uint8_t esize;
  void (*pass)(const eti_fft_pass *pass, eti_fft_planes dst, eti_fft_planes src);
  // n complex numbers of each line, one after the other, to planes where element i of line l is at
  // i·lanes + l, and back, times a factor, from planes in an order.
  void (*read)(eti_fft_planes to, const void *const *lines, size_t lanes, size_t n);
  void (*write)(void *const *lines, eti_fft_planes from, size_t lanes, size_t n, double factor,
                unsigned order);
  // Lines side by side, read and written: element i of line l is l + step·i complex numbers away.
  void (*read_rows)(eti_fft_planes to, const void *from, ptrdiff_t step, size_t lanes, size_t n);
  void (*write_rows)(void *to, ptrdiff_t step, eti_fft_planes from, size_t lanes, size_t n,
                     double factor, unsigned order);
  // Reads rows as read_rows does, times factors in the same layout.
  void (*read_twiddled)(eti_fft_planes to, const void *from, const void *factors, size_t step,
                        size_t lanes, size_t n);
  // Computes the transform of 2m real numbers from that of their m pairs, and its inverse; roots
  // are exp(-πi·k / m), k ≤ m.
  void (*unfold)(eti_fft_planes dst, eti_fft_planes src, const void *roots, size_t m, size_t lanes,
                 unsigned order);
  void (*fold)(eti_fft_planes dst, eti_fft_planes src, const void *roots, size_t m, size_t lanes);
  // Multiplies element lane + lanes·i of x by factor i of n.
  void (*multiply)(eti_fft_planes x, const void *factors, size_t n, size_t lanes);
} eti_fft_micro;

enum { ETI_FFT_F32, ETI_FFT_F64, ETI_FFT_TYPES };

// A row of a table of variants, whose loops end in `suffix`. A build without the type has no loops.
#define ETI_FFT_ROW(type, item, suffix)                      \
  {.dtype = type,                                            \
   .esize = sizeof(item),                                    \
   .pass = ETI_BUILT(type, pass_##suffix),                   \
   .read = ETI_BUILT(type, read_##suffix),                   \
   .write = ETI_BUILT(type, write_##suffix),                 \
   .read_rows = ETI_BUILT(type, read_rows_##suffix),         \
   .read_twiddled = ETI_BUILT(type, read_twiddled_##suffix), \
   .write_rows = ETI_BUILT(type, write_rows_##suffix),       \
   .unfold = ETI_BUILT(type, unfold_##suffix),               \
   .fold = ETI_BUILT(type, fold_##suffix),                   \
   .multiply = ETI_BUILT(type, multiply_##suffix)}

const eti_fft_micro *eti_fft_micro_best(int type);
const eti_fft_micro *eti_fft_micro_of_isa(int type, int isa);  // NULL when build or CPU lacks it

extern const eti_fft_micro eti_fft_scalar[ETI_FFT_TYPES];
extern const eti_fft_micro eti_fft_avx2[ETI_FFT_TYPES];
extern const eti_fft_micro eti_fft_avx512[ETI_FFT_TYPES];

#endif  // ET_MICRO_FFT_PASS_H
