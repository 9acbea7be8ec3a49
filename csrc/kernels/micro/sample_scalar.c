// sample_scalar.c — grid sampling of sample.body.h, compiled for the base instruction set.
#define ETI_SAMPLE_TABLE eti_sample_scalar
#include "kernels/micro/sample.body.h"
