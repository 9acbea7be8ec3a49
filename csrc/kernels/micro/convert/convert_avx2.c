// convert_avx2.c — the conversions of convert.body.h, compiled for AVX2.
#define ETI_CONVERT_TABLE eti_convert_avx2
#include "kernels/micro/convert/convert.body.h"
