// gemm_q8_schedule.h — in which order products of int8 multiply the quads of their weights: four
// elements k of 16 columns, as gemm_q8_avx2.c reads them.
//
// Without dot products of bytes there are two instructions. One multiplies pairs of 16-bit
// integers, which elements and weights have to be made first. The other one multiplies pairs of
// bytes, elements plus 128 and weights as they are, and has 16 bits for the two products. As
// elements are at most 255 then, they fit if neither the positive nor the negative weights of the
// pair add up to more than 128. Quads for which that holds in all columns are narrow, others wide;
// weights of 7 bits have no others. And where it holds for the weights of two quads together, their
// products may be added in 16 bits before they are widened. Which quads make a pair is free, so
// they are chosen to fit.
//
// All sums are exact, whatever the order. Weights of 8 bits have so many wide quads that it is best
// to take all as such, in the order in which they lie: the rest would not make up for reading from
// here and there what comes from afar, and for rows made both ways.
#ifndef ET_XNNPACK_QUADS_H
#define ET_XNNPACK_QUADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a kernel is told of the weights of one product, all its panels of 16 columns.
typedef struct eti_xnn_quads {
  struct eti_xnn_quads *next;  // the owner's
  const void *packed;          // where the weights lie, and how far panels are apart
  size_t panel_bytes;
  size_t n_k, n_pieces;  // of a row
  size_t record_bytes;
  bool is_useless;  // there are no records
  bool has_wide;
  bool is_scattered;  // weights are not read nearly in the order in which they lie
  // A record for each panel: what narrow quads add to the sums of 16 columns by the 128, int32
  // each, then a list for each part of a row (pack_lhs_q8_avx2.h): how many pairs there are, narrow
  // quads by themselves, and wide ones, then these in that order, each as four times its number.
  _Alignas(32) uint8_t records[];
} eti_xnn_quads;

enum { ETI_XNN_QUADS_HEAD = 3 };  // numbers in front of a list

// What the kernels for int8 get in place of XNNPACK's limits. What is behind these XNNPACK leaves
// 0, so operators that nobody tells of quads, as transposed convolutions, take all as wide ones.
typedef struct eti_xnn_q8_params {
  _Alignas(8) uint8_t limits[16];  // XNNPACK's
  const eti_xnn_quads *quads;      // NULL: all of them are taken as wide ones
} eti_xnn_q8_params;

// The memory for n_panels of such rows.
size_t eti_xnn_quads_bytes(size_t n_panels, size_t n_k, size_t n_pieces);

// Looks at the packed weights and fills that memory. False: it is of no use, and need not be kept
// but for what comes before the records.
bool eti_xnn_quads_make__avx2(eti_xnn_quads *quads, const void *packed, size_t panel_bytes,
                              size_t n_panels, size_t n_k, size_t n_pieces);

#endif  // ET_XNNPACK_QUADS_H
