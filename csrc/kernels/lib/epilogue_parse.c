// epilogue_parse.c — epilogues from their text, see epilogue.h. Parses once, when a call is
// prepared: each step's name becomes its loop for this CPU. A file of its own, because selective
// builds keep the loops of all steps with it, which operators without epilogue do not need.
#include "kernels/lib/args.h"
#include "kernels/lib/epilogue.h"
#include "kernels/micro/eltwise/eltwise.h"

#include <math.h>
#include <string.h>

#define USES(kind, name, n_numbers) ETI_USES(kind, name)
ETI_EPILOGUE_LIST(USES)
#undef USES
ETI_USES(unary, hardswish)

typedef struct known_step {
  const char *name;
  eti_float_loop loop;
  uint8_t length, n_in, n_numbers;
} known_step;

#define LOOP_unary(name) ETI_UNARY_##name, sizeof #name - 1, 1
#define LOOP_binary(name) ETI_BINARY_##name, sizeof #name - 1, 2
#define STEP(kind, name, n_numbers) {#name, LOOP_##kind(name), n_numbers},
static const known_step known_steps[] = {ETI_EPILOGUE_LIST(STEP)};

static const known_step *find_step(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof known_steps / sizeof known_steps[0]; i++) {
    const known_step *const step = &known_steps[i];
    if (step->length == length && memcmp(step->name, name, length) == 0) return step;
  }
  return NULL;
}

// The numbers beside the text, used up from the first on.
typedef struct number_list {
  double values[2 * ETI_EPILOGUE_STEPS];
  size_t n, n_used;
} number_list;

static et_status next_number(const et_kernel_ctx *ctx, number_list *numbers, float *out) {
  ET_CHECK(numbers->n_used < numbers->n, ctx->err, ET_INVALID_PROGRAM,
           "epilogue: expected more numbers for its steps, got %zu", numbers->n);
  *out = (float)numbers->values[numbers->n_used++];
  return ET_OK;
}

static et_status read_source(const et_kernel_ctx *ctx, char c, eti_epilogue *epilogue,
                             number_list *numbers, eti_epilogue_step *step, size_t i) {
  if (c == '_') {
    step->in[i] = ETI_EPILOGUE_RUNNING;
  } else if (c == 'x') {
    step->in[i] = ETI_EPILOGUE_START;
    epilogue->keeps_start = epilogue->keeps_start || epilogue->n_steps > 0;
  } else if (c == 's') {
    step->in[i] = ETI_EPILOGUE_NUMBER;
    return next_number(ctx, numbers, &step->k[3]);
  } else {
    ET_CHECK(c >= '0' && (size_t)(c - '0') < epilogue->n_tensors, ctx->err, ET_INVALID_PROGRAM,
             "epilogue: expected operand _, x, s or the number of one of %zu tensors, got '%c'",
             epilogue->n_tensors, c >= ' ' && c <= '~' ? c : '?');
    step->in[i] = (uint8_t)(ETI_EPILOGUE_TENSOR + (c - '0'));
  }
  return ET_OK;
}

enum { WORD = 24 };

