// attention_avx512.c — the loops of attention.h compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/attention/attention.h"

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/stack.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/micro/math/math_f64.h"
#include "runtime/et.h"

#define T float
#define SUFFIX f32__avx512
#define MATH f32
#define WIDTH_0 16
#define WIDTH_1 ETI_ATTENTION_QUERIES
#include "kernels/micro/attention/attention.body.h"
#define T double
#define SUFFIX f64__avx512
#define MATH f64
#define WIDTH_0 8
#define WIDTH_1 (ETI_ATTENTION_QUERIES / 2)
#include "kernels/micro/attention/attention.body.h"

const eti_attention_micro eti_attention_avx512[ETI_ATTENTION_TYPES] = {
    ETI_ATTENTION_ROW(ET_F32, float, 16, 32, f32__avx512),
    ETI_ATTENTION_ROW(ET_F64, double, 8, 16, f64__avx512),
};
