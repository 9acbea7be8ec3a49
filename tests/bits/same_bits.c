// same_bits.c — prints one hash of the results of each call in files of calls (../fuzz/calls.txt,
// calls.txt beside this), for each element type that the operator supports. Every machine must
// print the same hashes. Within one process the program compares, element by element, all
// instruction sets of the processor, thread counts, and prepared and unprepared runs. Inputs are
// computed from integers alone. All NaN hash alike, because processors differ in the sign and
// payload of the NaN they make.
//   same_bits [--quick] [--only TEXT] [--dump] < calls        quick: two ways of running, not four
#define _XOPEN_SOURCE 700  // posix_memalign
#include "../fuzz/arguments.h"
#include "kernels/micro/isa_select.h"
#include "runtime/arena.h"
#include "runtime/half.h"
#include "runtime/op_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (8u << 20)  // of one call's results
#define MAX_LINE (1u << 20)

// ---- Inputs

typedef enum contents {
  ORDINARY,  // fractions of both signs, integers 0 … 2 (which are indices into most things)
  POSITIVE,  // fractions in (0, 1], square matrices are definite; integers ascend from 0 to 1
  ANYTHING,  // special values, noise and ordinary numbers by turns
  NONZERO,   // tried where that fails, by whole numbers perhaps: noise without zeros
  CONTENTS_COUNT
} contents;

// A fraction with 24 bits in [-2, 2) and then another power of two; 52 bits where there is room.
static double fraction(uint64_t r, bool is_wide) {
  static const double scales[] = {1.0, 1.0, 8.0, 0x1p-6};
  const double scale = scales[r & 3];
  if (is_wide) return ((double)(r >> 11) - 0x1p52) * 0x1p-51 * scale;
  return ((double)(r >> 40) - 0x1p23) * 0x1p-22 * scale;
}

// A number in (0, 1]. The last two dimensions of equal size: a symmetric matrix with a strong
// diagonal.
static double positive(const et_tensor *t, size_t i, uint64_t r) {
  const size_t n = t->rank >= 2 ? (size_t)t->sizes[t->rank - 1] : 0;
  if (n == 0 || t->sizes[t->rank - 2] != t->sizes[t->rank - 1])
    return ((double)(r >> 40) + 1.0) * 0x1p-24;
  const size_t row = i / n % n, column = i % n, low = row < column ? row : column;
  uint64_t seed = i / (n * n) * 1000003u + low * 1009u + (row + column);
  const double x = ((double)(fuzz_random(&seed) >> 40) + 1.0) * 0x1p-24;
  return row == column ? x + (double)n : x;
}

static void put_float(uint8_t *at, et_dtype dtype, double d, uint64_t raw, bool is_raw) {
  const float f = (float)d;
  const uint16_t half = dtype == ET_F16 ? eti_f32_to_f16(f) : eti_f32_to_bf16(f);
  const size_t bytes = dtype == ET_F64 ? 8 : dtype == ET_F32 ? 4 : 2;
  memcpy(at,
         dtype == ET_F64   ? (const void *)&d
         : dtype == ET_F32 ? (const void *)&f
                           : &half,
         bytes);
  if (is_raw) memcpy(at, &raw, bytes);  // little-endian, as files are
}

static void fill_float(uint8_t *at, const et_tensor *t, et_dtype part, size_t i, contents kind,
                       uint64_t *random) {
  static const double special[] = {0.0,       -0.0,   1.0,      -1.0,      (double)INFINITY,
                                   0.5,       -0.5,   0x1p-130, -0x1p-24,  (double)-INFINITY,
                                   2.5,       0x1p31, -0x1p31,  0x1p63,    (double)NAN,
                                   65504.0,   -1e30,  0x1p127,  -0x1p-149, 0x1p-1070,
                                   -0x1p1000, 255.5,  -128.5,   3.0,       1e9};
  const uint64_t r = fuzz_random(random), turn = fuzz_random(random);
  double d = fraction(r, part == ET_F64);
  if (kind == POSITIVE) d = positive(t, i, r);
  if (kind == ANYTHING && turn % 3 == 0) d = special[turn / 3 % (sizeof special / sizeof *special)];
  put_float(at, part, d, r, kind == ANYTHING && turn % 3 == 1);
}

