// grid_sample_kernel_avx2.c — grid sampling of grid_sample_kernel.body.h, compiled for AVX2.
#define ETI_GRID_SAMPLE_TABLE eti_grid_sample_avx2
#include "kernels/micro/sample/grid_sample_kernel.body.h"
