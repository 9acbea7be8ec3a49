// fft_lines.c — see fft_lines.h. Tables are computed in f64 from angles reduced to an eighth of a
// turn, and rounded once. Lines are stored side by side, so that the loops of all passes vectorise
// across lines. A backward transform is a forward one with real and imaginary parts exchanged on
// both sides. Real lines of even length are transformed as half as many complex numbers. Threads
// share a single long line by the columns of its matrix. Typed code is in fft_lines.body.h.
#include "kernels/lib/fft_lines.h"

#include "kernels/micro/math/math_f64.h"
#include "kernels/sizes.h"

#include <string.h>

// Computes exp(-2πi · k / n).
static void root_of_unity(size_t k, size_t n, double *re, double *im) {
  const double turn = 6.28318530717958647693;
  size_t a = k % n, b = n;  // the angle is a / b of a turn
  double sign_re = 1.0, sign_im = -1.0;
  if (2 * a > b) {
    a = b - a;
    sign_im = 1.0;
  }
  if (4 * a > b) {
    a = b - 2 * a;
    b *= 2;
    sign_re = -1.0;
  }
  const bool swapped = 8 * a > b;
  if (swapped) {
    a = b - 4 * a;
    b *= 4;
  }
  const double angle = turn * ((double)a / (double)b), c = eti_cos_reduced_f64(angle, 0.0),
               s = eti_sin_reduced_f64(angle, 0.0);
  *re = sign_re * (swapped ? s : c);
  *im = sign_im * (swapped ? c : s);
}

static size_t power_of_two(size_t least) {
  size_t n = 1;
  while (n < least) n *= 2;
  return n;
}

// Fills radix with factors of n; false when a prime among them is too large.
static bool factorize_length(eti_fft_part *part, size_t n) {
  size_t twos = 0;
  *part = (eti_fft_part){.n = n};
  for (; n % 2 == 0; n /= 2) twos++;
  // Factors of 8 come first, then of 4.
  const size_t fours = twos % 3 == 2 ? 1 : twos % 3 == 1 && twos > 1 ? 2 : 0;
  for (size_t i = 0; i < fours; i++) part->radix[part->n_passes++] = 4;
  for (twos -= 2 * fours; twos >= 3; twos -= 3) part->radix[part->n_passes++] = 8;
  if (twos == 1) part->radix[part->n_passes++] = 2;
  for (size_t radix = 3; radix <= ETI_FFT_MAX_RADIX; radix += 2) {
    for (; n % radix == 0; n /= radix) part->radix[part->n_passes++] = (uint8_t)radix;
  }
  return n == 1;
}

enum {
  LONGEST = 4096,  // longest line that is transformed in passes over all of it
  MAX_UNEQUAL = 8,
  COLUMNS = 16,  // columns of a matrix transformed together
};

static size_t square_root(size_t n) {
  size_t root = 1;
  while (root * root < n) root *= 2;
  while (root * root > n) root--;
  return root;
}

// Splits a long line into a matrix, row after row: its columns are transformed, multiplied by
// twiddles, and stored as rows, whose columns are transformed again. Both sets of columns are many
// and short, which suits vectors and caches.
static void split_length(eti_fft_plan *plan) {
  const size_t n = plan->padded;
  plan->n_parts = 1;
  plan->most_lanes = ETI_FFT_LANES;
  if (n <= LONGEST) return;
  for (size_t first = square_root(n); first * first * MAX_UNEQUAL >= n; first--) {
    if (n % first != 0) continue;
    factorize_length(&plan->parts[0], first);
    factorize_length(&plan->parts[1], n / first);
    plan->n_parts = 2;
    plan->most_lanes = 1;
    return;
  }
}

// The size of the tables of passes, in complex numbers: twiddles of each pass, then its roots.
static size_t part_numbers(const eti_fft_part *part) {
  size_t total = 0, n = part->n;
  for (size_t i = 0; i < part->n_passes; i++) {
    const size_t radix = part->radix[i];
    n /= radix;
    total += n * (radix - 1) + radix;
  }
  return total;
}

// The size of the tables of both parts and of the twiddles between them.
static size_t pass_numbers(const eti_fft_plan *plan) {
  const size_t first = part_numbers(&plan->parts[0]);
  return plan->n_parts == 1 ? first : first + part_numbers(&plan->parts[1]) + plan->padded;
}

