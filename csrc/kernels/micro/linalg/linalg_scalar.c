// linalg_scalar.c — the linear algebra of linalg.body.h, compiled for the base instruction set.
#define ETI_LINALG_TABLE eti_linalg_scalar
#include "kernels/micro/linalg/linalg.body.h"
