// fuzz_kernels.c — calls every operator of the table with random arguments, under sanitizers. For
// any arguments of a file a kernel must return a status, in a short time, and write nothing but its
// outputs. The arguments that an operator takes are learned from its messages ("argument 2:
// expected Int, got String"), so that a new operator needs no line here.
//   fuzz_kernels [--seed S] [--calls N] [--op NAME] [--good calls.txt]
#define _XOPEN_SOURCE 700
#include "arguments.h"
#include "watch.h"

#include "runtime/arena.h"
#include "runtime/check.h"
#include "runtime/op_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_PER_CALL 5

static fuzz_call call;
static const et_op *op;
static et_value *args[MAX_ARGS + 1];
static long number;

static void tell(void) {
  fprintf(stderr, "\nwhile calling %s, call %ld, with\n", op->name, number);
  fuzz_print(args, op->n_args);
}

static void fail(const char *why) {
  fprintf(stderr, "%s\n", why);
  watch_end(0);
}

// ---- The arguments of an operator

static char *text;          // of calls.txt: one good call a line, sorted by operator
static const char **lines;  // those of the operator
static size_t n_lines;

static void read_calls(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) exit(2);
  const long size = ftell(file);
  rewind(file);
  text = calloc((size_t)size + 1, 1);
  lines = calloc((size_t)size + 1, sizeof *lines);
  if (text == NULL || lines == NULL || fread(text, 1, (size_t)size, file) != (size_t)size) exit(2);
  fclose(file);
}

static void find_lines(void) {
  const size_t length = strlen(op->name);
  n_lines = 0;
  for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n') + 1) {
    if (strncmp(p, op->name, length) == 0 && p[length] == ' ') lines[n_lines++] = p;
  }
}

static et_tag kinds[MAX_ARGS];

// Sets the kind of the argument that a message is about. Returns false for a message that says no
// new kind.
static bool learn(const char *message) {
  static const struct {
    const char *name;
    et_tag tag;
  } names[] = {
      {"Tensor", ET_TENSOR},      {"String", ET_STRING},          {"Int", ET_INT},
      {"Bool", ET_BOOL},          {"a number", ET_DOUBLE},        {"IntList", ET_INT_LIST},
      {"BoolList", ET_BOOL_LIST}, {"DoubleList", ET_DOUBLE_LIST}, {"TensorList", ET_TENSOR_LIST}};
  size_t at = 0;
  char expected[32], got[32];
  if (sscanf(message, "argument %zu: expected %31[^,], got %31s", &at, expected, got) != 3)
    return false;
  for (size_t i = 0; at < MAX_ARGS && i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i].name, expected) != 0 || kinds[at] == names[i].tag) continue;
    kinds[at] = names[i].tag;
    return true;
  }
  return false;
}

static et_tag kind_of(size_t i) {
  static const et_tag any[] = {ET_NONE,
                               ET_TENSOR,
                               ET_STRING,
                               ET_DOUBLE,
                               ET_INT,
                               ET_BOOL,
                               ET_BOOL_LIST,
                               ET_DOUBLE_LIST,
                               ET_INT_LIST,
                               ET_TENSOR_LIST,
                               ET_OPTIONAL_TENSOR_LIST};
  const uint64_t odd = fuzz_choose(&call, 60);
  if (odd == 0) return any[fuzz_choose(&call, sizeof any / sizeof *any)];
  if (odd < 4) return ET_NONE;
  if (kinds[i] == ET_DOUBLE && odd < 20) return odd % 2 == 0 ? ET_INT : ET_BOOL;
  if (kinds[i] == ET_TENSOR_LIST && odd < 25) return ET_OPTIONAL_TENSOR_LIST;
  return kinds[i];
}

