// row_softmax_avx512.c — the loops of row_softmax.body.h, compiled for AVX-512 (F, BW, DQ, VL).
#define ETI_ROW_SOFTMAX_TABLE eti_row_softmax_avx512
#include "kernels/micro/rows/row_softmax.body.h"
