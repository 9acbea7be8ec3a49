// linalg_avx2.c — the linear algebra of linalg.body.h, compiled for AVX2.
#define ETI_DENSE_TABLE eti_dense_avx2
#include "kernels/micro/linalg/linalg.body.h"
