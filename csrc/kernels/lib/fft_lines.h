// fft_lines.h — discrete Fourier transforms of many lines of numbers, of any length: mixed radices,
// and Bluestein's convolution for lengths with a large prime factor. Relies on
// micro/fft/fft_pass.h, and on the sine for its tables, which are in the caller's memory. Knows no
// tensor: a line is an address and a step.
#ifndef ET_FFT_LINES_H
#define ET_FFT_LINES_H

#include "kernels/micro/fft/fft_pass.h"
#include "runtime/et.h"

typedef enum eti_fft_kind {
  ETI_FFT_COMPLEX,  // n complex numbers to n complex numbers
  ETI_FFT_FORWARD,  // n real numbers to n / 2 + 1 complex numbers
  ETI_FFT_BACK,     // n / 2 + 1 complex numbers (the rest is implied) to n real numbers
} eti_fft_kind;

enum { ETI_FFT_MAX_PASSES = 40, ETI_FFT_LANES = 64 };

// One length as a product of radices.
typedef struct eti_fft_part {
  size_t n, n_passes;
  uint8_t radix[ETI_FFT_MAX_PASSES];
} eti_fft_part;

// The plan for one length; it depends on nothing else.
typedef struct eti_fft_plan {
  const eti_fft_micro *micro;
  eti_fft_kind kind;
  size_t n;       // of the line
  size_t length;  // of the complex transform: n, or n / 2 for real lines of even n
  size_t padded;  // of the passes: length, or that of the convolution
  size_t n_parts;
  eti_fft_part parts[2];  // two for the columns and the rows of a matrix
  size_t table_bytes;     // of tables, a multiple of 64
  size_t lane_bytes;      // of work memory per line, a multiple of 64
  size_t most_lanes;
  size_t room_bytes;  // of work memory per further thread of a shared line; 0: none
  char *tables;       // set by eti_fft_fill
  // Set by a caller with a single long line for several threads: n_rooms - 1 rooms beside that of
  // the line.
  const et_pool *pool;
  char *rooms;
  size_t n_rooms;
} eti_fft_plan;

// type is ETI_FFT_F32 or ETI_FFT_F64; n ≥ 1.
void eti_fft_plan_init(eti_fft_plan *plan, int type, eti_fft_kind kind, size_t n);
// Upper bounds of the needs of plans for lengths up to n.
void eti_fft_bounds(int type, size_t n, size_t *table_bytes, size_t *lane_bytes);
// Computes the tables; `tables` has table_bytes bytes and lives as long as the plan is used, work
// has lane_bytes.
void eti_fft_fill(eti_fft_plan *plan, void *tables, void *work);

// Up to ETI_FFT_LANES lines, of which no more than most_lanes. Real lines are numbers, complex ones
// pairs of numbers; steps are in such elements. in may be out: all of in is read first.
typedef struct eti_fft_lines {
  const void *in[ETI_FFT_LANES];
  void *out[ETI_FFT_LANES];
  size_t n_lines;
  bool in_rows, out_rows;  // lines are side by side: each starts one element after the last
  ptrdiff_t in_step, out_step;
  bool backward;  // of ETI_FFT_COMPLEX: the sign of the exponent
  bool twosided;  // of ETI_FFT_FORWARD: all n results are written
  double scale;   // results are multiplied by it
} eti_fft_lines;

// work has n_lines × lane_bytes bytes.
void eti_fft_run(const eti_fft_plan *plan, const eti_fft_lines *lines, void *work);

#endif  // ET_FFT_LINES_H
