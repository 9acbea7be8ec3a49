// memory_bound.h — operators of XNNPACK's that do little with each byte: how these are cut into
// calls, and kernels for two of which the calls themselves took most of the time. Bytes are
// XNNPACK's.
//
//   three lines of bytes to pixels of three, with which networks of images begin: XNNPACK takes 32
//   pixels a call; products of int8, as of an image and one factor for each channel: XNNPACK's
//   kernel has 128 bits, and is called for each pixel.
#ifndef ET_XNNPACK_LIGHT_H
#define ET_XNNPACK_LIGHT_H

#include <stddef.h>
#include <stdint.h>
#include <xnnpack.h>

// XNNPACK's interface for transpositions: byte (i, j) of `width` and three from
// i + j * from_row_bytes to 3 * i + j.
void eti_xnn_x8_interleave_3__avx2(const void *from, void *to, size_t from_row_bytes,
                                   size_t to_row_bytes, size_t width, size_t height);

// What products are computed with, as XNNPACK has it.
typedef struct eti_xnn_qs8_product {
  int8_t a_zero_point, b_zero_point;
  float scale;
  int16_t zero_point;
  int8_t min, max;
} eti_xnn_qs8_product;

// XNNPACK's interface for two operands: n products of int8; `product` is an eti_xnn_qs8_product.
void eti_xnn_qs8_multiply__avx2(size_t n, const void *a, const void *b, void *y,
                                const void *product);

// Cuts them; after each reshape.
void eti_xnn_tile_light(xnn_runtime_t runtime);

// Names of the kernels that ours take the place of on this machine: writes at most n of them and
// returns how many there are. Any thread, after xnn_initialize.
size_t eti_xnn_own_light(const char **names, size_t n);

#endif  // ET_XNNPACK_LIGHT_H