static void fill_integer(uint8_t *at, size_t bytes, bool is_bool, size_t i, size_t n, contents kind,
                         uint64_t *random) {
  const uint64_t r = fuzz_random(random), end = (uint64_t)1 << (8 * bytes - 1);
  const uint64_t values[] = {r, r % 19 - 9, end, end - 1, 0u - (uint64_t)1, 0, 1, r % 7};
  uint64_t v = kind == ORDINARY ? r % 3 : kind == POSITIVE ? 2 * i / n : values[(r >> 32) % 8];
  if (kind == NONZERO) v = r | 1;
  if (is_bool) v = r >> 40 & 1;
  memcpy(at, &v, bytes);
}

static void fill(const fuzz_tensor *f, contents kind, uint64_t *random) {
  const et_dtype dtype = (et_dtype)f->t.dtype;
  const size_t bytes = et_dtype_bytes(dtype), n = f->t.capacity;
  const et_dtype part = dtype == ET_C64 ? ET_F32 : dtype == ET_C128 ? ET_F64 : dtype;
  const bool is_float = part == ET_F16 || part == ET_BF16 || part == ET_F32 || part == ET_F64;
  for (size_t i = 0; i < n; i++) {
    uint8_t *at = f->memory + i * bytes;
    if (!is_float) fill_integer(at, bytes, dtype == ET_B8, i, n, kind, random);
    if (is_float) fill_float(at, &f->t, part, i, kind, random);
    if (part != dtype) fill_float(at + bytes / 2, &f->t, part, i, kind, random);
  }
}

// Numbers that follow from the codes of panels: the sums of columns, or the second row of initial
// sums [2, columns] (kernels/micro/qgemm/qgemm.h).
static void fill_columns(const fuzz_tensor *panels, const fuzz_tensor *columns, size_t n) {
  const et_tensor *const w = &panels->t, *const t = &columns->t;
  const size_t quads = (size_t)w->sizes[w->rank - 3u];
  for (size_t c = 0; c < n; c++) {
    const int8_t *const panel = (const int8_t *)panels->memory + c / 16 * quads * 64 + c % 16 * 4;
    uint8_t *const at = columns->memory + (t->numel - n + c) * sizeof(uint32_t);
    uint32_t sum = 0, start;
    for (size_t k = 0; k < 4 * quads; k++) {
      const int32_t code = panel[k / 4 * 64 + k % 4];
      sum += (uint32_t)code;
    }
    memcpy(&start, columns->memory + c * sizeof start, sizeof start);
    if (t->rank == 2) sum = start - 128 * sum;
    memcpy(at, &sum, sizeof sum);
  }
}

// Packed weights stand before their numbers; the keys of a cache (lib/panel_cache.h) before values,
// scales and sums.
static void fill_sums(const fuzz_tensor *tensors, size_t i) {
  const et_tensor *const t = &tensors[i].t;
  if (t->dtype != ET_I32) return;
  const et_tensor *const weight = i >= 1 ? &tensors[i - 1].t : NULL;
  const et_tensor *const keys = i >= 3 ? &tensors[i - 3].t : NULL;
  if (weight != NULL && weight->dtype == ET_I8 && weight->rank == 5)
    fill_columns(&tensors[i - 1], &tensors[i], (size_t)t->sizes[t->rank - 1u]);
  else if (keys != NULL && keys->dtype == ET_I8 && keys->rank == 6)
    fill_columns(&tensors[i - 3], &tensors[i], t->numel);
}

// ---- Results as bytes that may be compared

typedef struct outcome {
  et_status status;
  size_t n;
  uint8_t *bytes;
} outcome;

