// row_softmax_avx2.c — the loops of row_softmax.body.h, compiled for AVX2.
#define ETI_ROW_SOFTMAX_TABLE eti_row_softmax_avx2
#include "kernels/micro/rows/row_softmax.body.h"
