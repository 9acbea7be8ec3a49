// convert_scalar.c — the conversions of convert.body.h, compiled for the base instruction set.
#include "kernels/micro/eltwise/eltwise.h"

#define ETI_CONVERT_TABLE eti_convert_scalar
#define ETI_CONVERT_HALVES eti_eltwise_scalar
#include "kernels/micro/convert/convert.body.h"
