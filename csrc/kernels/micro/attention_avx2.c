// attention_avx2.c — the loops of attention.h compiled with AVX2 and FMA.
#include "kernels/micro/attention.h"

#include "kernels/loops/loop.h"
#include "kernels/micro/math_f32.h"
#include "kernels/micro/math_f64.h"
#include "runtime/et.h"

#define T float
#define SUFFIX f32__avx2
#define MATH f32
#define WIDTH_0 16
#define WIDTH_1 ETI_ATTENTION_QUERIES
#include "kernels/micro/attention.body.h"
#define T double
#define SUFFIX f64__avx2
#define MATH f64
#define WIDTH_0 8
#define WIDTH_1 (ETI_ATTENTION_QUERIES / 2)
#include "kernels/micro/attention.body.h"

const eti_attention_micro eti_attention_avx2[ETI_ATTENTION_TYPES] = {
    {ET_F32,
     4,
     {16, 32},
     dots_f32__avx2,
     soften_f32__avx2,
     add_f32__avx2,
     add_keys_f32__avx2,
     limit_f32__avx2,
     scale_f32__avx2},
    {ET_F64,
     8,
     {8, 16},
     dots_f64__avx2,
     soften_f64__avx2,
     add_f64__avx2,
     add_keys_f64__avx2,
     limit_f64__avx2,
     scale_f64__avx2},
};