static void append(outcome *o, const void *bytes, size_t n) {
  if (o->n + n > MAX_BYTES) abort();
  memcpy(o->bytes + o->n, bytes, n);
  o->n += n;
}

// Makes each NaN of n numbers the same one. Inlined, so that sizes are constants.
static inline __attribute__((always_inline)) void unify_nan(uint8_t *at, size_t n, size_t bytes,
                                                            uint64_t infinity, uint64_t nan) {
  const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  for (size_t i = 0; i < n; i++) {
    uint64_t u = 0;
    memcpy(&u, at + i * bytes, bytes);
    if ((u & ~sign) > infinity) memcpy(at + i * bytes, &nan, bytes);
  }
}

static void append_numbers(outcome *o, const void *numbers, size_t n, et_dtype part) {
  const size_t start = o->n;
  if (n > 0) append(o, numbers, n * et_dtype_bytes(part));
  uint8_t *const at = o->bytes + start;
  if (part == ET_F16) unify_nan(at, n, 2, 0x7C00u, 0x7E00u);
  if (part == ET_BF16) unify_nan(at, n, 2, 0x7F80u, 0x7FC0u);
  if (part == ET_F32) unify_nan(at, n, 4, 0x7F800000u, 0x7FC00000u);
  if (part == ET_F64) unify_nan(at, n, 8, 0x7FF0000000000000u, 0x7FF8000000000000u);
}

static void append_tensor(outcome *o, const et_tensor *t) {
  const et_dtype dtype = (et_dtype)t->dtype;
  const et_dtype part = dtype == ET_C64 ? ET_F32 : dtype == ET_C128 ? ET_F64 : dtype;
  append(o, t->sizes, t->rank * sizeof *t->sizes);
  append_numbers(o, t->data, t->numel * (part == dtype ? 1 : 2), part);
}

static void append_result(outcome *o, const et_value *v) {
  append(o, &v->tag, 1);
  if (v->tag == ET_INT) append(o, &v->as.i, 8);
  if (v->tag == ET_BOOL) append(o, &v->as.b, 1);
  if (v->tag == ET_DOUBLE) append_numbers(o, &v->as.d, 1, ET_F64);
  if (v->tag == ET_TENSOR) append_tensor(o, v->as.tensor);
}

// ---- One call

typedef struct way {
  const char *name;
  size_t n_threads;
  bool is_prepared, has_constants;  // prepared outputs are static, others grow
} way;

static const way ways[] = {
    {"unprepared", 1, false, false},
    {"unprepared, 3 threads", 3, false, false},
    {"prepared", 1, true, false},
    {"prepared with constants, 2 threads", 2, true, true},
};

static fuzz_call call;
static et_value *args[MAX_ARGS + 1];

// Reads the line as the loader would pass it; false if the operator's table lacks the type.
static bool read_args(const et_op *op, const char *line, et_dtype dtype, const way *how) {
  fuzz_call_begin(&call, op, 1);
  call.rate = 0;
  call.overlaps = call.is_other_dtype = false;
  call.is_blank = true;
  call.most_numel = 1u << 20;
  call.dtype_from = ET_F32;
  call.dtype = (uint8_t)dtype;
  call.size_from = call.size_none = INT32_MIN;
  const size_t n = op->n_args, result = n - 1;
  const uint32_t writes = op->writes != 0 ? op->writes : n >= 3 ? 1u << (n - 2) : 0;
  args[result] = NULL;
  line += strlen(op->name);
  for (size_t i = 0; i < n && *line == ' '; i++) {
    const bool is_written = i == result || (writes >> i & 1u) != 0;
    line++;
    args[i] = fuzz_read(&call, &line, is_written);
    const uint8_t tag = args[i]->tag;
    if (is_written && i < result && (tag == ET_TENSOR || tag == ET_TENSOR_LIST))
      args[result] = args[i];
  }
  if (args[result] == NULL) args[result] = fuzz_value(&call, ET_NONE, false);
  for (size_t i = 0; i < call.n_values; i++) call.values[i].flags = 0;
  for (size_t i = 0; i < call.n_tensors; i++) {
    fuzz_tensor *f = &call.tensors[i];
    f->t.flags &= (uint16_t)ET_TENSOR_CONTIGUOUS;
    f->t.data = f->memory;
    if (f->is_written && !how->is_prepared) f->t.flags |= ET_TENSOR_DYNAMIC;
    if (!f->is_written && how->has_constants && i > 0) f->t.flags |= ET_TENSOR_CONSTANT;
  }
  return !call.is_other_dtype;
}

