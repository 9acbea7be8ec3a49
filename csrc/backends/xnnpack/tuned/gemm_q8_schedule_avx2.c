// gemm_q8_schedule_avx2.c — see gemm_q8_schedule.h. Compiled with AVX2.
#include "backends/xnnpack/tuned/gemm_q8_schedule.h"
#include "backends/xnnpack/tuned/pack_lhs_q8_avx2.h"

#include <immintrin.h>
#include <string.h>

#include "runtime/check.h"

enum { COLS = 16, HALVES = 2, QUAD_BYTES = 4 * COLS, OFFSET = 128 };
enum { MOST_QUADS = ETI_K_MOST / 4, MOST_WAITING = 4, HEAD = ETI_XNN_QUADS_HEAD };

// What six rows take, in cycles: by the multiplications of Zen 4, two at once; a list by the end of
// its loop, which is foreseen badly. Estimates, of which only the ratios matter.
enum { PAIR_CYCLES = 18, ONE_CYCLES = 12, WIDE_CYCLES = 15, LIST_CYCLES = 25 };

// More than a sixteenth of the quads that are not of the most frequent kind scatter the weights; as
// many wide ones are too many.
enum { SCATTERED = 16 };

// The sums that quads have to fit in: of positive weights and of negative ones, a byte each for the
// pairs 0 and 1 of 16 columns.
typedef struct weight_sums {
  __m256i positive, negative;
} weight_sums;

// A narrow quad that is by itself so far.
typedef struct single {
  weight_sums sums;
  uint16_t at;
} single;

// How many quads of all parts are of each kind.
typedef struct totals {
  size_t in_pairs, ones, wide;
} totals;

// A part's quads.
typedef struct lists {
  size_t n_pairs, n_ones, n_wide;
  uint16_t pairs[MOST_QUADS], ones[MOST_QUADS], wide[MOST_QUADS];
} lists;

static size_t list_bytes(size_t n_k, size_t n_pieces) {
  size_t n = 0;
  for (eti_part p = eti_first_part(n_k, n_pieces);; p = eti_next_part(n_k, n_pieces, p)) {
    n += HEAD + eti_part_quads(&p);
    if (eti_is_last_part(n_k, n_pieces, &p)) return n * sizeof(uint16_t);
  }
}

static size_t record_bytes(size_t n_k, size_t n_pieces) {
  return (COLS * sizeof(int32_t) + list_bytes(n_k, n_pieces) + 31) / 32 * 32;
}

size_t eti_xnn_quads_bytes(size_t n_panels, size_t n_k, size_t n_pieces) {
  return sizeof(eti_xnn_quads) + n_panels * record_bytes(n_k, n_pieces);
}

static __m256i half_at(const int8_t *quad, size_t half) {
  return _mm256_loadu_si256((const __m256i *)(const void *)(quad + half * QUAD_BYTES / 2));
}

// Of pairs of bytes from 0 to 128; what is above 255 counts as that.
static __m256i pairs(__m256i low, __m256i high) {
  const __m256i ones = _mm256_set1_epi8(1);
  return _mm256_packus_epi16(_mm256_maddubs_epi16(low, ones), _mm256_maddubs_epi16(high, ones));
}

static weight_sums sums_of(const int8_t *quad) {
  const __m256i zero = _mm256_setzero_si256(), low = half_at(quad, 0), high = half_at(quad, 1);
  return (weight_sums){
      pairs(_mm256_max_epi8(low, zero), _mm256_max_epi8(high, zero)),
      pairs(_mm256_sub_epi8(zero, _mm256_min_epi8(low, zero)),
            _mm256_sub_epi8(zero, _mm256_min_epi8(high, zero))),
  };
}

static weight_sums both(weight_sums a, weight_sums b) {
  return (weight_sums){_mm256_adds_epu8(a.positive, b.positive),
                       _mm256_adds_epu8(a.negative, b.negative)};
}

static bool fit(weight_sums s) {
  const __m256i most = _mm256_set1_epi8((char)OFFSET);
  const __m256i greatest = _mm256_max_epu8(_mm256_max_epu8(s.positive, s.negative), most);
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(greatest, most)) == -1;
}

static void take_out(single *waiting, size_t *n, size_t i) {
  --*n;
  memmove(waiting + i, waiting + i + 1, (*n - i) * sizeof *waiting);
}

// Puts each quad to the first of a few earlier ones with which it fits.
static void pair_quads(const int8_t *weights, size_t n_quads, lists *l) {
  single waiting[MOST_WAITING];
  size_t n_waiting = 0;
  l->n_pairs = l->n_ones = l->n_wide = 0;
  for (size_t q = 0; q < n_quads; q++) {
    const single new = {sums_of(weights + q * QUAD_BYTES), (uint16_t)(4 * q)};
    if (!fit(new.sums)) {
      l->wide[l->n_wide++] = new.at;
      continue;
    }
    size_t i = 0;
    while (i < n_waiting && !fit(both(waiting[i].sums, new.sums))) i++;
    if (i < n_waiting) {
      uint16_t *const pair = l->pairs + 2 * l->n_pairs++;
      pair[0] = waiting[i].at;
      pair[1] = new.at;
      take_out(waiting, &n_waiting, i);
      continue;
    }
    if (n_waiting == MOST_WAITING) {
      l->ones[l->n_ones++] = waiting[0].at;
      take_out(waiting, &n_waiting, 0);
    }
    waiting[n_waiting++] = new;
  }
  for (size_t i = 0; i < n_waiting; i++) l->ones[l->n_ones++] = waiting[i].at;
}

