// memory_bound.h — memory-bound operators of XNNPACK: larger tiles for all of them, and kernels for
// three operators. Results are XNNPACK's bytes. Most of the time of the first two was the overhead
// of calls.
//
//   x8 transposition of three planes to pixels of three bytes, with which image networks begin:
//   XNNPACK's kernel takes 32 pixels a call;
//   int8 multiplication, as of an image by one factor per channel: XNNPACK's kernel has vectors of
//   128 bits, and is called for each pixel;
//   int8 addition, where XNNPACK would run its AVX-512 kernel on a processor with AVX-512 VNNI.
#ifndef ET_XNNPACK_MEMORY_BOUND_H
#define ET_XNNPACK_MEMORY_BOUND_H

#include <stddef.h>
#include <stdint.h>
#include <xnnpack.h>

// XNNPACK's interface of transposec micro-kernels: byte (i, j), of `width` times 3, is moved from
// i + j * from_row_bytes to 3 * i + j. height and to_row_bytes are 3.
void eti_xnn_x8_interleave_3__avx2(const void *from, void *to, size_t from_row_bytes,
                                   size_t to_row_bytes, size_t width, size_t height);

// The parameters of an int8 multiplication, as XNNPACK has them.
typedef struct eti_xnn_qs8_vmul_params {
  int8_t a_zero_point, b_zero_point;
  float scale;
  int16_t zero_point;
  int8_t min, max;
} eti_xnn_qs8_vmul_params;

// XNNPACK's interface of vbinary micro-kernels: n products of int8, of which 16 at a time are read.
// params: an eti_xnn_qs8_vmul_params.
void eti_xnn_qs8_vmul__avx2(size_t n, const void *a, const void *b, void *y, const void *params);

// The parameters of an int8 addition, as XNNPACK has them: (bias + a_multiplier * a + b_multiplier
// * b) >> shift.
typedef struct eti_xnn_qs8_vadd_params {
  int8_t a_zero_point, b_zero_point;
  int32_t bias, a_multiplier, b_multiplier, shift;
  int16_t zero_point;
  int8_t min, max;
} eti_xnn_qs8_vadd_params;

// XNNPACK's interface of vbinary micro-kernels: n sums of int8. params: an eti_xnn_qs8_vadd_params.
void eti_xnn_qs8_vadd__avx512vnni(size_t n, const void *a, const void *b, void *y,
                                  const void *params);

// ---- memory_bound.c

// Sets the tiles of a runtime's memory-bound operators; after each reshape.
void eti_xnn_memory_bound_after_reshape(xnn_runtime_t runtime);

// Names of the kernels that these replace, as eti_xnn_tuned_names.
size_t eti_xnn_memory_bound_names(const char **names, size_t n);

#endif  // ET_XNNPACK_MEMORY_BOUND_H
