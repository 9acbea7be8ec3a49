// qeltwise_avx512.c — the loops of qeltwise.h compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/quantized/qeltwise.h"

#include "kernels/micro/quantized/qeltwise_vectors.h"

#define ISA(name) name##__avx512
#define QELTWISE_TABLE eti_qeltwise_avx512
#include "kernels/micro/quantized/qeltwise.body.h"
