// copy_lhs_amx.h — the left operand of the int8 kernels on AMX, and copies of its taps to rows of
// memory, slice by slice, since the taps of a convolution are not contiguous.
#ifndef ET_XNNPACK_COPY_LHS_AMX_H
#define ET_XNNPACK_COPY_LHS_AMX_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/micro/amx_tiles.h"

#define INLINE static inline __attribute__((always_inline))

enum { QUAD = 4 };  // consecutive k

// Bytes of a row that are copied at once, and the greatest distance of copied rows.
enum { ETI_AMX_SLICE = 768, ETI_AMX_PITCH = ETI_AMX_SLICE + AMX_BYTES };

// The left operand: a matrix, or taps.
typedef struct eti_amx_lhs {
  size_t n_rows, n_k, n_taps;
  const int8_t *a;  // the matrix
  size_t a_bytes;
  const void *const *taps;  // NULL: a matrix
  size_t together;          // rows whose taps lie together
  size_t offset_bytes;
  const void *zero, *zero_data;
} eti_amx_lhs;

// ---- Slices of rows: whole taps, or some elements of one

typedef struct eti_amx_slice {
  size_t tap, n_taps, k, n_k;
} eti_amx_slice;

INLINE size_t eti_amx_quads_of(size_t n_k) {
  return (n_k + QUAD - 1) / QUAD;
}

INLINE size_t eti_amx_slice_quads(const eti_amx_slice *s) {
  return eti_amx_quads_of(s->n_k) * s->n_taps;
}

// Slices of nearly equal length.
static inline eti_amx_slice eti_amx_slice_from(const eti_amx_lhs *a, size_t tap, size_t k) {
  if (a->taps == NULL) return (eti_amx_slice){0, 1, 0, a->n_k};
  const size_t padded = eti_amx_quads_of(a->n_k) * QUAD, left = a->n_taps - tap;
  if (padded > ETI_AMX_SLICE) {
    const size_t n = a->n_k - k;
    return (eti_amx_slice){tap, 1, k, n < ETI_AMX_SLICE ? n : ETI_AMX_SLICE};
  }
  const size_t most = ETI_AMX_SLICE / padded, n_slices = (a->n_taps + most - 1) / most;
  const size_t each = (a->n_taps + n_slices - 1) / n_slices;
  return (eti_amx_slice){tap, each < left ? each : left, 0, a->n_k};
}

INLINE bool eti_amx_is_last(const eti_amx_lhs *a, const eti_amx_slice *s) {
  return s->tap + s->n_taps == a->n_taps && s->k + s->n_k == a->n_k;
}

static inline eti_amx_slice eti_amx_slice_after(const eti_amx_lhs *a, const eti_amx_slice *s) {
  const size_t k = s->k + s->n_k;
  return k < a->n_k ? eti_amx_slice_from(a, s->tap, k)
                    : eti_amx_slice_from(a, s->tap + s->n_taps, 0);
}

// ---- Copies of rows

// A mask of the first n of 64 bytes.
INLINE __mmask64 eti_amx_first_bytes(size_t n) {
  return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

// Copies n bytes, of which `mask` are the last 1 to 64.
INLINE void eti_amx_copy_bytes(int8_t *to, const int8_t *from, size_t n, __mmask64 mask) {
  for (; n > 64; n -= 64, to += 64, from += 64)
    _mm512_storeu_si512((void *)to, _mm512_loadu_si512((const void *)from));
  _mm512_mask_storeu_epi8((void *)to, mask, _mm512_maskz_loadu_epi8(mask, (const void *)from));
}

INLINE const int8_t *eti_amx_tap_at(const eti_amx_lhs *a, const void *const *at) {
  return *at == a->zero ? a->zero_data : (const int8_t *)*at + a->offset_bytes;
}

// Copies a slice of taps of a row. The last quad of a tap may end with anything: its weights are 0.
INLINE void eti_amx_copy_taps_of_row(const eti_amx_lhs *a, const void *const *taps,
                                     const eti_amx_slice *s, int8_t *to) {
  const size_t padded = eti_amx_quads_of(s->n_k) * QUAD, apart = a->together;
  const void *const *const end = taps + s->n_taps * apart;
  const __mmask64 mask = eti_amx_first_bytes((s->n_k - 1) % 64 + 1);
  if (padded == QUAD) {
    for (; taps < end; taps += apart, to += QUAD) memcpy(to, eti_amx_tap_at(a, taps) + s->k, QUAD);
  } else if (s->n_k == 64) {
    for (; taps < end; taps += apart, to += 64)
      _mm512_storeu_si512((void *)to,
                          _mm512_loadu_si512((const void *)(eti_amx_tap_at(a, taps) + s->k)));
  } else {
    for (; taps < end; taps += apart, to += padded)
      eti_amx_copy_bytes(to, eti_amx_tap_at(a, taps) + s->k, s->n_k, mask);
  }
}

// The distance of copied rows: an odd number of lines, because others compete for few sets of the
// cache.
INLINE size_t eti_amx_pitch_of(size_t quads) {
  return (quads * QUAD + AMX_BYTES - 1) / (2 * AMX_BYTES) * 2 * AMX_BYTES + AMX_BYTES;
}

INLINE void eti_amx_copy_taps(const eti_amx_lhs *a, size_t row, size_t n_rows,
                              const eti_amx_slice *s, int8_t *to, size_t pitch) {
  for (size_t i = 0; i < n_rows; i++, to += pitch) {
    const size_t group = (row + i) / a->together, in_group = (row + i) % a->together;
    const size_t first = (group * a->n_taps + s->tap) * a->together + in_group;
    eti_amx_copy_taps_of_row(a, a->taps + first, s, to);
  }
}

#endif  // ET_XNNPACK_COPY_LHS_AMX_H