// Arguments as the loader passes them: the result is the written tensor, or the list of written
// tensors.
static void make_args(void) {
  const size_t n = op->n_args, result = n - 1;
  const uint32_t writes = op->writes != 0 ? op->writes : n >= 2 ? 1u << (n - 2) : 0;
  const char *line =
      n_lines > 0 && fuzz_choose(&call, 4) > 0 ? lines[fuzz_choose(&call, n_lines)] : NULL;
  size_t last = MAX_ARGS;
  if (line != NULL) line += strlen(op->name);
  for (size_t i = 0; i < result; i++) {
    const bool is_written = (writes >> i & 1u) != 0;
    if (line != NULL && *line == ' ') {
      line++;
      args[i] = fuzz_read(&call, &line, is_written);
    } else {
      args[i] = fuzz_value(&call, kind_of(i), is_written);
    }
    const uint8_t tag = args[i]->tag;
    if (is_written && (tag == ET_TENSOR || tag == ET_TENSOR_LIST)) last = i;
  }
  if (line != NULL && *line == ' ') {
    line++;
    args[result] = fuzz_read(&call, &line, true);
  } else if (last == MAX_ARGS || op->is_view || fuzz_choose(&call, 40) == 0) {
    static const et_tag results[] = {ET_INT, ET_BOOL, ET_DOUBLE, ET_NONE, ET_TENSOR, ET_STRING};
    const uint64_t n_kinds = op->is_view || fuzz_choose(&call, 8) == 0 ? 6 : 3;
    args[result] = fuzz_value(&call, results[op->is_view ? 4 : fuzz_choose(&call, n_kinds)], true);
  } else {
    args[result] = args[last];
  }
}

// ---- Calls

static void run_backwards(void *ctx, et_task task, void *task_ctx, size_t n) {
  (void)ctx;
  while (n > 0) task(task_ctx, --n);
}

// Arguments as the loader passes them to prepare, made again for each of its two passes.
static et_value *const *shadows(void) {
  static et_value *shown[MAX_ARGS];
  call.n_shadows = 0;
  for (size_t i = 0; i < op->n_args; i++) shown[i] = fuzz_shadow(&call, args[i]);
  return shown;
}

static et_status prepare(size_t n_threads, bool is_minimal, et_kernel_ctx *ctx, void **memory,
                         et_error *err) {
  et_arena arena = eti_arena_counting();
  et_prepare_ctx counting = {.err = err,
                             .n_threads = n_threads,
                             .measuring = true,
                             .is_minimal = is_minimal,
                             .arena = &arena};
  const et_status status = op->prepare(&counting, shadows());
  if (status != ET_OK) return status;
  if (arena.failed || arena.used > (size_t)1 << 26 || counting.scratch_bytes > (size_t)1 << 26)
    return eti_fail(err, ET_OUT_OF_RESOURCES, "expected at most 64 MiB of memory");
  const size_t bytes = arena.used;
  if (posix_memalign(memory, 64, bytes + (bytes == 0)) != 0) abort();
  arena = eti_arena_over((et_span){*memory, bytes});
  et_prepare_ctx filling = {
      .err = err, .n_threads = n_threads, .is_minimal = is_minimal, .arena = &arena};
  if (op->prepare(&filling, shadows()) != ET_OK || arena.used != bytes ||
      filling.scratch_bytes != counting.scratch_bytes)
    fail("prepare did not fill what it measured");
  ctx->state = filling.state;
  ctx->scratch_bytes = filling.scratch_bytes;
  return ET_OK;
}

// Whether the arguments pass the run loop's checks, on which kernels rely.
static bool is_runnable(void) {
  et_value *base = args[0], *view = args[op->n_args - 1];
  for (size_t i = 0; i + 1 < op->n_args; i++) {
    if (args[i] == view && view->tag == ET_TENSOR && (view->as.tensor->flags & ET_TENSOR_CONSTANT))
      return false;
  }
  if (view->tag == ET_TENSOR && (view->as.tensor->flags & ET_TENSOR_CONSTANT)) return false;
  if (!op->is_view || base->tag != ET_TENSOR || view->tag != ET_TENSOR) return true;
  et_tensor *v = view->as.tensor;
  const et_tensor *b = base->as.tensor;
  v->data = b->data;
  v->capacity =
      b->capacity * et_dtype_bytes((et_dtype)b->dtype) / et_dtype_bytes((et_dtype)v->dtype);
  return v->numel <= v->capacity;
}

