// norm_avx512.c — the loops of norm.h compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/norm.h"

#include "runtime/et.h"

#define T float
#define SUFFIX f32__avx512
#include "kernels/micro/norm.body.h"
#define T double
#define SUFFIX f64__avx512
#include "kernels/micro/norm.body.h"

const eti_norm_micro eti_norm_avx512[ETI_NORM_TYPES] = {
    {ET_F32, 4, sum_f32__avx512, squares_f32__avx512, normalize_f32__avx512, affine_f32__avx512,
     affine_each_f32__avx512},
    {ET_F64, 8, sum_f64__avx512, squares_f64__avx512, normalize_f64__avx512, affine_f64__avx512,
     affine_each_f64__avx512},
};
