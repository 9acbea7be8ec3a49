// qeltwise_avx512.c — the loops of qeltwise.h with AVX-512 F, BW, DQ, VL: two operands with 512-bit
// vectors, tables with those of AVX2.
#include "kernels/micro/quantized/qeltwise.h"
#include "kernels/micro/quantized/qeltwise_table_256.h"
#include "kernels/micro/quantized/qeltwise_vectors_512.h"

#define ISA(name) name##__avx512
#define QELTWISE_TABLE eti_qeltwise_avx512
#define run_vectors run_wide_vectors
#include "kernels/micro/quantized/qeltwise.body.h"
