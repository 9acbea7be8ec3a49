// distance_scalar.c — the distances of distance.body.h, compiled for the base instruction set.
#define ETI_DISTANCE_TABLE eti_distance_scalar
#include "kernels/micro/distance.body.h"
