// qeltwise_avx2.c — the loops of qeltwise.h compiled with AVX2.
#include "kernels/micro/qeltwise.h"

#include "kernels/micro/qeltwise_vectors.h"

#define ISA(name) name##__avx2
#define QELTWISE_TABLE eti_qeltwise_avx2
#include "kernels/micro/qeltwise.body.h"
