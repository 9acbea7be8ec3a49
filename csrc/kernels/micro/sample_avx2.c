// sample_avx2.c — grid sampling of sample.body.h, compiled for AVX2.
#define ETI_SAMPLE_TABLE eti_sample_avx2
#include "kernels/micro/sample.body.h"
