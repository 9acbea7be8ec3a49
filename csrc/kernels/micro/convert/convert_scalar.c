// convert_scalar.c — the conversions of convert.body.h, compiled for the base instruction set.
#define ETI_CONVERT_TABLE eti_convert_scalar
#include "kernels/micro/convert/convert.body.h"
