// sort_key.c — see sort_key.h. Floating-point keys are the bits of the value, reversed for negative
// numbers.
#include "kernels/lib/sort_key.h"

#include "kernels/stack.h"
#include "runtime/half.h"

#include <stdbool.h>
#include <string.h>

static uint64_t key_float(float v) {
  uint32_t bits;
  if (v != v) return UINT32_MAX;
  v += 0.0f;  // -0 becomes +0
  memcpy(&bits, &v, sizeof bits);
  return (bits >> 31) != 0 ? ~bits : bits | (UINT32_C(1) << 31);
}

static uint64_t key_double(double v) {
  uint64_t bits;
  if (v != v) return UINT64_MAX;
  v += 0.0;
  memcpy(&bits, &v, sizeof bits);
  return (bits >> 63) != 0 ? ~bits : bits | (UINT64_C(1) << 63);
}

static uint64_t key_signed(int32_t v) {
  return (uint32_t)v ^ (UINT32_C(1) << 31);
}

static uint64_t key_u8(const void *p) {
  return *(const uint8_t *)p;
}
static uint64_t key_b8(const void *p) {
  return *(const uint8_t *)p != 0;
}
static uint64_t key_u16(const void *p) {
  return *(const uint16_t *)p;
}
static uint64_t key_u32(const void *p) {
  return *(const uint32_t *)p;
}
static uint64_t key_u64(const void *p) {
  return *(const uint64_t *)p;
}
static uint64_t key_i8(const void *p) {
  return key_signed(*(const int8_t *)p);
}
static uint64_t key_i16(const void *p) {
  return key_signed(*(const int16_t *)p);
}
static uint64_t key_i32(const void *p) {
  return key_signed(*(const int32_t *)p);
}
static uint64_t key_i64(const void *p) {
  return (uint64_t)*(const int64_t *)p ^ (UINT64_C(1) << 63);
}
static uint64_t key_f16(const void *p) {
  return key_float(eti_f16_to_f32(*(const uint16_t *)p));
}
static uint64_t key_bf16(const void *p) {
  return key_float(eti_bf16_to_f32(*(const uint16_t *)p));
}
static uint64_t key_f32(const void *p) {
  return key_float(*(const float *)p);
}
static uint64_t key_f64(const void *p) {
  return key_double(*(const double *)p);
}

const eti_key_fn eti_sort_keys[ET_DTYPE_COUNT] = {
    [ET_U8] = key_u8,   [ET_I8] = key_i8,     [ET_I16] = key_i16, [ET_I32] = key_i32,
    [ET_I64] = key_i64, [ET_F16] = key_f16,   [ET_F32] = key_f32, [ET_F64] = key_f64,
    [ET_B8] = key_b8,   [ET_BF16] = key_bf16, [ET_U16] = key_u16, [ET_U32] = key_u32,
    [ET_U64] = key_u64,
};

// ---- many at a time

static inline __attribute__((always_inline)) void row_of(const char *p, ptrdiff_t stride, size_t n,
                                                         uint64_t *keys, const eti_key_fn key,
                                                         const ptrdiff_t bytes) {
  if (stride == bytes) {
    for (size_t i = 0; i < n; i++) keys[i] = key(p + (ptrdiff_t)i * bytes);
  } else {
    for (size_t i = 0; i < n; i++) keys[i] = key(p + (ptrdiff_t)i * stride);
  }
}

static void row_u8(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_u8, 1);
}
static void row_b8(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_b8, 1);
}
static void row_u16(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_u16, 2);
}
static void row_u32(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_u32, 4);
}
static void row_u64(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_u64, 8);
}
static void row_i8(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_i8, 1);
}
static void row_i16(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_i16, 2);
}
static void row_i32(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_i32, 4);
}
static void row_i64(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_i64, 8);
}
static void row_f16(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_f16, 2);
}
static void row_bf16(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_bf16, 2);
}
static void row_f32(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_f32, 4);
}
static void row_f64(const char *p, ptrdiff_t stride, size_t n, uint64_t *keys) {
  row_of(p, stride, n, keys, key_f64, 8);
}

const eti_keys_fn eti_sort_key_rows[ET_DTYPE_COUNT] = {
    [ET_U8] = row_u8,   [ET_B8] = row_b8,   [ET_U16] = row_u16,   [ET_U32] = row_u32,
    [ET_U64] = row_u64, [ET_I8] = row_i8,   [ET_I16] = row_i16,   [ET_I32] = row_i32,
    [ET_I64] = row_i64, [ET_F16] = row_f16, [ET_BF16] = row_bf16, [ET_F32] = row_f32,
    [ET_F64] = row_f64,
};

// ---- sorting

enum { DIGITS = 256, PLACES = 4, FEW = 48 };

static void sort_few(uint64_t *a, size_t n) {
  for (size_t i = 1; i < n; i++) {
    const uint64_t moved = a[i];
    size_t at = i;
    for (; at > 0 && a[at - 1] > moved; at--) a[at] = a[at - 1];
    a[at] = moved;
  }
}

enum { COUNTED = ETI_ON_STACK(PLACES, 1) };  // places whose digits one pass counts

static void count_digits(const uint64_t *a, size_t n, unsigned first,
                         uint32_t next[COUNTED][DIGITS]) {
  memset(next, 0, COUNTED * sizeof *next);
  for (size_t i = 0; i < n; i++) {
    for (unsigned place = 0; place < COUNTED; place++)
      next[place][a[i] >> (32 + 8 * (first + place)) & (DIGITS - 1)]++;
  }
}

uint64_t *eti_sort_by_key(uint64_t *a, uint64_t *b, size_t n) {
  uint32_t next[COUNTED][DIGITS];
  for (unsigned place = 0; place < PLACES && n > 0; place++) {
    if (place % COUNTED == 0) count_digits(a, n, place, next);
    const unsigned shift = 32 + 8 * place;
    uint32_t *const at = next[place % COUNTED];
    if (at[a[0] >> shift & (DIGITS - 1)] == n) continue;
    for (uint32_t d = 0, sum = 0; d < DIGITS; d++) {
      const uint32_t count = at[d];
      at[d] = sum;
      sum += count;
    }
    for (size_t i = 0; i < n; i++) b[at[a[i] >> shift & (DIGITS - 1)]++] = a[i];
    uint64_t *const sorted = b;
    b = a;
    a = sorted;
  }
  return a;
}

uint64_t *eti_sort_positions(uint8_t dtype, const char *p, ptrdiff_t stride, size_t n,
                             uint64_t flip, uint64_t *work) {
  const bool wide = et_dtype_bytes((et_dtype)dtype) == 8;
  const eti_keys_fn keys = eti_sort_key_rows[dtype];
  keys(p, stride, n, work);
  for (size_t i = 0; i < n; i++) work[i] = (work[i] ^ flip) << 32 | i;
  if (!wide && n <= FEW) {
    sort_few(work, n);
    return work;
  }
  uint64_t *const half = eti_sort_by_key(work, work + n, n);
  if (!wide) return half;
  const eti_key_fn key = eti_sort_keys[dtype];
  for (size_t i = 0; i < n; i++) {  // sorted by the lower half so far, now by the upper one
    const uint32_t at = (uint32_t)half[i];
    half[i] = ((key(p + (ptrdiff_t)at * stride) ^ flip) >> 32) << 32 | at;
  }
  return eti_sort_by_key(half, half == work ? work + n : work, n);
}
