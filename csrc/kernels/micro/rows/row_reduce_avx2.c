// row_reduce_avx2.c — the reductions of row_reduce.body.h, compiled for AVX2.
#define ETI_ROW_REDUCE_TABLE eti_row_reduce_avx2
#include "kernels/micro/rows/row_reduce.body.h"