// Fills the tensors of the call. All ways of running it have the same inputs: those of the first
// are kept for the others, since an emulated processor copies faster than it computes.
static void fill_call(contents kind, bool is_first) {
  static uint8_t *kept;
  static size_t capacity;
  uint64_t seed = 0x5eed + (uint64_t)kind;
  size_t n = 0;
  for (size_t i = 0; i < call.n_tensors; i++) {
    const fuzz_tensor *const f = &call.tensors[i];
    if (n + f->bytes > capacity) {
      capacity = 2 * (n + f->bytes);
      kept = realloc(kept, capacity);
      if (kept == NULL) abort();
    }
    if (is_first) {
      fill(f, kind, &seed);
      fill_sums(call.tensors, i);
    }
    if (f->bytes > 0)
      memcpy(is_first ? kept + n : f->memory, is_first ? f->memory : kept + n, f->bytes);
    n += f->bytes;
  }
}

static void run_backwards(void *ctx, et_task task, void *task_ctx, size_t n) {
  (void)ctx;
  while (n > 0) task(task_ctx, --n);
}

static et_value *const *shadows(size_t n) {
  static et_value *shown[MAX_ARGS];
  call.n_shadows = 0;
  for (size_t i = 0; i < n; i++) shown[i] = fuzz_shadow(&call, args[i]);
  return shown;
}

static void *allocate(size_t bytes) {
  void *memory = NULL;
  if (posix_memalign(&memory, 64, bytes + (bytes == 0)) != 0) abort();
  return memory;
}

static et_status prepare(const et_op *op, const way *how, et_kernel_ctx *ctx, void **memory) {
  const size_t n_threads = how->n_threads;
  const bool is_minimal = !how->is_prepared;
  et_arena arena = eti_arena_counting();
  et_prepare_ctx counting = {
      .n_threads = n_threads, .measuring = true, .is_minimal = is_minimal, .arena = &arena};
  const et_status status = op->prepare(&counting, shadows(op->n_args));
  if (status != ET_OK) return status;
  const size_t bytes = arena.used;
  *memory = allocate(bytes);
  arena = eti_arena_over((et_span){*memory, bytes});
  et_prepare_ctx filling = {.n_threads = n_threads, .is_minimal = is_minimal, .arena = &arena};
  const et_status filled = op->prepare(&filling, shadows(op->n_args));
  ctx->state = filling.state;
  ctx->scratch_bytes = filling.scratch_bytes;
  return filled;
}

static void show_view(const et_op *op) {
  const et_value *view = args[op->n_args - 1];
  if (!op->is_view || args[0]->tag != ET_TENSOR || view->tag != ET_TENSOR) return;
  view->as.tensor->data = args[0]->as.tensor->data;
}

