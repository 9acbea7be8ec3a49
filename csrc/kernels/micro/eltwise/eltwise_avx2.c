// eltwise_avx2.c — the f32 loops of eltwise.body.h, compiled for AVX2, FMA and F16C.
#define ETI_ELTWISE_TABLE eti_eltwise_avx2
#include "kernels/micro/eltwise/eltwise.body.h"
