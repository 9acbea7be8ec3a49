// gemm_scalar.c — the micro-kernel in plain C: the specification that every other variant equals
// bit for bit, and the fallback of machines without one. fma() is the C library's, which is exact.
#include "kernels/micro/gemm/gemm.h"

#include <math.h>

#include "kernels/contract.h"

#define T float
#define SUFFIX f32__scalar
#define VEC float
#define LANES 1
#define MR 4
#define ROWS_MR 4
#define NV 2
#define V_SET1(x) (x)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_FMA(a, b, c) fmaf(a, b, c)
#define V_ADD(a, b) ((a) + (b))
#define V_LIMIT(v, low, high, plus) eti_clamp(v, low, high, plus)
#define V_LOAD_N(p, n) (*(p))
#define V_STORE_N(p, v, n) (*(p) = (v))
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T double
#define SUFFIX f64__scalar
#define VEC double
#define LANES 1
#define MR 4
#define ROWS_MR 4
#define NV 2
#define V_SET1(x) (x)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_FMA(a, b, c) fma(a, b, c)
#define V_ADD(a, b) ((a) + (b))
#define V_LOAD_N(p, n) (*(p))
#define V_STORE_N(p, v, n) (*(p) = (v))
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

// Unsigned, so that overflow wraps instead of being undefined.
#define T uint32_t
#define SUFFIX i32__scalar
#define VEC uint32_t
#define LANES 1
#define MR 4
#define ROWS_MR 4
#define NV 2
#define V_SET1(x) (x)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_ADD(a, b) ((a) + (b))
#define V_LOAD_N(p, n) (*(p))
#define V_STORE_N(p, v, n) (*(p) = (v))
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T uint64_t
#define SUFFIX i64__scalar
#define VEC uint64_t
#define LANES 1
#define MR 4
#define ROWS_MR 4
#define NV 2
#define V_SET1(x) (x)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_ADD(a, b) ((a) + (b))
#define V_LOAD_N(p, n) (*(p))
#define V_STORE_N(p, v, n) (*(p) = (v))
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

const eti_gemm_kernel eti_gemm_scalar[ETI_ACC_COUNT] = {
    [ETI_ACC_F32] = {ET_F32, 4, 4, 2, 4, ETI_GEMM_BUILT(F32, tile_f32__scalar),
                     ETI_GEMM_BUILT(F32, tile_rows_f32__scalar),
                     ETI_GEMM_BUILT(F32, walk_rows_f32__scalar),
                     ETI_GEMM_BUILT(F32, pack_rows_f32__scalar),
                     ETI_GEMM_BUILT(F32, tile_row_f32__scalar),
                     ETI_GEMM_BUILT(F32, limit_f32__scalar)},
    [ETI_ACC_F64] = {ET_F64, 8, 4, 2, 4, ETI_GEMM_BUILT(F64, tile_f64__scalar),
                     ETI_GEMM_BUILT(F64, tile_rows_f64__scalar),
                     ETI_GEMM_BUILT(F64, walk_rows_f64__scalar),
                     ETI_GEMM_BUILT(F64, pack_rows_f64__scalar),
                     ETI_GEMM_BUILT(F64, tile_row_f64__scalar), NULL},
    [ETI_ACC_I32] = {ET_I32, 4, 4, 2, 4, ETI_GEMM_BUILT(I32, tile_i32__scalar),
                     ETI_GEMM_BUILT(I32, tile_rows_i32__scalar),
                     ETI_GEMM_BUILT(I32, walk_rows_i32__scalar),
                     ETI_GEMM_BUILT(I32, pack_rows_i32__scalar),
                     ETI_GEMM_BUILT(I32, tile_row_i32__scalar), NULL},
    [ETI_ACC_I64] = {ET_I64, 8, 4, 2, 4, ETI_GEMM_BUILT(I64, tile_i64__scalar),
                     ETI_GEMM_BUILT(I64, tile_rows_i64__scalar),
                     ETI_GEMM_BUILT(I64, walk_rows_i64__scalar),
                     ETI_GEMM_BUILT(I64, pack_rows_i64__scalar),
                     ETI_GEMM_BUILT(I64, tile_row_i64__scalar), NULL},
};
