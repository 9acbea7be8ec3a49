// transpose.c — see transpose.h. Square tiles of 16-byte vectors are transposed in registers by
// log2(N) rounds of one step: zip row i with row i + N/2. The vectors are the compiler's own (SSE2,
// NEON, WASM SIMD), so there is no file per ISA. The order of tiles writes whole cache lines of the
// destination while the source lines stay in the L1 cache.
#include "kernels/micro/transpose.h"

#include "kernels/contract.h"

#include <stdint.h>
#include <string.h>

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && \
    (defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__) || defined(__VSX__))
#define HAVE_VECTORS 1
#endif
#endif
#ifndef HAVE_VECTORS
#define HAVE_VECTORS 0
#endif

#define LINE 64u  // bytes of a cache line

// Copies one element through a local, so that overlapping areas are harmless; elem is a constant
// after inlining.
static inline void move_element(char *dst, const char *src, size_t elem) {
  char value[16];
  memcpy(value, src, elem);
  memcpy(dst, value, elem);
}

static inline void transpose_scalar(char *dst, ptrdiff_t dst_stride, const char *src,
                                    ptrdiff_t src_stride, size_t rows, size_t cols, size_t elem) {
  for (size_t j = 0; j < cols; j++) {
    for (size_t i = 0; i < rows; i++) {
      move_element(dst + (ptrdiff_t)j * dst_stride + (ptrdiff_t)(i * elem),
                   src + (ptrdiff_t)i * src_stride + (ptrdiff_t)(j * elem), elem);
    }
  }
}

#if HAVE_VECTORS
typedef uint8_t v16u8 __attribute__((vector_size(16)));
typedef uint16_t v8u16 __attribute__((vector_size(16)));
typedef uint32_t v4u32 __attribute__((vector_size(16)));
typedef uint64_t v2u64 __attribute__((vector_size(16)));

static inline v16u8 zip_low(v16u8 a, v16u8 b, size_t elem) {
  switch (elem) {
    case 1:
      return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    case 2:
      return (v16u8)__builtin_shufflevector((v8u16)a, (v8u16)b, 0, 8, 1, 9, 2, 10, 3, 11);
    case 4:
      return (v16u8)__builtin_shufflevector((v4u32)a, (v4u32)b, 0, 4, 1, 5);
    default:
      return (v16u8)__builtin_shufflevector((v2u64)a, (v2u64)b, 0, 2);
  }
}

static inline v16u8 zip_high(v16u8 a, v16u8 b, size_t elem) {
  switch (elem) {
    case 1:
      return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                     31);
    case 2:
      return (v16u8)__builtin_shufflevector((v8u16)a, (v8u16)b, 4, 12, 5, 13, 6, 14, 7, 15);
    case 4:
      return (v16u8)__builtin_shufflevector((v4u32)a, (v4u32)b, 2, 6, 3, 7);
    default:
      return (v16u8)__builtin_shufflevector((v2u64)a, (v2u64)b, 1, 3);
  }
}

// Small elements are reversed within 32 bits by shifts: SSE2 has no shuffle of bytes, and compilers
// implement one of halves badly.
static inline v16u8 reversed(v16u8 x, size_t elem) {
  if (elem == 1) x = (v16u8)((v8u16)x << 8 | (v8u16)x >> 8);
  if (elem <= 2) x = (v16u8)((v4u32)x << 16 | (v4u32)x >> 16);
  if (elem <= 4) return (v16u8)__builtin_shufflevector((v4u32)x, (v4u32)x, 3, 2, 1, 0);
  return elem == 8 ? (v16u8)__builtin_shufflevector((v2u64)x, (v2u64)x, 1, 0) : x;
}

static inline void reverse_row(char *dst, const char *end, size_t n, size_t elem) {
  for (; n >= 16 / elem; n -= 16 / elem, dst += 16) {
    v16u8 x;
    end -= 16;
    memcpy(&x, end, 16);
    x = reversed(x, elem);
    memcpy(dst, &x, 16);
  }
  for (; n > 0; n--, dst += elem) move_element(dst, end -= elem, elem);
}

// Transposes one N×N tile, N = 16 / elem.
static inline void transpose_tile(char *dst, ptrdiff_t dst_stride, const char *src,
                                  ptrdiff_t src_stride, size_t elem) {
  const size_t n = 16 / elem;
  v16u8 x[16], y[16];
  for (size_t i = 0; i < n; i++) memcpy(&x[i], src + (ptrdiff_t)i * src_stride, 16);
  for (size_t round = 1; round < n; round *= 2) {
    for (size_t i = 0; i < n / 2; i++) {
      y[2 * i] = zip_low(x[i], x[i + n / 2], elem);
      y[2 * i + 1] = zip_high(x[i], x[i + n / 2], elem);
    }
    for (size_t i = 0; i < n; i++) x[i] = y[i];
  }
  for (size_t i = 0; i < n; i++) memcpy(dst + (ptrdiff_t)i * dst_stride, &x[i], 16);
}

