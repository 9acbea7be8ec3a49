// gemm_q8_schedule.h — the order in which gemm_q8_avx2.c multiplies int8 weights. Its unit is the
// k4 block: four consecutive k of 16 columns, 64 bytes, as weights are packed with nr = 16, kr = 4.
//
// Processors without dot products of bytes (VNNI) have two instructions for this. pmaddwd
// multiplies pairs of 16-bit integers, to which elements and weights have to be widened. pmaddubsw
// multiplies pairs of bytes, elements plus 128 and weights as they are, and saturates the two
// products' sum to 16 bits. As elements plus 128 are at most 255, nothing saturates if neither the
// positive nor the negative weights of the pair add up to more than 128. k4 blocks for which that
// holds in all columns are narrow, others wide; weights of 7 bits have narrow ones only. If it
// holds for the weights of two blocks together, their products may be added in 16 bits before they
// are widened; such blocks are a pair. Any two narrow blocks may form a pair, so the schedule
// searches for partners that fit.
//
// All sums are exact, whatever the order. Weights of 8 bits have many wide blocks. Then multiplying
// all blocks as wide ones, in memory order, is faster. A mixture would read weights from scattered
// places and need the rows in both forms, which costs more than it saves.
#ifndef ET_XNNPACK_GEMM_Q8_SCHEDULE_H
#define ET_XNNPACK_GEMM_Q8_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/xnnpack/tuned/tuned.h"

// The schedule of packed weights, all panels of 16 columns. A row of the left operand has n_taps
// pieces of n_k elements: 1 of a gemm, the window's elements of an igemm.
struct eti_xnn_q8_schedule {
  struct eti_xnn_q8_schedule *next;  // of a runtime's list
  const void *packed;                // the weights
  size_t panel_bytes;                // from panel to panel
  size_t n_k, n_taps;
  size_t record_bytes;
  bool pays;  // false: there are no records, and all blocks are multiplied as wide ones
  bool has_wide;
  bool is_scattered;  // weights are not read in memory order
  // A record for each panel: the contribution of the 128 to the sums of 16 columns in narrow
  // blocks, int32 each; then a list for each slice of a row (pack_lhs_q8_avx2.h): the numbers of
  // pairs, of single narrow blocks and of wide ones, then these blocks in that order, each as its
  // first k.
  _Alignas(32) uint8_t records[];
};

enum { ETI_XNN_Q8_LIST_HEAD = 3 };  // numbers before a list's blocks

// The parameters of int8 kernels: XNNPACK's, followed by the schedule. XNNPACK leaves the schedule
// NULL, so operators without one, such as transposed convolutions, multiply all blocks as wide
// ones.
typedef struct eti_xnn_q8_params {
  _Alignas(8) uint8_t limits[16];       // XNNPACK's
  const eti_xnn_q8_schedule *schedule;  // NULL: all blocks are wide
} eti_xnn_q8_params;

// The bytes of a schedule of n_panels.
size_t eti_xnn_q8_schedule_bytes(size_t n_panels, size_t n_k, size_t n_taps);

// Makes a schedule of packed weights in memory of that size. False: the schedule would not be
// faster, and only the members before `records` are filled.
bool eti_xnn_q8_schedule_make__avx2(eti_xnn_q8_schedule *schedule, const void *packed,
                                    size_t panel_bytes, size_t n_panels, size_t n_k, size_t n_taps);

#endif  // ET_XNNPACK_GEMM_Q8_SCHEDULE_H
