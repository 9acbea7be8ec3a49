// gemm_q8_schedule_avx2.c — makes the schedules of gemm_q8_schedule.h. Compiled with AVX2.
#include "backends/xnnpack/tuned/gemm/gemm_q8_schedule.h"

#include <immintrin.h>
#include <string.h>

#include "backends/xnnpack/tuned/gemm/pack_lhs_q8_avx2.h"
#include "runtime/check.h"

enum { COLS = 16, HALVES = 2, BLOCK_BYTES = 4 * COLS, OFFSET = 128 };
enum { MAX_BLOCKS = ETI_SLICE_K / 4, MAX_WAITING = 4, HEAD = ETI_XNN_Q8_LIST_HEAD };

// Estimated cycles per six rows; only their ratios matter. Blocks: the multiplications on Zen 4,
// two at once. A list: the mispredicted end of its loop.
enum { PAIR_CYCLES = 18, SINGLE_CYCLES = 12, WIDE_CYCLES = 15, LIST_CYCLES = 25 };

// More than a sixteenth of the blocks that are not of the most frequent kind scatter the reads of
// weights; a schedule with as many wide blocks does not pay.
enum { SCATTERED = 16 };

// The sums that decide whether products saturate: of positive and of negative weights, a byte each
// for the pairs 0 and 1 of 16 columns.
typedef struct weight_sums {
  __m256i positive, negative;
} weight_sums;

// A narrow block that is not paired so far.
typedef struct single {
  weight_sums sums;
  uint16_t k;
} single;

// The blocks of all slices, by kind.
typedef struct totals {
  size_t in_pairs, singles, wide;
} totals;

// The blocks of one slice, by kind: the first k of each.
typedef struct lists {
  size_t n_pairs, n_singles, n_wide;
  uint16_t pairs[MAX_BLOCKS], singles[MAX_BLOCKS], wide[MAX_BLOCKS];
} lists;

// ---- Sizes

static size_t list_bytes(size_t n_k, size_t n_taps) {
  size_t n = 0;
  for (eti_k_slice s = eti_first_slice(n_k, n_taps);; s = eti_next_slice(n_k, n_taps, s)) {
    n += HEAD + eti_slice_blocks(&s);
    if (eti_is_last_slice(n_k, n_taps, &s)) return n * sizeof(uint16_t);
  }
}

static size_t record_bytes(size_t n_k, size_t n_taps) {
  return (COLS * sizeof(int32_t) + list_bytes(n_k, n_taps) + 31) / 32 * 32;
}

size_t eti_xnn_q8_schedule_bytes(size_t n_panels, size_t n_k, size_t n_taps) {
  return sizeof(eti_xnn_q8_schedule) + n_panels * record_bytes(n_k, n_taps);
}

// ---- Weights

static __m256i load_half(const int8_t *block, size_t half) {
  return _mm256_loadu_si256((const __m256i *)(const void *)(block + half * BLOCK_BYTES / 2));
}

// The sums of pairs of bytes from 0 to 128; those above 255 become 255.
static __m256i pair_sums(__m256i low, __m256i high) {
  const __m256i ones = _mm256_set1_epi8(1);
  return _mm256_packus_epi16(_mm256_maddubs_epi16(low, ones), _mm256_maddubs_epi16(high, ones));
}

static weight_sums sums_of(const int8_t *block) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i low = load_half(block, 0), high = load_half(block, 1);
  return (weight_sums){
      pair_sums(_mm256_max_epi8(low, zero), _mm256_max_epi8(high, zero)),
      pair_sums(_mm256_sub_epi8(zero, _mm256_min_epi8(low, zero)),
                _mm256_sub_epi8(zero, _mm256_min_epi8(high, zero))),
  };
}

static weight_sums add_sums(weight_sums a, weight_sums b) {
  return (weight_sums){_mm256_adds_epu8(a.positive, b.positive),
                       _mm256_adds_epu8(a.negative, b.negative)};
}

static bool is_narrow(weight_sums s) {
  const __m256i most = _mm256_set1_epi8((char)OFFSET);
  const __m256i greatest = _mm256_max_epu8(_mm256_max_epu8(s.positive, s.negative), most);
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(greatest, most)) == -1;
}

// ---- Lists

static void remove_waiting(single *waiting, size_t *n, size_t i) {
  --*n;
  memmove(waiting + i, waiting + i + 1, (*n - i) * sizeof *waiting);
}

// Pairs each block with the first of a few earlier ones with which it stays narrow.
static void pair_blocks(const int8_t *weights, size_t n_blocks, lists *l) {
  single waiting[MAX_WAITING];
  size_t n_waiting = 0;
  l->n_pairs = l->n_singles = l->n_wide = 0;
  for (size_t b = 0; b < n_blocks; b++) {
    const single new = {sums_of(weights + b * BLOCK_BYTES), (uint16_t)(4 * b)};
    if (!is_narrow(new.sums)) {
      l->wide[l->n_wide++] = new.k;
      continue;
    }
    size_t i = 0;
    while (i < n_waiting && !is_narrow(add_sums(waiting[i].sums, new.sums))) i++;
    if (i < n_waiting) {
      uint16_t *const pair = l->pairs + 2 * l->n_pairs++;
      pair[0] = waiting[i].k;
      pair[1] = new.k;
      remove_waiting(waiting, &n_waiting, i);
      continue;
    }
    if (n_waiting == MAX_WAITING) {
      l->singles[l->n_singles++] = waiting[0].k;
      remove_waiting(waiting, &n_waiting, 0);
    }
    waiting[n_waiting++] = new;
  }
  for (size_t i = 0; i < n_waiting; i++) l->singles[l->n_singles++] = waiting[i].k;
}

