// distance_avx512.c — the distances of distance.body.h, compiled for AVX-512 (F, BW, DQ, VL).
#define ETI_DISTANCE_TABLE eti_distance_avx512
#include "kernels/micro/distance.body.h"
