// pool_avx2.c — the loops of pool.h compiled with AVX2.
#include "kernels/micro/pool.h"

#include "runtime/et.h"

#define T float
#define U float
#define SUFFIX f32__avx2
#include "kernels/micro/pool.body.h"
#define T double
#define U double
#define SUFFIX f64__avx2
#include "kernels/micro/pool.body.h"
#define T int64_t
#define U uint64_t
#define SUFFIX i64__avx2
#include "kernels/micro/pool.body.h"

const eti_pool_micro eti_pool_avx2[ETI_POOL_TYPES] = {
    {ET_F32, 4, max_f32__avx2, merge_f32__avx2, add_f32__avx2, fold_f32__avx2},
    {ET_F64, 8, max_f64__avx2, merge_f64__avx2, add_f64__avx2, fold_f64__avx2},
    {ET_I64, 8, max_i64__avx2, merge_i64__avx2, add_i64__avx2, fold_i64__avx2},
};
