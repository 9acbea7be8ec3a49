// cache_rows_avx512.c — the loops of cache_rows.h compiled with AVX-512 F, BW, DQ, VL.
#define SUFFIX avx512
#include "kernels/micro/attention/cache_rows.body.h"
