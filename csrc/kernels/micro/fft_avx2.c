// fft_avx2.c — the loops of fft.h compiled with AVX2.
#include "kernels/micro/fft.h"

#include "runtime/et.h"

#define T float
#define SUFFIX f32__avx2
#include "kernels/micro/fft.body.h"
#define T double
#define SUFFIX f64__avx2
#include "kernels/micro/fft.body.h"

const eti_fft_micro eti_fft_avx2[ETI_FFT_TYPES] = {
    {ET_F32, 4, pass_f32__avx2, multiply_f32__avx2},
    {ET_F64, 8, pass_f64__avx2, multiply_f64__avx2},
};
