// each_real.inc.h — includes FROM_BODY once for each real type, described by FROM (short name),
// FROM_TYPE, FROM_CLASS (I, F or D: the class its values compute in), FROM_LOAD(x) and, for f32
// alone, FROM_IS_F32. f16 is left out if FROM_NO_F16 is defined.
#define FROM b8
#define FROM_TYPE uint8_t
#define FROM_CLASS I
#define FROM_LOAD(x) ((x) != 0)
#include FROM_BODY
#define FROM u8
#define FROM_TYPE uint8_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM i8
#define FROM_TYPE int8_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM i16
#define FROM_TYPE int16_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM i32
#define FROM_TYPE int32_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM i64
#define FROM_TYPE int64_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM u16
#define FROM_TYPE uint16_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM u32
#define FROM_TYPE uint32_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM u64
#define FROM_TYPE uint64_t
#define FROM_CLASS I
#define FROM_LOAD(x) (x)
#include FROM_BODY
#ifndef FROM_NO_F16
#define FROM f16
#define FROM_TYPE uint16_t
#define FROM_CLASS F
#define FROM_LOAD(x) eti_f16_to_f32(x)
#include FROM_BODY
#endif
#define FROM bf16
#define FROM_TYPE uint16_t
#define FROM_CLASS F
#define FROM_LOAD(x) eti_bf16_to_f32(x)
#include FROM_BODY
#define FROM f64
#define FROM_TYPE double
#define FROM_CLASS D
#define FROM_LOAD(x) (x)
#include FROM_BODY
#define FROM f32
#define FROM_TYPE float
#define FROM_CLASS F
#define FROM_LOAD(x) (x)
#define FROM_IS_F32
#include FROM_BODY
#undef FROM_BODY
#undef FROM_NO_F16
#undef FROM_IS_F32
