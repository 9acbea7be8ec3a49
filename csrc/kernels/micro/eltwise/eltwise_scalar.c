// eltwise_scalar.c — the f32 loops of eltwise.body.h, compiled for the base instruction set.
#define ETI_ELTWISE_TABLE eti_eltwise_scalar
#include "kernels/micro/eltwise/eltwise.body.h"
