// qeltwise_avx2.c — the loops of qeltwise.h compiled with AVX2.
#include "kernels/micro/quantized/qeltwise.h"

#include "kernels/micro/quantized/qeltwise_table_256.h"
#include "kernels/micro/quantized/qeltwise_vectors_256.h"

#define ISA(name) name##__avx2
#define QELTWISE_TABLE eti_qeltwise_avx2
#include "kernels/micro/quantized/qeltwise.body.h"
