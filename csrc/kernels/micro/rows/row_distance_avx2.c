// row_distance_avx2.c — the distances of row_distance.body.h, compiled for AVX2.
#define ETI_ROW_DISTANCE_TABLE eti_row_distance_avx2
#include "kernels/micro/rows/row_distance.body.h"
