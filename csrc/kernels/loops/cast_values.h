// cast_values.h — conversion of one value to each element type, from the three classes a source
// loads as: I (any integer or bool), F (f32 and the halves), D (f64). Float to integer truncates;
// out of range and NaN give what torch gives on x86-64: the most negative 32-bit (i8, i16, i32) or
// 64-bit (the others) integer, of which the low bits remain.
#ifndef ET_CAST_VALUES_H
#define ET_CAST_VALUES_H

#include "runtime/half.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct eti_c64 {
  float re, im;
} eti_c64;
typedef struct eti_c128 {
  double re, im;
} eti_c128;

// Converts some number for every x, so that loops need no branch.
static inline int32_t eti_f32_to_i32(float x) {
  const bool fits = x >= -0x1p31f && x < 0x1p31f;
  const int32_t whole = (int32_t)(fits ? x : 0.0f);
  return fits ? whole : INT32_MIN;
}
static inline int32_t eti_f64_to_i32(double x) {
  const bool fits = x > -0x1p31 - 1.0 && x < 0x1p31;
  const int32_t whole = (int32_t)(fits ? x : 0.0);
  return fits ? whole : INT32_MIN;
}
static inline int64_t eti_f64_to_i64(double x) {
  const bool fits = x >= -0x1p63 && x < 0x1p63;
  const int64_t whole = (int64_t)(fits ? x : 0.0);
  return fits ? whole : INT64_MIN;
}
static inline int64_t eti_f32_to_i64(float x) {
  const bool fits = x >= -0x1p63f && x < 0x1p63f;
  const int64_t whole = (int64_t)(fits ? x : 0.0f);
  return fits ? whole : INT64_MIN;
}
static inline uint64_t eti_f64_to_u64(double x) {
  const bool large = x >= 0x1p63 && x < 0x1p64;
  const uint64_t whole = (uint64_t)eti_f64_to_i64(large ? x - 0x1p63 : x);
  return large ? whole + ((uint64_t)1 << 63) : whole;
}

#define ETI_TO_b8_I(v) ((uint8_t)((v) != 0))
#define ETI_TO_b8_F(v) ((uint8_t)((v) != 0.0f))
#define ETI_TO_b8_D(v) ((uint8_t)((v) != 0.0))
#define ETI_TO_u8_I(v) ((uint8_t)(v))
#define ETI_TO_u8_F(v) ((uint8_t)eti_f32_to_i64(v))
#define ETI_TO_u8_D(v) ((uint8_t)eti_f64_to_i64(v))
#define ETI_TO_i8_I(v) ((int8_t)(v))
#define ETI_TO_i8_F(v) ((int8_t)eti_f32_to_i32(v))
#define ETI_TO_i8_D(v) ((int8_t)eti_f64_to_i32(v))
#define ETI_TO_i16_I(v) ((int16_t)(v))
#define ETI_TO_i16_F(v) ((int16_t)eti_f32_to_i32(v))
#define ETI_TO_i16_D(v) ((int16_t)eti_f64_to_i32(v))
#define ETI_TO_i32_I(v) ((int32_t)(v))
#define ETI_TO_i32_F(v) eti_f32_to_i32(v)
#define ETI_TO_i32_D(v) eti_f64_to_i32(v)
#define ETI_TO_i64_I(v) ((int64_t)(v))
#define ETI_TO_i64_F(v) eti_f32_to_i64(v)
#define ETI_TO_i64_D(v) eti_f64_to_i64(v)
#define ETI_TO_u16_I(v) ((uint16_t)(v))
#define ETI_TO_u16_F(v) ((uint16_t)eti_f32_to_i64(v))
#define ETI_TO_u16_D(v) ((uint16_t)eti_f64_to_i64(v))
#define ETI_TO_u32_I(v) ((uint32_t)(v))
#define ETI_TO_u32_F(v) ((uint32_t)eti_f32_to_i64(v))
#define ETI_TO_u32_D(v) ((uint32_t)eti_f64_to_i64(v))
#define ETI_TO_u64_I(v) ((uint64_t)(v))
#define ETI_TO_u64_F(v) eti_f64_to_u64((double)(v))
#define ETI_TO_u64_D(v) eti_f64_to_u64(v)
#define ETI_TO_f16_I(v) eti_f32_to_f16((float)(v))
#define ETI_TO_f16_F(v) eti_f32_to_f16(v)
#define ETI_TO_f16_D(v) eti_f32_to_f16((float)(v))
#define ETI_TO_bf16_I(v) eti_f32_to_bf16((float)(v))
#define ETI_TO_bf16_F(v) eti_f32_to_bf16(v)
#define ETI_TO_bf16_D(v) eti_f32_to_bf16((float)(v))
#define ETI_TO_f32_I(v) ((float)(v))
#define ETI_TO_f32_F(v) (v)
#define ETI_TO_f32_D(v) ((float)(v))
#define ETI_TO_f64_I(v) ((double)(v))
#define ETI_TO_f64_F(v) ((double)(v))
#define ETI_TO_f64_D(v) (v)

#endif  // ET_CAST_VALUES_H