static size_t cycles_of(size_t n_pairs, size_t n_singles, size_t n_wide) {
  const size_t n_lists = (size_t)(n_pairs > 0) + (size_t)(n_singles > 0) + (size_t)(n_wide > 0);
  return n_pairs * PAIR_CYCLES + n_singles * SINGLE_CYCLES + n_wide * WIDE_CYCLES +
         n_lists * LIST_CYCLES;
}

// Drops pairs, or all narrow blocks, if they are too few to outweigh the cost of a list. Their
// blocks become the next kind, in memory order.
static void drop_short_lists(const int8_t *weights, size_t n_blocks, lists *l) {
  const size_t n_narrow = n_blocks - l->n_wide;
  const size_t with_pairs = cycles_of(l->n_pairs, l->n_singles, l->n_wide);
  const size_t with_singles = cycles_of(0, n_narrow, l->n_wide);
  const size_t all_wide = cycles_of(0, 0, n_blocks);
  if (with_pairs <= with_singles && with_pairs <= all_wide) return;
  l->n_pairs = l->n_singles = l->n_wide = 0;
  for (size_t b = 0; b < n_blocks; b++) {
    const uint16_t k = (uint16_t)(4 * b);
    if (with_singles < all_wide && is_narrow(sums_of(weights + b * BLOCK_BYTES)))
      l->singles[l->n_singles++] = k;
    else
      l->wide[l->n_wide++] = k;
  }
}

// ---- Records

static uint16_t *append(uint16_t *to, const uint16_t *from, size_t n) {
  memcpy(to, from, n * sizeof *to);
  return to + n;
}

static uint16_t *write_list(uint16_t *to, const lists *l) {
  *to++ = (uint16_t)l->n_pairs;
  *to++ = (uint16_t)l->n_singles;
  *to++ = (uint16_t)l->n_wide;
  to = append(to, l->pairs, 2 * l->n_pairs);
  to = append(to, l->singles, l->n_singles);
  return append(to, l->wide, l->n_wide);
}

// Adds OFFSET times the columns' sums of weights in n blocks.
static void add_offsets(const int8_t *weights, const uint16_t *blocks, size_t n, __m256i *offsets) {
  const __m256i ones = _mm256_set1_epi8(1), offset = _mm256_set1_epi16(OFFSET);
  for (size_t i = 0; i < n; i++) {
    for (size_t h = 0; h < HALVES; h++) {
      const __m256i w = load_half(weights + (size_t)blocks[i] * COLS, h);
      const __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, w), offset);
      offsets[h] = _mm256_add_epi32(offsets[h], sum);
    }
  }
}

static void make_record(const eti_xnn_q8_schedule *schedule, const int8_t *weights, uint8_t *record,
                        lists *l, totals *t) {
  __m256i offsets[HALVES] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  uint16_t *list = (uint16_t *)(void *)(record + sizeof offsets);
  const size_t n_k = schedule->n_k, n_taps = schedule->n_taps;
  for (eti_k_slice s = eti_first_slice(n_k, n_taps);; s = eti_next_slice(n_k, n_taps, s)) {
    const size_t n_blocks = eti_slice_blocks(&s);
    pair_blocks(weights, n_blocks, l);
    drop_short_lists(weights, n_blocks, l);
    uint16_t *const blocks = list + HEAD;
    list = write_list(list, l);
    add_offsets(weights, blocks, n_blocks - l->n_wide, offsets);
    t->in_pairs += 2 * l->n_pairs;
    t->singles += l->n_singles;
    t->wide += l->n_wide;
    weights += n_blocks * BLOCK_BYTES;
    if (eti_is_last_slice(n_k, n_taps, &s)) break;
  }
  for (size_t h = 0; h < HALVES; h++)
    _mm256_storeu_si256((__m256i *)(void *)(record + h * sizeof *offsets), offsets[h]);
  memset(list, 0, (size_t)(record + schedule->record_bytes - (uint8_t *)list));
}

bool eti_xnn_q8_schedule_make__avx2(eti_xnn_q8_schedule *schedule, const void *packed,
                                    size_t panel_bytes, size_t n_panels, size_t n_k,
                                    size_t n_taps) {
  ET_ASSERT(schedule != NULL && packed != NULL && n_panels > 0 && n_k > 0 && n_taps > 0);
  ET_ASSERT(panel_bytes >= COLS * sizeof(int32_t) + n_taps * eti_padded_k(n_k) * COLS);
  const size_t all = n_panels * n_taps * (eti_padded_k(n_k) / 4);
  lists l;
  totals t = {0};
  *schedule = (eti_xnn_q8_schedule){.packed = packed,
                                    .panel_bytes = panel_bytes,
                                    .n_k = n_k,
                                    .n_taps = n_taps,
                                    .record_bytes = record_bytes(n_k, n_taps)};
  for (size_t i = 0; i < n_panels && t.wide <= all / SCATTERED; i++)
    make_record(schedule, (const int8_t *)packed + i * panel_bytes + COLS * sizeof(int32_t),
                schedule->records + i * schedule->record_bytes, &l, &t);
  schedule->pays = t.wide <= all / SCATTERED;
  schedule->has_wide = t.wide > 0;
  schedule->is_scattered =
      (t.in_pairs < t.singles ? t.in_pairs : t.singles) + t.wide > all / SCATTERED;
  return schedule->pays;
}