static et_status run(et_kernel_ctx *ctx) {
  const et_value *result = args[op->n_args - 1];
  const uint8_t tag = result->tag;
  const et_status status = op->run(ctx, args);
  const char *damage = fuzz_damage(&call);
  if (damage != NULL && !op->is_view) fail(damage);
  if (status == ET_OK && tag == ET_TENSOR && result->tag == ET_TENSOR &&
      result->as.tensor->numel > result->as.tensor->capacity)
    fail("the result is larger than its memory");
  return status;
}

static et_status call_once(uint64_t seed, et_error *err) {
  fuzz_call_begin(&call, op, seed);
  memset(args, 0, sizeof args);
  make_args();
  const size_t n_threads = fuzz_choose(&call, 3) == 0 ? 3 : 1;
  const et_pool pool = {.n_threads = n_threads, .run = run_backwards};
  et_random random = {.seed = seed};
  et_kernel_ctx ctx = {.err = err, .pool = n_threads > 1 ? &pool : NULL, .random = &random};
  void *memory = NULL, *scratch = NULL;
  et_status status = ET_OK;
  const bool is_prepared = op->prepare != NULL && fuzz_choose(&call, 2) == 0;
  if (is_prepared || op->needs_prepare)
    status = prepare(n_threads, !is_prepared, &ctx, &memory, err);
  // Runs a prepared operator twice: the first run may fill memory that the second relies on.
  for (int turn = 0; status == ET_OK && turn < (ctx.state == NULL ? 1 : 2); turn++) {
    fuzz_resize(&call);
    fuzz_remember(&call);
    if (scratch == NULL &&
        posix_memalign(&scratch, 64, ctx.scratch_bytes + (ctx.scratch_bytes == 0)) != 0)
      abort();
    ctx.scratch = scratch;
    if (is_runnable()) status = run(&ctx);
  }
  free(scratch);
  free(memory);
  fuzz_call_end(&call);
  return status;
}

typedef struct options {
  uint64_t seed;
  long n_calls;
  const char *op;
} options;

// Returns how many calls ended well; *n_learned receives how many kinds of arguments were learned.
static long fuzz_op(const options *o, long *n_learned) {
  find_lines();
  long n_ok = 0;
  *n_learned = 0;
  uint64_t name = 0;
  for (const char *p = op->name; *p != '\0'; p++) name = 31 * name + (uint8_t)*p;
  for (size_t i = 0; i < MAX_ARGS; i++) kinds[i] = ET_STRING;  // a kind that few arguments have
  for (number = 0; number < o->n_calls; number++) {
    et_error err = {0};
    watch_seconds(SECONDS_PER_CALL);
    const et_status status =
        call_once(o->seed * 0x9e3779b97f4a7c15u + name * 1000003u + (uint64_t)number, &err);
    n_ok += status == ET_OK;
    if (status != ET_OK && (err.status != status || err.message[0] == '\0'))
      fail("an error without a message");
    if (status != ET_OK && fuzz_choose(&call, 2) == 0) *n_learned += learn(err.message);
  }
  watch_seconds(0);
  return n_ok;
}

int main(int argc, char **argv) {
  options o = {.seed = 1, .n_calls = 300};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) o.seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--calls") == 0) o.n_calls = strtol(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--op") == 0) o.op = argv[i + 1];
    if (strcmp(argv[i], "--good") == 0) read_calls(argv[i + 1]);
  }
  watch_begin(tell);
  unsigned long n_ops = 0, n_calls = 0, n_ok = 0, n_never = 0, n_learning = 0;
  for (size_t i = 0; i < et_ops_portable.n_ops; i++) {
    op = &et_ops_portable.ops[i];
    if (o.op != NULL && strcmp(o.op, op->name) != 0) continue;
    long n_learned = 0;
    const long ok = fuzz_op(&o, &n_learned);
    n_ops++;
    n_calls += (unsigned long)o.n_calls;
    n_ok += (unsigned long)ok;
    n_learning += n_learned > 0;
    if (ok == 0) n_never++, fprintf(stderr, "never succeeded: %s\n", op->name);
    if (o.op != NULL) printf("%s: ok %ld, learned %ld\n", op->name, ok, n_learned);
  }
  printf("called %lu operators, %lu calls, %lu succeeded, %lu never, %lu learned\n", n_ops, n_calls,
         n_ok, n_never, n_learning);
  return n_ops > 0 ? 0 : 2;
}
