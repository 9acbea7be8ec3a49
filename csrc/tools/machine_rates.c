// machine_rates.c — the measurements of machine_rates.h: loops of machine_rates.body.h for each
// instruction set, run for equal times on every thread.
#include "tools/machine_rates.h"

#include "kernels/micro/isa_select.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#if ETI_HAVE_X86
#include <immintrin.h>
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

typedef struct loops {
  size_t lanes;
  fma_loop fma;
  read_loop read;
} loops;

static loops loops_of_this_cpu(void) {
  switch (eti_cpu_isa()) {
#if ETI_HAVE_X86
    case ETI_ISA_AVX512:
      return (loops){16, fma_loop_avx512, read_loop_avx512};
    case ETI_ISA_AVX2:
      return (loops){8, fma_loop_avx2, read_loop_avx2};
#elif ETI_HAVE_NEON
    case ETI_ISA_NEON:
      return (loops){4, fma_loop_neon, read_loop_neon};
#endif
    default:
      return (loops){1, fma_loop_scalar, read_loop_scalar};
  }
}

// ---- rounds of equal work on every thread

typedef enum work_kind { WORK_FMA, WORK_READ, WORK_WRITE, WORK_COPY } work_kind;

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
  for (size_t r = 0; r < w->repeat && w->kind != WORK_FMA; r++) {
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

static double peak(const et_pool *pool, size_t n_threads, work *w) {
  w->kind = WORK_FMA;
  return best_rate(pool, n_threads, w) * 2.0 * CHAINS * (double)(w->loops.lanes * n_threads);
}

size_t eti_machine_rates_bytes(size_t n_threads, const size_t *sizes, size_t n_sizes) {
  size_t bytes = n_threads * UNIT_BYTES;
  for (size_t i = 0; i < n_sizes; i++) {
    if (sizes[i] > bytes) bytes = sizes[i];
  }
  return bytes;
}

double eti_machine_rates(const et_pool *pool, void *data, const size_t *sizes, size_t n_sizes,
                         eti_memory_rates *rates) {
  const size_t n_threads = pool->n_threads;
  work w = {.loops = loops_of_this_cpu(), .data = data};
  // The system maps all pages that were never written to one page of zeros.
  memset(data, 0, eti_machine_rates_bytes(n_threads, sizes, n_sizes));
  const double flops = peak(pool, n_threads, &w);
  for (size_t i = 0; i < n_sizes; i++) rates[i] = rates_within(pool, n_threads, &w, sizes[i]);
  return flops;
}
