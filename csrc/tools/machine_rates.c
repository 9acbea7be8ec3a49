// machine_rates.c — what this machine can do at most: f32 multiply-adds on registers, and bytes
// read, written and copied within a working set, by as many threads as a run has. Profiles hold
// their times against these. Relies on the kernels' choice of instruction set; knows no operator.
#include "bindings/py_errors.h"
#include "bindings/py_memory.h"
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
  READ_CHAINS = 8,    // likewise for additions
  READ_FLOATS = 128,  // what every reading loop takes a multiple of
  ROUNDS = 7,
  MAX_SIZES = 32,
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
#define FMA(a, b, c) ((a) * (b) + (c))  // where fmaf is a call of the library, nobody multiplies so
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
  size_t bytes;  // of one thread, a multiple of two times what loops take
  size_t repeat;
} work;

static void do_work(void *ctx, size_t i_thread) {
  const work *const w = ctx;
  char *const data = w->data + i_thread * w->bytes;
  const size_t half = w->bytes / 2;
  volatile float sink = 0.0f;  // keeps what nobody reads
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

// Other programs only ever make a round slower: the fastest one counts.
static double fastest(const et_pool *pool, size_t n_threads, work *w, int rounds) {
  double best = nanoseconds(pool, n_threads, w);
  for (int round = 1; round < rounds; round++) {
    const double ns = nanoseconds(pool, n_threads, w);
    if (ns < best) best = ns;
  }
  return best;
}

// Repetitions a second of the work on every thread at once. Rounds are long enough for the clock
// and for waking threads, and short enough to find one that nobody interrupts.
static double best_rate(const et_pool *pool, size_t n_threads, work *w) {
  w->repeat = 1;
  for (double ns; (ns = fastest(pool, n_threads, w, 2)) < ROUND_NS / 2;)
    w->repeat *= ns < ROUND_NS / 16 ? 8 : 2;
  return (double)w->repeat / fastest(pool, n_threads, w, ROUNDS) * 1e9;
}

// ---- the answer

typedef struct rates {
  double read, write, copy;
} rates;

static rates rates_within(const et_pool *pool, size_t n_threads, work *w, size_t bytes) {
  const size_t unit = 2 * READ_FLOATS * sizeof(float);
  const size_t each = bytes / n_threads / unit * unit;
  w->bytes = each > 0 ? each : unit;
  const double moved = (double)(w->bytes * n_threads);
  rates r;
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

// Without the GIL. Writes rates of every size; returns operations a second.
static double measure(size_t n_threads, et_thread_pool *threads, char *data, const size_t *sizes,
                      size_t n_sizes, rates *to) {
  const et_pool pool = et_thread_pool_handle(threads);
  work w = {.loops = loops_of_this_cpu(), .data = data};
  const double flops = peak(&pool, n_threads, &w);
  for (size_t i = 0; i < n_sizes; i++) to[i] = rates_within(&pool, n_threads, &w, sizes[i]);
  return flops;
}

static PyObject *answer(double flops, const rates *r, size_t n) {
  PyObject *const list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list != NULL && i < n; i++) {
    PyObject *const item = Py_BuildValue("(ddd)", r[i].read, r[i].write, r[i].copy);
    if (item == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, item);
  }
  return list == NULL ? NULL : Py_BuildValue("(dN)", flops, list);
}

static int read_sizes(PyObject *object, size_t *sizes, size_t n, size_t *largest) {
  for (size_t i = 0; i < n; i++) {
    PyObject *const item = PySequence_GetItem(object, (Py_ssize_t)i);
    const size_t bytes = item == NULL ? 0 : PyLong_AsSize_t(item);
    Py_XDECREF(item);
    if (PyErr_Occurred()) return -1;
    sizes[i] = bytes;
    if (bytes > *largest) *largest = bytes;
  }
  return 0;
}

PyObject *py_machine_rates(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  Py_ssize_t n_threads;
  PyObject *size_list;
  size_t sizes[MAX_SIZES], largest = 0;
  rates found[MAX_SIZES];
  if (!PyArg_ParseTuple(args, "nO", &n_threads, &size_list)) return NULL;
  const Py_ssize_t n_sizes = PySequence_Size(size_list);
  if (n_sizes < 0) return NULL;
  if (n_threads < 1 || n_sizes > MAX_SIZES)
    return py_raise(state, ET_INVALID_ARGUMENT,
                     "%zd threads and %zd sizes: needs 1 thread or more, and at most %d sizes",
                     n_threads, n_sizes, MAX_SIZES);
  if (read_sizes(size_list, sizes, (size_t)n_sizes, &largest) < 0) return NULL;
  // The least that a thread works on is one unit.
  if (largest < (size_t)n_threads * 2 * READ_FLOATS * sizeof(float))
    largest = (size_t)n_threads * 2 * READ_FLOATS * sizeof(float);
  PyObject *result = NULL;
  et_thread_pool *threads = NULL;
  et_error err = {.status = ET_OK};
  py_memory *const data = py_memory_allocate(state, largest);
  py_memory *const pool =
      data == NULL ? NULL : py_memory_allocate(state, et_thread_pool_bytes((size_t)n_threads));
  if (pool == NULL) goto done;
  if (et_thread_pool_init(&threads, (et_span){pool->data, pool->size}, (size_t)n_threads, &err) !=
      ET_OK) {
    py_raise_error(state, &err);
    goto done;
  }
  double flops;
  Py_BEGIN_ALLOW_THREADS;
  py_memory_advise_huge_pages(data);
  memset(data->data, 0, largest);  // pages that nobody wrote to are one page
  flops = measure((size_t)n_threads, threads, data->data, sizes, (size_t)n_sizes, found);
  et_thread_pool_deinit(threads);
  Py_END_ALLOW_THREADS;
  result = answer(flops, found, (size_t)n_sizes);
done:
  Py_XDECREF(pool);
  Py_XDECREF(data);
  return result;
}
