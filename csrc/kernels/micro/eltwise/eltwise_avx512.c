// eltwise_avx512.c — the f32 loops of eltwise.body.h, compiled for AVX-512 (F, BW, DQ, VL).
#define ETI_ELTWISE_TABLE eti_eltwise_avx512
#include "kernels/micro/eltwise/eltwise.body.h"
