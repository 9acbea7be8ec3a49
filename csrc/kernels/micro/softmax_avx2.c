// softmax_avx2.c — the loops of softmax.body.h, compiled for AVX2.
#define ETI_SOFTMAX_TABLE eti_softmax_avx2
#include "kernels/micro/softmax.body.h"
