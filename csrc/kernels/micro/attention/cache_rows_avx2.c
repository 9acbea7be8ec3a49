// cache_rows_avx2.c — the loops of cache_rows.h compiled with AVX2 and FMA.
#define SUFFIX avx2
#include "kernels/micro/attention/cache_rows.body.h"
