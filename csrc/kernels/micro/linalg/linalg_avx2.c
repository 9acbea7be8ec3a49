// linalg_avx2.c — the linear algebra of linalg.body.h, compiled for AVX2.
#define ETI_LINALG_TABLE eti_linalg_avx2
#include "kernels/micro/linalg/linalg.body.h"
