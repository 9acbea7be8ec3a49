// machine_rates.c — the measurements of machine_rates.h: loops of machine_rates.body.h for each
// instruction set, run for equal times on every thread.
#include "tools/machine_rates.h"

#include "kernels/micro/isa_select.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#if ETI_HAVE_X86
#include <immintrin.h>

#include "kernels/micro/amx_tiles.h"
#elif ETI_HAVE_NEON
#include <arm_neon.h>
#endif

enum {
  CHAINS = 12,        // independent sums: more than latency times units on known CPUs
  READ_CHAINS = 8,    // the same for additions
  READ_FLOATS = 128,  // every reading loop reads a multiple of this
  UNIT_BYTES = 2 * READ_FLOATS * sizeof(float),  // the minimum per thread
  ROUNDS = 7,
};
#define ROUND_NS 600000.0

typedef float (*fma_loop)(size_t steps);
typedef uint32_t (*dot_loop)(size_t steps);
typedef float (*read_loop)(const float *p, size_t n);

#if ETI_HAVE_X86
#define SUFFIX avx512
#define TARGET __attribute__((target("avx512f")))
#define VECTOR __m512
#define LANES 16
#define SET1 _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define ADD _mm512_add_ps
#define LOAD _mm512_loadu_ps
#include "tools/machine_rates.body.h"

#define SUFFIX avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR __m256
#define LANES 8
#define SET1 _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define ADD _mm256_add_ps
#define LOAD _mm256_loadu_ps
#include "tools/machine_rates.body.h"
#elif ETI_HAVE_NEON
#define SUFFIX neon
#define TARGET
#define VECTOR float32x4_t
#define LANES 4
#define SET1 vdupq_n_f32
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define ADD vaddq_f32
#define LOAD vld1q_f32
#include "tools/machine_rates.body.h"
#endif

#define SUFFIX scalar
#define TARGET
#define VECTOR float
#define LANES 1
#define SET1(x) (x)
#define FMA(a, b, c) ((a) * (b) + (c))  // without FMA instructions, fmaf is a slow library call
#define ADD(a, b) ((a) + (b))
#define LOAD(p) (*(p))
#include "tools/machine_rates.body.h"

// ---- products of bytes

#if ETI_HAVE_X86
#define SUFFIX avx512_vnni
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define VECTOR __m512i
#define REGISTER "v"
#define SET1 _mm512_set1_epi32
#define ADD _mm512_add_epi32
#define DOT(sum, x) _mm512_dpbusd_epi32(sum, x, x)
#include "tools/machine_products.body.h"

#define SUFFIX avx_vnni
#define TARGET __attribute__((target("avx2,avxvnni")))
#define VECTOR __m256i
#define REGISTER "x"
#define SET1 _mm256_set1_epi32
#define ADD _mm256_add_epi32
#define DOT(sum, x) _mm256_dpbusd_avx_epi32(sum, x, x)
#include "tools/machine_products.body.h"

// 12 products of tiles a step, as many as the loops over vectors have, in six tiles of sums.
static __attribute__((target("amx-tile,amx-int8"))) uint32_t dot_loop_amx(size_t steps) {
  amx_config sizes = {.palette = 1};
  for (size_t tile = 0; tile < 8; tile++) amx_set(&sizes, tile, AMX_ROWS, AMX_BYTES);
  amx_begin(&sizes);
  for (; steps > 0; steps--) {
    for (size_t i = 0; i < CHAINS / 6; i++) {
      AMX_DOT_U8_I8(0, 6, 7);
      AMX_DOT_U8_I8(1, 6, 7);
      AMX_DOT_U8_I8(2, 6, 7);
      AMX_DOT_U8_I8(3, 6, 7);
      AMX_DOT_U8_I8(4, 6, 7);
      AMX_DOT_U8_I8(5, 6, 7);
    }
  }
  amx_end();
  return 0;
}

// Without a dot product, pairs in sums of 16 bits.
#define SUFFIX avx512
#define TARGET __attribute__((target("avx512f,avx512bw")))
#define VECTOR __m512i
#define REGISTER "v"
#define SET1 _mm512_set1_epi32
#define ADD _mm512_add_epi32
#define DOT(sum, x) _mm512_add_epi16(sum, _mm512_maddubs_epi16(x, x))
#include "tools/machine_products.body.h"

