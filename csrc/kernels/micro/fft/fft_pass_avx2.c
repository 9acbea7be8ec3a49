// fft_pass_avx2.c — the loops of fft_pass.h compiled with AVX2.
#include "kernels/micro/fft/fft_pass.h"
#include "kernels/stack.h"

#include "runtime/et.h"

#include <string.h>

#define T float
#define FFT_IS_F64 0
#define SUFFIX f32__avx2
#include "kernels/micro/fft/fft_pass.body.h"
#define T double
#define FFT_IS_F64 1
#define SUFFIX f64__avx2
#include "kernels/micro/fft/fft_pass.body.h"

const eti_fft_micro eti_fft_avx2[ETI_FFT_TYPES] = {
    ETI_FFT_ROW(ET_F32, float, f32__avx2),
    ETI_FFT_ROW(ET_F64, double, f64__avx2),
};
