// convert_avx512.c — the conversions of convert.body.h, compiled for AVX-512 (F, BW, DQ, VL).
#define ETI_CONVERT_TABLE eti_convert_avx512
#include "kernels/micro/convert/convert.body.h"