// Copies text of a file for a message, shortened to what fits.
static const char *word_of(const char *text, size_t length, char word[WORD]) {
  const size_t n = length < WORD ? length : WORD - 1;
  for (size_t i = 0; i < n; i++) word[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  word[n] = '\0';
  return word;
}

static et_status read_step(const et_kernel_ctx *ctx, const char *text, size_t length,
                           eti_epilogue *epilogue, number_list *numbers) {
  const char *const colon = memchr(text, ':', length);
  const size_t name = colon == NULL ? length : (size_t)(colon - text);
  const known_step *const found = find_step(text, name);
  char word[WORD];
  ET_CHECK(found != NULL, ctx->err, ET_NOT_SUPPORTED, "epilogue: there is no step '%s'",
           word_of(text, name, word));
  ET_CHECK(length - name == (found->n_in == 2 ? 3u : 0u), ctx->err, ET_INVALID_PROGRAM,
           "epilogue: step '%s': expected %s, got '%s'", found->name,
           found->n_in == 2 ? "two operands, as in 'add:_0'" : "no operands",
           word_of(text, length, word));
  ET_CHECK(epilogue->n_steps < ETI_EPILOGUE_STEPS, ctx->err, ET_INVALID_PROGRAM,
           "epilogue: expected at most %d steps, got more", (int)ETI_EPILOGUE_STEPS);
  eti_epilogue_step *const step = &epilogue->steps[epilogue->n_steps];
  *step = (eti_epilogue_step){.loop = eti_eltwise_get()->float_loops[0][found->loop],
                              .code = (uint8_t)found->loop,
                              .n_in = found->n_in,
                              .k = {0, 0, -0.0f, 0}};
  for (size_t i = 0; i < found->n_numbers; i++) ET_TRY(next_number(ctx, numbers, &step->k[i]));
  // Bounds that are NaN make everything NaN: see clamp in micro/eltwise/eltwise.body.h.
  if (found->n_numbers == 2 && (isnan(step->k[0]) || isnan(step->k[1]))) step->k[2] = NAN;
  for (size_t i = 0; found->n_in == 2 && i < 2; i++)
    ET_TRY(read_source(ctx, colon[1 + i], epilogue, numbers, step, i));
  epilogue->n_steps++;
  return ET_OK;
}

// Notes whether the epilogue is nothing but a clamp.
static void find_range(eti_epilogue *epilogue) {
  const eti_epilogue_step *const step = epilogue->steps;
  const bool is_relu = step->code == ETI_UNARY_relu, is_clamp = step->code == ETI_UNARY_clamp;
  epilogue->is_range = epilogue->n_steps == 1 && (is_relu || is_clamp);
  epilogue->range =
      is_relu ? ETI_CLAMP_RELU : (eti_clamp_range){step->k[0], step->k[1], step->k[2]};
}

static bool is_step(const eti_epilogue_step *step, eti_float_loop loop, eti_epilogue_source a,
                    eti_epilogue_source b) {
  return step->code == loop && step->in[0] == a && (step->n_in < 2 || step->in[1] == b);
}

// Replaces the first four steps by one loop if they are hardswish: "add:_s clamp mul:x_ div:_s",
// the lower bound of the clamp 0.
static void fuse_hardswish(eti_epilogue *epilogue) {
  const eti_epilogue_source running = ETI_EPILOGUE_RUNNING, number = ETI_EPILOGUE_NUMBER;
  eti_epilogue_step *const s = epilogue->steps;
  size_t n = epilogue->n_steps;
  if (n < 4 || !is_step(s, ETI_BINARY_add, running, number) ||
      !is_step(s + 1, ETI_UNARY_clamp, running, running) || isnan(s[1].k[2]) || s[1].k[0] != 0 ||
      signbit(s[1].k[0]) || !is_step(s + 2, ETI_BINARY_mul, ETI_EPILOGUE_START, running) ||
      !is_step(s + 3, ETI_BINARY_div, running, number))
    return;
  for (size_t i = 4; i < n; i++) {
    for (size_t o = 0; o < s[i].n_in; o++) {
      if (s[i].in[o] == ETI_EPILOGUE_START) return;
    }
  }
  s[0] = (eti_epilogue_step){.loop = eti_eltwise_get()->float_loops[0][ETI_UNARY_hardswish],
                             .code = ETI_UNARY_hardswish,
                             .n_in = 1,
                             .k = {s[0].k[3], s[1].k[1], s[3].k[3]}};
  n -= 3;
  memmove(s + 1, s + 4, (n - 1) * sizeof *s);
  epilogue->n_steps = n;
  epilogue->keeps_start = false;
}

static et_status parse_epilogue(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                size_t n_tensors, eti_epilogue *epilogue) {
  const char *text = NULL;
  number_list numbers = {.n = 0};
  bool present = false;
  ET_TRY(eti_arg_string(ctx, args, i, &text));
  ET_TRY(eti_arg_optional_doubles(ctx, args, i + 1, &present, numbers.values,
                                  sizeof numbers.values / sizeof numbers.values[0], &numbers.n));
  ET_CHECK(text != NULL && n_tensors <= ETI_EPILOGUE_TENSORS, ctx->err, ET_INVALID_PROGRAM,
           "epilogue: expected a text and a list of at most %d tensors, got %s and %zu tensors",
           (int)ETI_EPILOGUE_TENSORS, text == NULL ? "no text" : "a text", n_tensors);
  *epilogue = (eti_epilogue){.n_tensors = n_tensors};
  for (size_t length; *text != '\0'; text += length) {
    while (*text == ' ') text++;
    length = strcspn(text, " ");
    if (length > 0) ET_TRY(read_step(ctx, text, length, epilogue, &numbers));
  }
  ET_CHECK(epilogue->n_steps > 0, ctx->err, ET_INVALID_PROGRAM,
           "epilogue: expected a text of at least 1 step, got 0 steps");
  ET_CHECK(numbers.n_used == numbers.n, ctx->err, ET_INVALID_PROGRAM,
           "epilogue: expected %zu numbers for %zu steps, got %zu", numbers.n_used,
           epilogue->n_steps, numbers.n);
  fuse_hardswish(epilogue);
  find_range(epilogue);
  return ET_OK;
}

bool eti_epilogue_is_absent(et_value *const *args, size_t i) {
  return args[i] != NULL && args[i]->tag == ET_STRING && args[i]->as.string[0] == '\0';
}

// Measuring parses as well: a text that loading would refuse is refused before memory is claimed.
et_status eti_epilogue_prepare_steps(et_prepare_ctx *ctx, et_value *const *args, size_t i,
                                     size_t n_tensors, const eti_epilogue **out) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_epilogue parsed;
  ET_TRY(parse_epilogue(&k, args, i, n_tensors, &parsed));
  eti_epilogue *const kept = et_prepare_alloc(ctx, sizeof *kept, _Alignof(eti_epilogue));
  if (kept == NULL) return et_prepare_status(ctx);
  *kept = parsed;
  *out = kept;
  return ET_OK;
}

et_status eti_epilogue_prepare(et_prepare_ctx *ctx, et_value *const *args, size_t i,
                               const eti_epilogue **out) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  const et_value *const list = args[i + 2];
  ET_CHECK(list != NULL && list->tag == ET_TENSOR_LIST, k.err, ET_INVALID_PROGRAM,
           "epilogue: expected a list of tensors, got %s", eti_kind_name(list));
  return eti_epilogue_prepare_steps(ctx, args, i, list->n, out);
}

et_status eti_epilogue_prepare_optional(et_prepare_ctx *ctx, et_value *const *args, size_t i,
                                        const eti_epilogue **out) {
  *out = NULL;
  return eti_epilogue_is_absent(args, i) ? ET_OK : eti_epilogue_prepare(ctx, args, i, out);
}

et_status eti_epilogue_bind_optional(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                     const eti_epilogue *epilogue, const et_tensor *result,
                                     eti_epilogue_call *call, const eti_epilogue_call **found) {
  *found = NULL;
  if (eti_epilogue_is_absent(args, i)) return ET_OK;
  *found = call;
  return eti_epilogue_bind(ctx, args, i, epilogue, result, call);
}