// Interleaves 2 to 4 rows, as planes of an image to pixels that follow one another. Two rounds of
// zips give pixels of four elements; the elements that a pixel lacks are overwritten by the next
// pixel, so the last pixels are left to others. Returns the number of columns done.
static inline size_t interleave(char *dst, const char *src, ptrdiff_t src_stride, size_t rows,
                                size_t cols, size_t elem) {
  const size_t n = 16 / elem, step = rows * elem;
  size_t j = 0;
  for (; j + n < cols; j += n) {
    v16u8 x[4] = {{0}}, pixels[4];
    char bytes[sizeof pixels];
    for (size_t i = 0; i < rows; i++) memcpy(&x[i], src + (ptrdiff_t)i * src_stride + j * elem, 16);
    const v16u8 low = zip_low(x[0], x[1], elem), low2 = zip_low(x[2], x[3], elem);
    const v16u8 high = zip_high(x[0], x[1], elem), high2 = zip_high(x[2], x[3], elem);
    pixels[0] = zip_low(low, low2, 2 * elem);
    pixels[1] = zip_high(low, low2, 2 * elem);
    pixels[2] = zip_low(high, high2, 2 * elem);
    pixels[3] = zip_high(high, high2, 2 * elem);
    memcpy(bytes, pixels, sizeof bytes);
    for (size_t p = 0; p < n; p++) memcpy(dst + (j + p) * step, bytes + 4 * p * elem, 4 * elem);
  }
  return j;
}

static inline void transpose_blocked(char *dst, ptrdiff_t dst_stride, const char *src,
                                     ptrdiff_t src_stride, size_t rows, size_t cols, size_t elem) {
  const size_t n = 16 / elem;
  if (elem <= 4 && rows >= 2 && rows <= 4 && dst_stride == (ptrdiff_t)(rows * elem)) {
    const size_t done = interleave(dst, src, src_stride, rows, cols, elem);
    dst += (ptrdiff_t)done * dst_stride;
    src += done * elem;
    cols -= done;
  }
  const size_t full_rows = rows - rows % n, full_cols = cols - cols % n;
  const size_t band = LINE / elem;  // rows whose elements fill a line of dst
  for (size_t i0 = 0; i0 < full_rows; i0 += band) {
    const size_t i1 = i0 + band < full_rows ? i0 + band : full_rows;
    for (size_t j = 0; j < full_cols; j += n) {
      for (size_t i = i0; i < i1; i += n) {
        transpose_tile(dst + (ptrdiff_t)j * dst_stride + (ptrdiff_t)(i * elem), dst_stride,
                       src + (ptrdiff_t)i * src_stride + (ptrdiff_t)(j * elem), src_stride, elem);
      }
    }
  }
  transpose_scalar(dst + (ptrdiff_t)full_cols * dst_stride, dst_stride, src + full_cols * elem,
                   src_stride, full_rows, cols - full_cols, elem);
  transpose_scalar(dst + full_rows * elem, dst_stride, src + (ptrdiff_t)full_rows * src_stride,
                   src_stride, rows - full_rows, cols, elem);
}
#else
static inline void reverse_row(char *dst, const char *end, size_t n, size_t elem) {
  for (; n > 0; n--, dst += elem) move_element(dst, end -= elem, elem);
}

// Transposes without vectors: in blocks of a cache line per side, so that both sides stay in the L1
// cache.
static inline void transpose_blocked(char *dst, ptrdiff_t dst_stride, const char *src,
                                     ptrdiff_t src_stride, size_t rows, size_t cols, size_t elem) {
  const size_t n = LINE / elem;
  for (size_t i = 0; i < rows; i += n) {
    for (size_t j = 0; j < cols; j += n) {
      transpose_scalar(dst + (ptrdiff_t)j * dst_stride + (ptrdiff_t)(i * elem), dst_stride,
                       src + (ptrdiff_t)i * src_stride + (ptrdiff_t)(j * elem), src_stride,
                       rows - i < n ? rows - i : n, cols - j < n ? cols - j : n, elem);
    }
  }
}
#endif

void eti_transpose(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                   size_t rows, size_t cols, size_t elem) {
  ET_ASSERT(elem == 1 || elem == 2 || elem == 4 || elem == 8 || elem == 16);
  ET_ASSERT(rows == 0 || cols == 0 || (dst != NULL && src != NULL));
  switch (elem) {
    case 1:
      transpose_blocked(dst, dst_stride, src, src_stride, rows, cols, 1);
      break;
    case 2:
      transpose_blocked(dst, dst_stride, src, src_stride, rows, cols, 2);
      break;
    case 4:
      transpose_blocked(dst, dst_stride, src, src_stride, rows, cols, 4);
      break;
    case 8:
      transpose_blocked(dst, dst_stride, src, src_stride, rows, cols, 8);
      break;
    default:
      transpose_scalar(dst, dst_stride, src, src_stride, rows, cols, 16);
      break;
  }
}

void eti_reverse(void *dst, const void *src, size_t n, size_t elem) {
  ET_ASSERT(elem == 1 || elem == 2 || elem == 4 || elem == 8 || elem == 16);
  ET_ASSERT(n == 0 || (dst != NULL && src != NULL));
  const char *const end = (const char *)src + n * elem;
  switch (elem) {
    case 1:
      reverse_row(dst, end, n, 1);
      break;
    case 2:
      reverse_row(dst, end, n, 2);
      break;
    case 4:
      reverse_row(dst, end, n, 4);
      break;
    case 8:
      reverse_row(dst, end, n, 8);
      break;
    default:
      reverse_row(dst, end, n, 16);
      break;
  }
}
