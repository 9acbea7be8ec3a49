// dense_scalar.c — the linear algebra of dense.body.h, compiled for the base instruction set.
#define ETI_DENSE_TABLE eti_dense_scalar
#include "kernels/micro/dense.body.h"
