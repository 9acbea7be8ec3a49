// row_softmax_scalar.c — the loops of row_softmax.body.h, compiled for the base instruction set.
#define ETI_ROW_SOFTMAX_TABLE eti_row_softmax_scalar
#include "kernels/micro/rows/row_softmax.body.h"
