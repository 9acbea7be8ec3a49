// row_pool_avx512.c — the loops of row_pool.h compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/pool/row_pool.h"

#include "kernels/contract.h"
#include "kernels/is_nan.h"
#include "runtime/et.h"

#include <string.h>

#define T float
#define U float
#define SUFFIX f32__avx512
#include "kernels/micro/pool/row_pool.body.h"
#define T double
#define U double
#define SUFFIX f64__avx512
#include "kernels/micro/pool/row_pool.body.h"
#define T int64_t
#define U uint64_t
#define SUFFIX i64__avx512
#include "kernels/micro/pool/row_pool.body.h"

const eti_row_pool_micro eti_row_pool_avx512[ETI_ROW_POOL_TYPES] = {
    ETI_ROW_POOL_ENTRY(ET_F32, float, f32__avx512),
    ETI_ROW_POOL_ENTRY(ET_F64, double, f64__avx512),
    ETI_ROW_POOL_ENTRY(ET_I64, int64_t, i64__avx512),
};