// False if the call has no operand of the element type. `is_first`: no way of running the call with
// these contents came before.
static bool run(const et_op *op, const char *line, et_dtype dtype, contents kind, const way *how,
                bool is_first, outcome *o) {
  const bool is_read = read_args(op, line, dtype, how);
  if (is_read) fill_call(kind, is_first);
  o->n = 0;
  if (is_read) {
    const et_pool pool = {.n_threads = how->n_threads, .run = run_backwards};
    et_random random = {.seed = 1};
    et_kernel_ctx ctx = {.pool = how->n_threads > 1 ? &pool : NULL, .random = &random};
    void *memory = NULL;
    o->status = ET_OK;
    if (op->prepare != NULL && (how->is_prepared || op->needs_prepare))
      o->status = prepare(op, how, &ctx, &memory);
    ctx.scratch = allocate(ctx.scratch_bytes);
    memset(ctx.scratch, 0xA5, ctx.scratch_bytes);  // not the results of the run before
    show_view(op);
    if (o->status == ET_OK) o->status = op->run(&ctx, args);
    if (o->status == ET_OK) append_result(o, args[op->n_args - 1]);
    for (size_t i = 0; o->status == ET_OK && i < call.n_tensors; i++) {
      const fuzz_tensor *f = &call.tensors[i];
      if (f->is_written) append_tensor(o, &f->t);
    }
    free(ctx.scratch);
    free(memory);
  }
  fuzz_call_end(&call);
  return is_read;
}

// ---- All ways of one call

// A CPU that this one can act as.
typedef struct level {
  const char *name;
  eti_isa isa;
  eti_dot dot;
  eti_bf16 bf16;
} level;

static const level all_levels[] = {
    {"scalar", ETI_ISA_SCALAR, ETI_DOT_NONE, ETI_BF16_NONE},
    {"avx2", ETI_ISA_AVX2, ETI_DOT_NONE, ETI_BF16_NONE},
    {"avx512", ETI_ISA_AVX512, ETI_DOT_NONE, ETI_BF16_NONE},
    {"neon", ETI_ISA_NEON, ETI_DOT_NONE, ETI_BF16_NONE},
    {"avxvnni", ETI_ISA_AVX2, ETI_DOT_AVX_VNNI, ETI_BF16_NONE},
    {"avx512vnni", ETI_ISA_AVX512, ETI_DOT_AVX512_VNNI, ETI_BF16_NONE},
    {"amx", ETI_ISA_AVX512, ETI_DOT_AMX, ETI_BF16_NONE},
    {"neondot", ETI_ISA_NEON, ETI_DOT_NEON, ETI_BF16_NONE},
    {"avx512bf16", ETI_ISA_AVX512, ETI_DOT_NONE, ETI_BF16_AVX512},
    {"neoni8mm", ETI_ISA_NEON, ETI_DOT_I8MM, ETI_BF16_NONE},
    {"neonbf16", ETI_ISA_NEON, ETI_DOT_NONE, ETI_BF16_NEON},
};
enum { N_LEVELS = sizeof all_levels / sizeof *all_levels };
static const level *levels[N_LEVELS];
static size_t n_levels, n_different;
static bool dumps, is_quick;

// False if this CPU lacks the level.
static bool limit_to(const level *l) {
  if (l->dot != ETI_DOT_NONE) return eti_cpu_dot_limit(l->dot);
  if (l->bf16 != ETI_BF16_NONE) return eti_cpu_bf16_limit(l->bf16);
  eti_cpu_isa_limit(l->isa);
  return eti_cpu_isa() == l->isa;
}

static void find_levels(void) {
  printf("levels");
  for (size_t i = 0; i < N_LEVELS; i++) {
    if (!limit_to(&all_levels[i])) continue;
    levels[n_levels++] = &all_levels[i];
    printf(" %s", all_levels[i].name);
  }
  printf("\n");
}

static void tell(const char *line, et_dtype dtype, contents kind, const way *how, const level *on,
                 const outcome *found, const outcome *first) {
  size_t at = 0;
  while (at < found->n && at < first->n && found->bytes[at] == first->bytes[at]) at++;
  n_different++;
  printf("differs: %s as %s, contents %d, on %s, %s: byte %lu of %lu (first %lu), status %d, ",
         line, et_dtype_name(dtype), (int)kind, on->name, how->name, (unsigned long)at,
         (unsigned long)found->n, (unsigned long)first->n, (int)found->status);
  at &= ~(size_t)3;
  for (size_t i = at; i < at + 8 && i < found->n; i++) printf("%02x", found->bytes[i]);
  printf(" against ");
  for (size_t i = at; i < at + 8 && i < first->n; i++) printf("%02x", first->bytes[i]);
  printf("\n");
}

