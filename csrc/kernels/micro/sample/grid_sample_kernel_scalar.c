// grid_sample_kernel_scalar.c — grid sampling of grid_sample_kernel.body.h, compiled for the base
// instruction set.
#define ETI_GRID_SAMPLE_TABLE eti_grid_sample_scalar
#include "kernels/micro/sample/grid_sample_kernel.body.h"
