// grid_sample_kernel_avx512.c — grid sampling of grid_sample_kernel.body.h, compiled for AVX-512
// (F, BW, DQ, VL).
#define ETI_GRID_SAMPLE_TABLE eti_grid_sample_avx512
#include "kernels/micro/sample/grid_sample_kernel.body.h"