#define SUFFIX avx2
#define TARGET __attribute__((target("avx2")))
#define VECTOR __m256i
#define REGISTER "x"
#define SET1 _mm256_set1_epi32
#define ADD _mm256_add_epi32
#define DOT(sum, x) _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, x))
#include "tools/machine_products.body.h"
#elif ETI_HAVE_NEON
#define AS_BYTES vreinterpretq_s8_s32

#define SUFFIX neon_i8mm
#define TARGET __attribute__((target("arch=armv8.2-a+i8mm")))
#define VECTOR int32x4_t
#define REGISTER "w"
#define SET1 vdupq_n_s32
#define ADD vaddq_s32
#define DOT(sum, x) vmmlaq_s32(sum, AS_BYTES(x), AS_BYTES(x))
#include "tools/machine_products.body.h"

#define SUFFIX neon_dot
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#define VECTOR int32x4_t
#define REGISTER "w"
#define SET1 vdupq_n_s32
#define ADD vaddq_s32
#define DOT(sum, x) vdotq_s32(sum, AS_BYTES(x), AS_BYTES(x))
#include "tools/machine_products.body.h"

#define SUFFIX neon
#define TARGET
#define VECTOR int32x4_t
#define REGISTER "w"
#define SET1 vdupq_n_s32
#define ADD vaddq_s32
#define DOT(sum, x)                                                                             \
  vreinterpretq_s32_s16(vmlal_high_s8(                                                          \
      vmlal_s8(vreinterpretq_s16_s32(sum), vget_low_s8(AS_BYTES(x)), vget_low_s8(AS_BYTES(x))), \
      AS_BYTES(x), AS_BYTES(x)))
#include "tools/machine_products.body.h"
#endif

#define SUFFIX scalar
#define TARGET
#define VECTOR uint32_t
#define REGISTER "r"
#define SET1(x) ((uint32_t)(x))
#define ADD(a, b) ((a) + (b))
#define DOT(sum, x) ((sum) + (uint32_t)((int8_t)(x) * (int8_t)(x)))
#include "tools/machine_products.body.h"

typedef struct loops {
  size_t lanes;
  fma_loop fma;
  read_loop read;
  size_t products;  // of bytes, in a DOT of `dot`
  dot_loop dot;
} loops;

static void set_products(loops *l) {
  l->products = 1;
  l->dot = dot_loop_scalar;
#if ETI_HAVE_X86
  const eti_isa isa = eti_cpu_isa();
  const eti_dot dot = eti_cpu_dot();
  if (isa == ETI_ISA_SCALAR) return;
  l->products = isa == ETI_ISA_AVX512 ? 64 : 32;
  if (dot == ETI_DOT_AMX) l->products = AMX_ROWS * AMX_ROWS * AMX_BYTES;
  l->dot = dot == ETI_DOT_AMX           ? dot_loop_amx
           : dot == ETI_DOT_AVX512_VNNI ? dot_loop_avx512_vnni
           : dot == ETI_DOT_AVX_VNNI    ? dot_loop_avx_vnni
           : isa == ETI_ISA_AVX512      ? dot_loop_avx512
                                        : dot_loop_avx2;
#elif ETI_HAVE_NEON
  const eti_dot dot = eti_cpu_dot();
  if (eti_cpu_isa() != ETI_ISA_NEON) return;
  l->products = dot == ETI_DOT_I8MM ? 32 : 16;
  l->dot = dot == ETI_DOT_I8MM   ? dot_loop_neon_i8mm
           : dot == ETI_DOT_NEON ? dot_loop_neon_dot
                                 : dot_loop_neon;
#endif
}

static loops loops_of_this_cpu(void) {
  loops l = {.lanes = 1, .fma = fma_loop_scalar, .read = read_loop_scalar};
  switch (eti_cpu_isa()) {
#if ETI_HAVE_X86
    case ETI_ISA_AVX512:
      l = (loops){.lanes = 16, .fma = fma_loop_avx512, .read = read_loop_avx512};
      break;
    case ETI_ISA_AVX2:
      l = (loops){.lanes = 8, .fma = fma_loop_avx2, .read = read_loop_avx2};
      break;
#elif ETI_HAVE_NEON
    case ETI_ISA_NEON:
      l = (loops){.lanes = 4, .fma = fma_loop_neon, .read = read_loop_neon};
      break;
#endif
    default:
      break;
  }
  set_products(&l);
  return l;
}

// ---- rounds of equal work on every thread

typedef enum work_kind { WORK_FMA, WORK_DOT, WORK_READ, WORK_WRITE, WORK_COPY } work_kind;

typedef struct work {
  loops loops;
  work_kind kind;
  char *data;    // of all threads
  size_t bytes;  // of one thread, a multiple of UNIT_BYTES
  size_t repeat;
} work;

