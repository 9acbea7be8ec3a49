// order.c — see order.h. Floating-point keys are the bits: negative numbers in reverse, then the
// positive ones.
#include "kernels/order.h"

#include "runtime/half.h"

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

const eti_key_fn eti_order_keys[ET_DTYPE_COUNT] = {
    [ET_U8] = key_u8,   [ET_I8] = key_i8,     [ET_I16] = key_i16, [ET_I32] = key_i32,
    [ET_I64] = key_i64, [ET_F16] = key_f16,   [ET_F32] = key_f32, [ET_F64] = key_f64,
    [ET_B8] = key_b8,   [ET_BF16] = key_bf16, [ET_U16] = key_u16, [ET_U32] = key_u32,
    [ET_U64] = key_u64,
};