static size_t cycles_of(size_t n_pairs, size_t n_ones, size_t n_wide) {
  const size_t n_lists = (size_t)(n_pairs > 0) + (size_t)(n_ones > 0) + (size_t)(n_wide > 0);
  return n_pairs * PAIR_CYCLES + n_ones * ONE_CYCLES + n_wide * WIDE_CYCLES + n_lists * LIST_CYCLES;
}

// A pair or a list for few is not worth it: then quads are taken as the next kind, in the order in
// which they lie.
static void settle(const int8_t *weights, size_t n_quads, lists *l) {
  const size_t n_narrow = n_quads - l->n_wide;
  const size_t paired = cycles_of(l->n_pairs, l->n_ones, l->n_wide);
  const size_t parted = cycles_of(0, n_narrow, l->n_wide), wide = cycles_of(0, 0, n_quads);
  if (paired <= parted && paired <= wide) return;
  l->n_pairs = l->n_ones = l->n_wide = 0;
  for (size_t q = 0; q < n_quads; q++) {
    const uint16_t at = (uint16_t)(4 * q);
    if (parted < wide && fit(sums_of(weights + q * QUAD_BYTES)))
      l->ones[l->n_ones++] = at;
    else
      l->wide[l->n_wide++] = at;
  }
}

static uint16_t *put(uint16_t *to, const uint16_t *from, size_t n) {
  memcpy(to, from, n * sizeof *to);
  return to + n;
}

static uint16_t *write_list(uint16_t *to, const lists *l) {
  *to++ = (uint16_t)l->n_pairs;
  *to++ = (uint16_t)l->n_ones;
  *to++ = (uint16_t)l->n_wide;
  to = put(to, l->pairs, 2 * l->n_pairs);
  to = put(to, l->ones, l->n_ones);
  return put(to, l->wide, l->n_wide);
}

// OFFSET times the sums of the columns' weights in some quads.
static void add_offsets(const int8_t *weights, const uint16_t *at, size_t n, __m256i *offsets) {
  const __m256i ones = _mm256_set1_epi8(1), offset = _mm256_set1_epi16(OFFSET);
  for (size_t i = 0; i < n; i++) {
    for (size_t h = 0; h < HALVES; h++) {
      const __m256i w = half_at(weights + (size_t)at[i] * COLS, h);
      const __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, w), offset);
      offsets[h] = _mm256_add_epi32(offsets[h], sum);
    }
  }
}

static void make_record(const eti_xnn_quads *quads, const int8_t *weights, uint8_t *record,
                        lists *l, totals *t) {
  __m256i offsets[HALVES] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  uint16_t *list = (uint16_t *)(void *)(record + sizeof offsets);
  const size_t n_k = quads->n_k, n_pieces = quads->n_pieces;
  for (eti_part p = eti_first_part(n_k, n_pieces);; p = eti_next_part(n_k, n_pieces, p)) {
    const size_t n_quads = eti_part_quads(&p);
    pair_quads(weights, n_quads, l);
    settle(weights, n_quads, l);
    uint16_t *const at = list + HEAD;
    list = write_list(list, l);
    add_offsets(weights, at, n_quads - l->n_wide, offsets);
    t->in_pairs += 2 * l->n_pairs;
    t->ones += l->n_ones;
    t->wide += l->n_wide;
    weights += n_quads * QUAD_BYTES;
    if (eti_is_last_part(n_k, n_pieces, &p)) break;
  }
  for (size_t h = 0; h < HALVES; h++)
    _mm256_storeu_si256((__m256i *)(void *)(record + h * sizeof *offsets), offsets[h]);
  memset(list, 0, (size_t)(record + quads->record_bytes - (uint8_t *)list));
}

bool eti_xnn_quads_make__avx2(eti_xnn_quads *quads, const void *packed, size_t panel_bytes,
                              size_t n_panels, size_t n_k, size_t n_pieces) {
  ET_ASSERT(n_k > 0 && n_pieces > 0);
  const size_t all = n_panels * n_pieces * (eti_in_quads(n_k) / 4);
  lists l;
  totals t = {0};
  *quads = (eti_xnn_quads){.packed = packed,
                           .panel_bytes = panel_bytes,
                           .n_k = n_k,
                           .n_pieces = n_pieces,
                           .record_bytes = record_bytes(n_k, n_pieces)};
  for (size_t i = 0; i < n_panels && t.wide <= all / SCATTERED; i++)
    make_record(quads, (const int8_t *)packed + i * panel_bytes + COLS * sizeof(int32_t),
                quads->records + i * quads->record_bytes, &l, &t);
  quads->is_useless = t.wide > all / SCATTERED;
  quads->has_wide = t.wide > 0;
  quads->is_scattered = (t.in_pairs < t.ones ? t.in_pairs : t.ones) + t.wide > all / SCATTERED;
  return !quads->is_useless;
}