static bool is_halved(const eti_fft_plan *plan) {
  return plan->kind != ETI_FFT_COMPLEX && plan->n % 2 == 0;
}

// Planes start a quarter of a page apart: planes at equal offsets in their pages would share few
// cache sets, and loads would wait for stores to other planes.
enum { NEAREST = 32 * 1024, PAGE = 4096, APART = PAGE / 4, SPREAD = 4 * (PAGE + APART) };

static size_t plane_bytes(size_t bytes) {
  return (bytes + PAGE - 1) / PAGE * PAGE + APART;
}

// Bytes of work memory for some columns of a matrix.
static size_t room_bytes_of(size_t side, size_t number_bytes) {
  return eti_round_up(2 * COLUMNS * side * number_bytes + SPREAD, 64);
}

// Bytes of work memory for a line of n numbers whose matrix has a longer side of `side`; 0: no
// matrix.
static size_t lane_bytes_of(size_t n, size_t side, size_t number_bytes) {
  const size_t line = 2 * (n + 1) * number_bytes;
  const size_t spread = side > 0 || line < PAGE ? 0 : SPREAD / COLUMNS;
  const size_t columns = side > 0 ? room_bytes_of(side, number_bytes) : 0;
  return eti_round_up(line + spread + columns, 64);
}

void eti_fft_plan_init(eti_fft_plan *plan, int type, eti_fft_kind kind, size_t n) {
  *plan = (eti_fft_plan){.micro = eti_fft_micro_best(type), .kind = kind, .n = n, .n_rooms = 1};
  plan->length = is_halved(plan) ? n / 2 : n;
  plan->padded = plan->length;
  if (!factorize_length(&plan->parts[0], plan->length)) {
    plan->padded = power_of_two(2 * plan->length - 1);
    factorize_length(&plan->parts[0], plan->padded);
  }
  split_length(plan);
  size_t numbers = pass_numbers(plan);
  if (plan->padded != plan->length) numbers += plan->length + plan->padded;
  if (is_halved(plan)) numbers += plan->length + 1;
  const size_t bytes = 2 * (size_t)plan->micro->esize;
  plan->table_bytes = eti_round_up(numbers * bytes, 64);
  plan->room_bytes = plan->n_parts == 2 ? room_bytes_of(plan->parts[1].n, bytes) : 0;
  plan->lane_bytes = lane_bytes_of(plan->padded, plan->n_parts == 2 ? plan->parts[1].n : 0, bytes);
}

void eti_fft_bounds(int type, size_t n, size_t *table_bytes, size_t *lane_bytes) {
  const size_t bytes = 2 * (size_t)eti_fft_micro_best(type)->esize;
  const size_t padded = power_of_two(2 * n);
  // Twiddles of a pass of radix r over m · r numbers are m · (r - 1), the next passes have m.
  *table_bytes = eti_round_up((2 * padded + 2 * n + padded + ETI_FFT_MAX_PASSES * 31) * bytes, 64);
  const size_t side = padded > LONGEST ? square_root(MAX_UNEQUAL * padded) : 0;
  *lane_bytes = lane_bytes_of(padded, side, bytes);
}

// First column of share i when n columns are divided into `of` shares. Every share but the last is
// whole blocks.
static size_t share_of(size_t n, size_t i, size_t of) {
  const size_t blocks = (n + COLUMNS - 1) / COLUMNS, at = blocks * i / of * COLUMNS;
  return at < n ? at : n;
}

enum { LINE_GRAIN = 16384 };  // numbers of a line that threads read and write

#define T float
#define SUFFIX f32
#include "kernels/lib/fft_lines.body.h"
#define T double
#define SUFFIX f64
#include "kernels/lib/fft_lines.body.h"

void eti_fft_fill(eti_fft_plan *plan, void *tables, void *work) {
  plan->tables = tables;
  if (plan->micro->dtype == ET_F32) {
    fill_f32(plan, work);
  } else {
    fill_f64(plan, work);
  }
}

void eti_fft_run(const eti_fft_plan *plan, const eti_fft_lines *lines, void *work) {
  if (plan->micro->dtype == ET_F32) {
    run_f32(plan, lines, work);
  } else {
    run_f64(plan, lines, work);
  }
}