static uint64_t hash(uint64_t sum, const void *bytes, size_t n) {  // FNV-1a
  for (size_t i = 0; i < n; i++) sum = (sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
  return sum;
}

static void dump(const outcome *o, et_dtype dtype, contents kind) {
  printf("%s contents %d:", et_dtype_name(dtype), (int)kind);
  for (size_t i = 0; i < o->n; i++) printf("%s%02x", i % 4 == 0 ? " " : "", o->bytes[i]);
  printf("\n");
}

// Compares all ways of running with the scalar reference and adds its results to the hash. False if
// the call fails.
static bool run_everywhere(const et_op *op, const char *line, et_dtype dtype, contents kind,
                           uint64_t *sum) {
  static outcome first, found;
  if (first.bytes == NULL) first.bytes = malloc(MAX_BYTES), found.bytes = malloc(MAX_BYTES);
  if (first.bytes == NULL || found.bytes == NULL) abort();
  eti_cpu_isa_limit(ETI_ISA_SCALAR);
  if (!run(op, line, dtype, kind, &ways[0], true, &first) || first.status != ET_OK) return false;
  if (dumps) dump(&first, dtype, kind);
  *sum = hash(*sum, first.bytes, first.n);
  for (size_t l = 0; l < n_levels; l++) {
    (void)limit_to(levels[l]);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
      if (l + w == 0 || (is_quick && (w == 1 || w == 2))) continue;
      (void)run(op, line, dtype, kind, &ways[w], false, &found);
      // Outputs that grow may not fit the memory of outputs that must not grow.
      if (ways[w].is_prepared && found.status != ET_OK) continue;
      if (found.status != ET_OK || found.n != first.n ||
          memcmp(found.bytes, first.bytes, found.n) != 0)
        tell(line, dtype, kind, &ways[w], levels[l], &found, &first);
    }
  }
  return true;
}

// The call as written, and with every other type in place of f32.
static void run_line(const char *line) {
  char name[128];
  const size_t length = strcspn(line, " ");
  if (length >= sizeof name) abort();
  memcpy(name, line, length);
  name[length] = '\0';
  const et_op *op = et_op_find(&et_ops_portable, name);
  if (op == NULL) return;
  char hashes[ET_DTYPE_COUNT * 32];
  size_t n = 0;
  for (int dtype = 0; dtype < ET_DTYPE_COUNT; dtype++) {
    if (dtype != ET_F32 && strstr(line, "f32[") == NULL) continue;
    uint64_t sum = 0xcbf29ce484222325u;
    bool is_run = false;
    bool is_last_run = false;
    for (int kind = 0; kind < CONTENTS_COUNT; kind++) {
      if (kind == NONZERO && is_last_run) continue;
      is_last_run = run_everywhere(op, line, (et_dtype)dtype, (contents)kind, &sum);
      is_run |= is_last_run;
    }
    const unsigned high = (unsigned)(sum >> 32), low = (unsigned)(sum & 0xFFFFFFFFu);
    if (!is_run) continue;
    n += (size_t)snprintf(hashes + n, sizeof hashes - n, " %s %08x%08x",
                          et_dtype_name((et_dtype)dtype), high, low);
  }
  printf("%s =%.*s\n", line, (int)n, hashes);
  fflush(stdout);
}

int main(int argc, char **argv) {
  static char line[MAX_LINE];
  const char *only = "";
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--dump") == 0) dumps = true;
    if (strcmp(argv[i], "--quick") == 0) is_quick = true;
    if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = argv[++i];
  }
  find_levels();
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '\0' && strstr(line, only) != NULL) run_line(line);
  }
  return n_different == 0 ? 0 : 1;
}
