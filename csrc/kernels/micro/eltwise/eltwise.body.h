// eltwise.body.h — the source of every variant of eltwise.h; the including file names its table,
// ETI_ELTWISE_TABLE. Plain C over lanes: the compiler vectorises it for the instruction set of the
// including file. No operation is reassociated or contracted, so every variant gives the same bits.
#include "kernels/loops/loop.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/micro/math/math_f64.h"
#include "kernels/micro/math/special_bessel.h"
#include "kernels/micro/math/special_f32.h"
#include "kernels/micro/math/special_f64.h"
#include "kernels/micro/math/special_zeta.h"

#define F(name) ETI_LOOP_NAME(eti_##name, SUFFIX)

#define LOOP_TYPES (ET_TYPES_INT | ET_TYPES_FLOAT)
#define LOOP_BODY "kernels/loops/by_vectors.body.h"
#include "kernels/loops/each_dtype.inc.h"
#undef LOOP_BODY
#undef LOOP_TYPES

#include "kernels/micro/eltwise/eltwise_unary.body.h"
#include "kernels/micro/eltwise/eltwise_binary.body.h"
#include "kernels/micro/eltwise/eltwise_int.body.h"
#include "kernels/micro/rows/rows_f32.body.h"

#define ETI_ROW_ENTRY(name) .name = ETI_KEPT(rows, name, name),
#define ETI_UNARY_ENTRY(name) .name = ETI_KEPT(unary, name, name##_f32),
#define ETI_BINARY_ENTRY(name) .name = ETI_KEPT(binary, name, name##_f32),
#define ETI_UNARY_F64(name) .name = ETI_KEPT(unary, name, ETI_BUILT(ET_F64, name##_f64)),
#define ETI_BINARY_F64(name) .name = ETI_KEPT(binary, name, ETI_BUILT(ET_F64, name##_f64)),
#define ETI_INT_LOOP(name, dtype, loop) ETI_KEPT(ints, name, ETI_BUILT(dtype, loop))
#define ETI_INT_ENTRY(name)                                                                \
  .name = {ETI_INT_LOOP(name, ET_U8, name##_u8), ETI_INT_LOOP(name, ET_I8, name##_i8),     \
           ETI_INT_LOOP(name, ET_I16, name##_i16), ETI_INT_LOOP(name, ET_I32, name##_i32), \
           ETI_INT_LOOP(name, ET_I64, name##_i64)},
const eti_eltwise ETI_ELTWISE_TABLE = {.unary = {ETI_UNARY_LIST(ETI_UNARY_ENTRY)},
                                       .binary = {ETI_BINARY_LIST(ETI_BINARY_ENTRY)},
                                       .unary_f64 = {ETI_UNARY_LIST(ETI_UNARY_F64)},
                                       .binary_f64 = {ETI_BINARY_LIST(ETI_BINARY_F64)},
                                       .ints = {ETI_INT_LIST(ETI_INT_ENTRY)},
                                       ETI_ROW_LIST(ETI_ROW_ENTRY)};
#undef ETI_ROW_ENTRY
#undef ETI_UNARY_ENTRY
#undef ETI_BINARY_ENTRY
#undef ETI_UNARY_F64
#undef ETI_BINARY_F64
#undef ETI_INT_LOOP
#undef ETI_INT_ENTRY
