// row_distance_avx512.c — the distances of row_distance.body.h, compiled for AVX-512 (F, BW, DQ,
// VL).
#define ETI_ROW_DISTANCE_TABLE eti_row_distance_avx512
#include "kernels/micro/rows/row_distance.body.h"
