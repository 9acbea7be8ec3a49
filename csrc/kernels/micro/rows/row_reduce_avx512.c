// row_reduce_avx512.c — the reductions of row_reduce.body.h, compiled for AVX-512 (F, BW, DQ, VL).
#define ETI_ROW_REDUCE_TABLE eti_row_reduce_avx512
#include "kernels/micro/rows/row_reduce.body.h"
