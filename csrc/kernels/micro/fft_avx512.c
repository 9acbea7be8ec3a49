// fft_avx512.c — the loops of fft.h compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/fft.h"

#include "runtime/et.h"

#define T float
#define SUFFIX f32__avx512
#include "kernels/micro/fft.body.h"
#define T double
#define SUFFIX f64__avx512
#include "kernels/micro/fft.body.h"

const eti_fft_micro eti_fft_avx512[ETI_FFT_TYPES] = {
    {ET_F32, 4, pass_f32__avx512, multiply_f32__avx512},
    {ET_F64, 8, pass_f64__avx512, multiply_f64__avx512},
};
