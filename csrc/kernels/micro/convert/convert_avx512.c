// convert_avx512.c — the conversions of convert.body.h, compiled for AVX-512 (F, BW, DQ, VL).
#include "kernels/micro/eltwise/eltwise.h"

#define ETI_CONVERT_TABLE eti_convert_avx512
#define ETI_CONVERT_HALVES eti_eltwise_avx512
#include "kernels/micro/convert/convert.body.h"
