// linalg_scalar.c — the linear algebra of linalg.body.h, compiled for the base instruction set.
#define ETI_DENSE_TABLE eti_dense_scalar
#include "kernels/micro/linalg/linalg.body.h"
