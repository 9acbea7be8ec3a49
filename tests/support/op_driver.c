// op_driver.c — runs one operator of et_ops_portable for op_driver.py, which builds the values. It
// does what the method loader and the run loop do for one instruction: checks the arity and the
// dtype sets, measures and runs the prepare step in an arena of exactly the measured size, gives
// the scratch that was asked for, and calls run. A shared library, because Python drives it;
// nothing of it ships.
#define _POSIX_C_SOURCE 200809L  // clock_gettime
#include "kernels/micro/convert/convert.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/isa_select.h"
#include "runtime/arena.h"
#include "runtime/et.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

// A pool of n_threads that runs its tasks one after the other, last first: results that depend on
// how ranges are cut, or on their order, differ from the serial ones. Counts its jobs.
static void run_backwards(void *ctx, et_task task, void *task_ctx, size_t n) {
  ++*(size_t *)ctx;
  while (n > 0) task(task_ctx, --n);
}

static void *guarded_alloc(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  if (p != NULL) memset(p, 0xA5, (bytes + 63) / 64 * 64 + 64);
  return p;
}

static bool guard_intact(const unsigned char *p, size_t bytes) {
  for (size_t i = bytes; i < (bytes + 63) / 64 * 64 + 64; i++) {
    if (p[i] != 0xA5) return false;
  }
  return true;
}

EXPORT const et_op *etd_find(const char *name);
EXPORT size_t etd_n_args(const et_op *op);
EXPORT bool etd_has_prepare(const et_op *op);
EXPORT bool etd_needs_prepare(const et_op *op);
EXPORT const char *etd_name(size_t i);
EXPORT et_dtype_set etd_dtypes(const et_op *op, bool out);
typedef struct etd_loaded etd_loaded;
EXPORT etd_loaded *etd_load(const et_op *op, et_value *const *prepare_args, bool is_minimal,
                            size_t n_args, size_t n_threads, et_error *err);
EXPORT int etd_call(etd_loaded *loaded, et_value *const *args, et_error *err);
EXPORT size_t etd_n_jobs(const etd_loaded *loaded);  // shared by the threads of the last call
EXPORT void etd_unload(etd_loaded *loaded);
EXPORT double etd_time(const et_op *op, et_value *const *args, et_value *const *prepare_args,
                       size_t n_threads, size_t repeats, size_t rounds);

const et_op *etd_find(const char *name) {
  return et_op_find(&et_ops_portable, name);
}
size_t etd_n_args(const et_op *op) {
  return op->n_args;
}
bool etd_has_prepare(const et_op *op) {
  return op->prepare != NULL;
}
bool etd_needs_prepare(const et_op *op) {
  return op->needs_prepare;
}
const char *etd_name(size_t i) {
  return i < et_ops_portable.n_ops ? et_ops_portable.ops[i].name : NULL;
}
et_dtype_set etd_dtypes(const et_op *op, bool out) {
  return out ? op->out_dtypes : op->in_dtypes;
}

typedef struct prepared {
  void *state;
  size_t scratch_bytes;
  unsigned char *memory;
  size_t memory_bytes;
} prepared;

static et_status prepare(const et_op *op, et_value *const *args, bool is_minimal, size_t n_threads,
                         prepared *out, et_error *err) {
  et_arena counting = eti_arena_counting();
  et_prepare_ctx ctx = {.err = err,
                        .n_threads = n_threads,
                        .measuring = true,
                        .is_minimal = is_minimal,
                        .arena = &counting};
  et_status status = op->prepare(&ctx, args);
  if (status != ET_OK) return status;
  out->memory_bytes = counting.used;
  out->scratch_bytes = ctx.scratch_bytes;
  out->memory = guarded_alloc(counting.used);
  et_arena arena = eti_arena_over((et_span){out->memory, counting.used});
  ctx = (et_prepare_ctx){
      .err = err, .n_threads = n_threads, .is_minimal = is_minimal, .arena = &arena};
  status = op->prepare(&ctx, args);
  if (status != ET_OK) return status;
  if (ctx.scratch_bytes != out->scratch_bytes || arena.used != counting.used) {
    if (err != NULL)
      strcpy(err->message, "prepare asked for other memory when it filled than when it measured");
    return ET_INTERNAL;
  }
  out->state = ctx.state;
  return ET_OK;
}

