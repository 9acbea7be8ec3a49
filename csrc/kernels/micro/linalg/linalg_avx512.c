// linalg_avx512.c — the linear algebra of linalg.body.h, compiled for AVX-512 (F, BW, DQ, VL).
#define ETI_LINALG_TABLE eti_linalg_avx512
#include "kernels/micro/linalg/linalg.body.h"
