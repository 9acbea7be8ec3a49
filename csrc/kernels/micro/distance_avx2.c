// distance_avx2.c — the distances of distance.body.h, compiled for AVX2.
#define ETI_DISTANCE_TABLE eti_distance_avx2
#include "kernels/micro/distance.body.h"
