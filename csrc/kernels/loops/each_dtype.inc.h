// each_dtype.inc.h — includes LOOP_BODY once per element type of the set LOOP_TYPES, with
//   CTYPE                       the C type of an element
//   UTYPE                       where its arithmetic is done: unsigned integers wrap
//   SUFFIX, DTYPE               the short name, the et_dtype
//   LOOP_IS_BOOL, LOOP_IS_FLOAT 1 or 0, for #if and for constant conditions
//   LOOP_IS_NEGATIVE(x)         x < 0, without a warning where that cannot be
// The halves are absent: they are computed in f32.
#if (LOOP_TYPES) & ET_TYPES_U8
#define CTYPE uint8_t
#define UTYPE uint32_t
#define SUFFIX u8
#define LOOP_IS_NEGATIVE(x) false
#define DTYPE ET_U8
#define LOOP_IS_BOOL 0
#define LOOP_IS_FLOAT 0
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
#if (LOOP_TYPES) & ET_TYPES_I8
#define CTYPE int8_t
#define UTYPE uint32_t
#define SUFFIX i8
#define LOOP_IS_NEGATIVE(x) ((x) < 0)
#define DTYPE ET_I8
#define LOOP_IS_BOOL 0
#define LOOP_IS_FLOAT 0
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
#if (LOOP_TYPES) & ET_TYPES_I16
#define CTYPE int16_t
#define UTYPE uint32_t
#define SUFFIX i16
#define LOOP_IS_NEGATIVE(x) ((x) < 0)
#define DTYPE ET_I16
#define LOOP_IS_BOOL 0
#define LOOP_IS_FLOAT 0
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
#if (LOOP_TYPES) & ET_TYPES_I32
#define CTYPE int32_t
#define UTYPE uint32_t
#define SUFFIX i32
#define LOOP_IS_NEGATIVE(x) ((x) < 0)
#define DTYPE ET_I32
#define LOOP_IS_BOOL 0
#define LOOP_IS_FLOAT 0
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
#if (LOOP_TYPES) & ET_TYPES_I64
#define CTYPE int64_t
#define UTYPE uint64_t
#define SUFFIX i64
#define LOOP_IS_NEGATIVE(x) ((x) < 0)
#define DTYPE ET_I64
#define LOOP_IS_BOOL 0
#define LOOP_IS_FLOAT 0
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
#if (LOOP_TYPES) & ET_TYPES_F32
#define CTYPE float
#define UTYPE float
#define SUFFIX f32
#define LOOP_IS_NEGATIVE(x) ((x) < 0)
#define DTYPE ET_F32
#define LOOP_IS_BOOL 0
#define LOOP_IS_FLOAT 1
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
#if (LOOP_TYPES) & ET_TYPES_F64
#define CTYPE double
#define UTYPE double
#define SUFFIX f64
#define LOOP_IS_NEGATIVE(x) ((x) < 0)
#define DTYPE ET_F64
#define LOOP_IS_BOOL 0
#define LOOP_IS_FLOAT 1
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
#if (LOOP_TYPES) & ET_TYPES_BOOL
#define CTYPE uint8_t
#define UTYPE uint32_t
#define SUFFIX b8
#define LOOP_IS_NEGATIVE(x) false
#define DTYPE ET_B8
#define LOOP_IS_BOOL 1
#define LOOP_IS_FLOAT 0
#include LOOP_BODY
#include "kernels/loops/undef_dtype.h"
#endif
