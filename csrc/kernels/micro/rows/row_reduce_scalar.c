// row_reduce_scalar.c — the reductions of row_reduce.body.h, compiled for the base instruction set.
#define ETI_ROW_REDUCE_TABLE eti_row_reduce_scalar
#include "kernels/micro/rows/row_reduce.body.h"