static void do_work(void *ctx, size_t i_thread) {
  const work *const w = ctx;
  char *const data = w->data + i_thread * w->bytes;
  const size_t half = w->bytes / 2;
  volatile float sink = 0.0f;  // keeps the compiler from dropping the loops
  if (w->kind == WORK_FMA) sink = w->loops.fma(w->repeat);
  if (w->kind == WORK_DOT) sink = (float)w->loops.dot(w->repeat);
  for (size_t r = 0; r < w->repeat && w->kind >= WORK_READ; r++) {
    if (w->kind == WORK_READ) sink = w->loops.read((const float *)data, w->bytes / sizeof(float));
    if (w->kind == WORK_WRITE) memset(data, 0, w->bytes);
    if (w->kind == WORK_COPY) memcpy(data, data + half, half);
    atomic_signal_fence(memory_order_seq_cst);  // every repetition counts
  }
  (void)sink;
}

static double nanoseconds(const et_pool *pool, size_t n_threads, work *w) {
  const uint64_t start = et_clock_ns();
  if (n_threads == 1) {
    do_work(w, 0);
  } else {
    pool->run(pool->ctx, do_work, w, n_threads);
  }
  return (double)(et_clock_ns() - start) + 1.0;
}

// Other programs can only make a round slower, so the fastest one counts.
static double fastest(const et_pool *pool, size_t n_threads, work *w, int rounds) {
  double best = nanoseconds(pool, n_threads, w);
  for (int round = 1; round < rounds; round++) {
    const double ns = nanoseconds(pool, n_threads, w);
    if (ns < best) best = ns;
  }
  return best;
}

// Repetitions a second of the work on every thread at once. Rounds are long enough for the clock
// and for waking threads, and short enough that some are not interrupted.
static double best_rate(const et_pool *pool, size_t n_threads, work *w) {
  w->repeat = 1;
  for (double ns; (ns = fastest(pool, n_threads, w, 2)) < ROUND_NS / 2;)
    w->repeat *= ns < ROUND_NS / 16 ? 8 : 2;
  return (double)w->repeat / fastest(pool, n_threads, w, ROUNDS) * 1e9;
}

// ---- rates

static eti_memory_rates rates_within(const et_pool *pool, size_t n_threads, work *w, size_t bytes) {
  const size_t each = bytes / n_threads / UNIT_BYTES * UNIT_BYTES;
  w->bytes = each > 0 ? each : UNIT_BYTES;
  const double moved = (double)(w->bytes * n_threads);
  eti_memory_rates r;
  w->kind = WORK_READ;
  r.read = best_rate(pool, n_threads, w) * moved;
  w->kind = WORK_WRITE;
  r.write = best_rate(pool, n_threads, w) * moved;
  w->kind = WORK_COPY;
  r.copy = best_rate(pool, n_threads, w) * moved;
  return r;
}

static eti_operation_rates peaks(const et_pool *pool, size_t n_threads, work *w) {
  const double operations = 2.0 * CHAINS * (double)n_threads;  // of one element of each sum
  eti_operation_rates r;
  w->kind = WORK_FMA;
  r.f32 = best_rate(pool, n_threads, w) * operations * (double)w->loops.lanes;
  w->kind = WORK_DOT;
  r.int8 = best_rate(pool, n_threads, w) * operations * (double)w->loops.products;
  return r;
}

size_t eti_machine_rates_bytes(size_t n_threads, const size_t *sizes, size_t n_sizes) {
  size_t bytes = n_threads * UNIT_BYTES;
  for (size_t i = 0; i < n_sizes; i++) {
    if (sizes[i] > bytes) bytes = sizes[i];
  }
  return bytes;
}

eti_operation_rates eti_machine_rates(const et_pool *pool, void *data, const size_t *sizes,
                                      size_t n_sizes, eti_memory_rates *rates) {
  const size_t n_threads = pool->n_threads;
  work w = {.loops = loops_of_this_cpu(), .data = data};
  // The system maps all pages that were never written to one page of zeros.
  memset(data, 0, eti_machine_rates_bytes(n_threads, sizes, n_sizes));
  const eti_operation_rates operations = peaks(pool, n_threads, &w);
  for (size_t i = 0; i < n_sizes; i++) rates[i] = rates_within(pool, n_threads, &w, sizes[i]);
  return operations;
}

bool eti_machine_has_amx(void) {
  return eti_cpu_dot() == ETI_DOT_AMX;
}