// One loaded instruction: what its prepare step left, and the scratch of its runs.
struct etd_loaded {
  const et_op *op;
  size_t n_threads;
  prepared p;
  unsigned char *scratch;
  size_t n_jobs;
};

// Loads op, with its prepare step where prepare_args are given; NULL where that fails.
etd_loaded *etd_load(const et_op *op, et_value *const *prepare_args, bool is_minimal, size_t n_args,
                     size_t n_threads, et_error *err) {
  if (n_args != op->n_args) {
    if (err != NULL) strcpy(err->message, "the operator takes another number of arguments");
    if (err != NULL) err->status = ET_INVALID_PROGRAM;
    return NULL;
  }
  etd_loaded *loaded = calloc(1, sizeof *loaded);
  if (loaded == NULL) return NULL;
  *loaded = (etd_loaded){.op = op, .n_threads = n_threads};
  if (prepare_args != NULL && op->prepare != NULL) {
    const et_status status = prepare(op, prepare_args, is_minimal, n_threads, &loaded->p, err);
    if (status != ET_OK) {
      if (err != NULL) err->status = status;
      etd_unload(loaded);
      return NULL;
    }
  }
  loaded->scratch = guarded_alloc(loaded->p.scratch_bytes);
  return loaded;
}

size_t etd_n_jobs(const etd_loaded *loaded) {
  return loaded->n_jobs;
}

void etd_unload(etd_loaded *loaded) {
  free(loaded->scratch);
  free(loaded->p.memory);
  free(loaded);
}

int etd_call(etd_loaded *loaded, et_value *const *args, et_error *err) {
  const prepared *p = &loaded->p;
  loaded->n_jobs = 0;
  const et_pool pool = {
      .ctx = &loaded->n_jobs, .n_threads = loaded->n_threads, .run = run_backwards};
  et_random random = {.seed = 0};  // every call draws as the first of a method
  et_kernel_ctx ctx = {.err = err,
                       .pool = loaded->n_threads > 1 ? &pool : NULL,
                       .state = p->state,
                       .scratch = loaded->scratch,
                       .scratch_bytes = p->scratch_bytes,
                       .random = &random};
  const et_status status = loaded->op->run(&ctx, args);
  if (status != ET_OK) return (int)status;
  if (!guard_intact(loaded->scratch, p->scratch_bytes)) {
    if (err != NULL) strcpy(err->message, "run wrote past its scratch memory");
    return ET_INTERNAL;
  }
  if (p->memory != NULL && !guard_intact(p->memory, p->memory_bytes)) {
    if (err != NULL) strcpy(err->message, "run wrote past its prepared memory");
    return ET_INTERNAL;
  }
  return ET_OK;
}

// This thread's processor time, so that other programs on the machine count less.
static uint64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Nanoseconds per call, the smallest of some rounds; negative when it fails. Threads that work
// together are timed by the clock on the wall.
static double time_calls(const et_op *op, et_value *const *args, et_kernel_ctx *ctx, size_t repeats,
                         size_t rounds) {
  uint64_t (*const now)(void) = ctx->pool != NULL ? et_clock_ns : clock_ns;
  double best = -1.0;
  for (size_t round = 0; round < rounds; round++) {
    const uint64_t start = now();
    for (size_t i = 0; i < repeats; i++) {
      if (op->run(ctx, args) != ET_OK) return -1.0;
    }
    const double each = (double)(now() - start) / (double)repeats;
    if (best < 0.0 || each < best) best = each;
  }
  return best;
}

double etd_time(const et_op *op, et_value *const *args, et_value *const *prepare_args,
                size_t n_threads, size_t repeats, size_t rounds) {
  const size_t pool_bytes = et_thread_pool_bytes(n_threads);
  et_thread_pool *threads = NULL;
  void *pool_memory = guarded_alloc(pool_bytes);
  prepared p = {0};
  double best = -1.0;
  if (et_thread_pool_init(&threads, (et_span){pool_memory, pool_bytes}, n_threads, NULL) == ET_OK &&
      (prepare_args == NULL || op->prepare == NULL ||
       prepare(op, prepare_args, false, n_threads, &p, NULL) == ET_OK)) {
    const et_pool pool = et_thread_pool_handle(threads);
    unsigned char *scratch = guarded_alloc(p.scratch_bytes);
    et_random random = {.seed = 0};
    et_kernel_ctx ctx = {.pool = n_threads > 1 ? &pool : NULL,
                         .state = p.state,
                         .scratch = scratch,
                         .scratch_bytes = p.scratch_bytes,
                         .random = &random};
    best = time_calls(op, args, &ctx, repeats, rounds);
    free(scratch);
  }
  if (threads != NULL) et_thread_pool_deinit(threads);
  free(p.memory);
  free(pool_memory);
  return best;
}

