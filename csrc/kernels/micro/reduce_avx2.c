// reduce_avx2.c — the reductions of reduce.body.h, compiled for AVX2.
#define ETI_REDUCE_TABLE eti_reduce_avx2
#include "kernels/micro/reduce.body.h"
