// row_norm_avx512.c — the loops of row_norm.h compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/rows/row_norm.h"

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f32.h"

#include "runtime/et.h"

#define T float
#define SUFFIX f32__avx512
#include "kernels/micro/rows/row_norm.body.h"
#define T double
#define SUFFIX f64__avx512
#include "kernels/micro/rows/row_norm.body.h"

const eti_row_norm_micro eti_row_norm_avx512[ETI_ROW_NORM_TYPES] = {
    ETI_ROW_NORM_ENTRY(ET_F32, float, f32__avx512),
    ETI_ROW_NORM_ENTRY(ET_F64, double, f64__avx512),
};