// ---- the f32 micro-kernels of every instruction set this CPU has, for tests of equality

enum { DOTS = 16, BF16S = 32 };  // added to an eti_dot, to an eti_bf16

typedef struct micro_entry {
  const char *name;
  eti_float_loop loop;
  size_t n_inputs;
} micro_entry;

#define UNARY_ENTRY(name) {#name, ETI_UNARY_##name, 1},
#define BINARY_ENTRY(name) {#name, ETI_BINARY_##name, 2},
static const micro_entry micro_entries[] = {ETI_UNARY_LIST(UNARY_ENTRY)
                                                ETI_BINARY_LIST(BINARY_ENTRY)};

EXPORT const char *etd_micro_name(size_t i);
EXPORT size_t etd_micro_inputs(size_t i);
EXPORT int etd_best_isa(void);
EXPORT void etd_limit_isa(int isa);
EXPORT int etd_has_dot(int dot);
EXPORT int etd_has_bf16(int bf16);
EXPORT void etd_micro_run(size_t i, int isa, int f64, void *out, void *a, void *b, size_t n,
                          const void *k);
EXPORT void etd_micro_halves(int isa, const uint16_t *x, float *wide, uint16_t *back, size_t n,
                             int bf16);
EXPORT void etd_micro_rows(int isa, const float *x, size_t n, float *results, float *rows);

const char *etd_micro_name(size_t i) {
  return i < sizeof micro_entries / sizeof micro_entries[0] ? micro_entries[i].name : NULL;
}
size_t etd_micro_inputs(size_t i) {
  return micro_entries[i].n_inputs;
}
// Operators of this process run as on a CPU with no more than this instruction set, or, from DOTS
// on, with products of bytes, from BF16S on, of bf16.
void etd_limit_isa(int isa) {
  if (isa < DOTS) {
    eti_cpu_isa_limit((eti_isa)isa);
  } else if (isa >= BF16S) {
    (void)eti_cpu_bf16_limit((eti_bf16)(isa - BF16S));
  } else {
    (void)eti_cpu_dot_limit((eti_dot)(isa - DOTS));
  }
}
int etd_has_dot(int dot) {
  const bool has = dot < ETI_DOT_COUNT && eti_cpu_dot_limit((eti_dot)dot);
  eti_cpu_isa_limit(ETI_ISA_COUNT);
  return has;
}
int etd_has_bf16(int bf16) {
  const bool has = bf16 < ETI_BF16_COUNT && eti_cpu_bf16_limit((eti_bf16)bf16);
  eti_cpu_isa_limit(ETI_ISA_COUNT);
  return has;
}
int etd_best_isa(void) {
  return (int)eti_cpu_isa();
}

void etd_micro_run(size_t i, int isa, int f64, void *out, void *a, void *b, size_t n,
                   const void *k) {
  const eti_loop loop = eti_eltwise_for((eti_isa)isa)->float_loops[f64 != 0][micro_entries[i].loop];
  const ptrdiff_t bytes = f64 != 0 ? 8 : 4;
  void *const p[3] = {out, a, b};
  const ptrdiff_t s[3] = {bytes, bytes, bytes};
  loop(p, s, n, k);
}

// Halves made f32, and those floats made halves again.
void etd_micro_halves(int isa, const uint16_t *x, float *wide, uint16_t *back, size_t n, int bf16) {
  const eti_convert *m = eti_convert_for((eti_isa)isa);
  (bf16 != 0 ? m->bf16.f32 : m->f16.f32)(wide, x, n);
  (bf16 != 0 ? m->f32.bf16 : m->f32.f16)(back, wide, n);
}

// Row reductions of one row, and softmax and log-softmax of it (2 · n floats).
void etd_micro_rows(int isa, const float *x, size_t n, float *results, float *rows) {
  const eti_eltwise *m = eti_eltwise_for((eti_isa)isa);
  results[0] = m->row_sum(x, n);
  results[1] = m->row_sum_square_diff(x, n, 0.25f);
  results[2] = m->row_max(x, n);
  results[3] = m->row_min(x, n);
  m->row_softmax(rows, x, n);
  m->row_log_softmax(rows + n, x, n);
}
