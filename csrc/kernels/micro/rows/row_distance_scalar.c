// row_distance_scalar.c — the distances of row_distance.body.h, compiled for the base instruction
// set.
#define ETI_ROW_DISTANCE_TABLE eti_row_distance_scalar
#include "kernels/micro/rows/row_distance.body.h"
