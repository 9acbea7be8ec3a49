// epilogue.c — see epilogue.h.
#include "kernels/lib/epilogue.h"

#include "kernels/lib/args.h"
#include "kernels/micro/eltwise/eltwise.h"

#include <math.h>
#include <string.h>

// Entries of the tables that are called as such.
ETI_USES(unary, clamp)
ETI_USES(unary, relu)

// ---- the steps there are

typedef struct chain_loop {
  const char *name;
  size_t micro;  // offset of the f32 loop in eti_eltwise
  uint8_t n_in, n_numbers;
} chain_loop;

#define UNARY(name) {#name, offsetof(eti_eltwise, unary.name), 1, 0}
#define UNARY_WITH(name, n) {#name, offsetof(eti_eltwise, unary.name), 1, n}
#define BINARY(name) {#name, offsetof(eti_eltwise, binary.name), 2, 0}
static const chain_loop chain_loops[] = {
    UNARY(abs),        UNARY(neg),       UNARY(relu),
    UNARY(sqrt),       UNARY(rsqrt),     UNARY(exp),
    UNARY(tanh),       UNARY(erf),       UNARY(sigmoid),
    UNARY(gelu),       UNARY(gelu_tanh), UNARY_WITH(clamp, 2),
    UNARY(reciprocal), BINARY(add),      UNARY_WITH(leaky_relu, 1),
    BINARY(sub),       BINARY(mul),      BINARY(div),
    BINARY(maximum),   BINARY(minimum),
};

static const chain_loop *find_loop(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof chain_loops / sizeof chain_loops[0]; i++) {
    const chain_loop *const l = &chain_loops[i];
    if (strlen(l->name) == length && memcmp(l->name, name, length) == 0) return l;
  }
  return NULL;
}

// ---- reading

typedef struct chain_numbers {
  double values[2 * ETI_CHAIN_STEPS];
  size_t n, used;
} chain_numbers;

static et_status next_number(const et_kernel_ctx *ctx, chain_numbers *numbers, float *out) {
  ET_CHECK(numbers->used < numbers->n, ctx->err, ET_INVALID_PROGRAM,
           "chain: %zu numbers, its steps need more", numbers->n);
  *out = (float)numbers->values[numbers->used++];
  return ET_OK;
}

static et_status read_source(const et_kernel_ctx *ctx, char c, eti_chain *chain,
                             chain_numbers *numbers, eti_chain_step *step, size_t i) {
  if (c == '_') {
    step->in[i] = ETI_CHAIN_RUNNING;
  } else if (c == 'x') {
    step->in[i] = ETI_CHAIN_START;
    chain->keeps_start = chain->keeps_start || chain->n_steps > 0;
  } else if (c == 's') {
    step->in[i] = ETI_CHAIN_NUMBER;
    return next_number(ctx, numbers, &step->k[3]);
  } else {
    ET_CHECK(c >= '0' && (size_t)(c - '0') < chain->n_tensors, ctx->err, ET_INVALID_PROGRAM,
             "chain: operand '%c', needs _, x, s or the number of one of %zu tensors",
             c >= ' ' && c <= '~' ? c : '?', chain->n_tensors);
    step->in[i] = (uint8_t)(ETI_CHAIN_TENSOR + (c - '0'));
  }
  return ET_OK;
}

static et_status read_step(const et_kernel_ctx *ctx, const char *text, size_t length,
                           eti_chain *chain, chain_numbers *numbers) {
  const char *const colon = memchr(text, ':', length);
  const size_t name = colon == NULL ? length : (size_t)(colon - text);
  const chain_loop *const found = find_loop(text, name);
  if (found == NULL) {
    char word[24] = {0};
    memcpy(word, text, name < sizeof word ? name : sizeof word - 1);
    return ET_FAIL(ctx->err, ET_NOT_SUPPORTED, "chain: there is no step '%s'", word);
  }
  ET_CHECK(length - name == (found->n_in == 2 ? 3u : 0u), ctx->err, ET_INVALID_PROGRAM,
           "chain: step '%s' needs %s", found->name,
           found->n_in == 2 ? "two operands, as in 'add:_0'" : "no operands");
  ET_CHECK(chain->n_steps < ETI_CHAIN_STEPS, ctx->err, ET_INVALID_PROGRAM,
           "chain: more than %d steps", (int)ETI_CHAIN_STEPS);
  eti_chain_step *const step = &chain->steps[chain->n_steps];
  *step = (eti_chain_step){.n_in = found->n_in, .k = {0, 0, -0.0f, 0}};
  memcpy(&step->loop, (const char *)eti_eltwise_get() + found->micro, sizeof step->loop);
  for (size_t i = 0; i < found->n_numbers; i++) ET_TRY(next_number(ctx, numbers, &step->k[i]));
  // Bounds that are NaN make everything NaN: see clamp in micro/eltwise.body.h.
  if (found->n_numbers == 2 && (isnan(step->k[0]) || isnan(step->k[1]))) step->k[2] = NAN;
  for (size_t i = 0; found->n_in == 2 && i < 2; i++)
    ET_TRY(read_source(ctx, colon[1 + i], chain, numbers, step, i));
  chain->n_steps++;
  return ET_OK;
}

et_status eti_chain_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         eti_chain *chain) {
  const char *text = NULL;
  et_value *const *list;
  chain_numbers numbers = {.n = 0};
  bool present = false;
  size_t n_tensors = 0;
  ET_TRY(eti_arg_string(ctx, args, i, &text));
  ET_TRY(eti_arg_optional_doubles(ctx, args, i + 1, &present, numbers.values,
                                  sizeof numbers.values / sizeof numbers.values[0], &numbers.n));
  ET_TRY(eti_arg_tensors(ctx, args, i + 2, &list, &n_tensors));
  ET_CHECK(text != NULL && n_tensors <= ETI_CHAIN_TENSORS, ctx->err, ET_INVALID_PROGRAM,
           "chain: %s and %zu tensors, needs a text and at most %d tensors",
           text == NULL ? "no text" : "a text", n_tensors, (int)ETI_CHAIN_TENSORS);
  *chain = (eti_chain){.n_tensors = n_tensors};
  for (size_t t = 0; t < n_tensors; t++) {
    chain->tensors[t] = eti_list_tensor(list, t);
    ET_CHECK(chain->tensors[t] != NULL, ctx->err, ET_INVALID_PROGRAM,
             "chain: entry %zu of its tensors is no tensor", t);
  }
  for (size_t length; *text != '\0'; text += length) {
    while (*text == ' ') text++;
    length = strcspn(text, " ");
    if (length > 0) ET_TRY(read_step(ctx, text, length, chain, &numbers));
  }
  ET_CHECK(numbers.used == numbers.n && chain->n_steps > 0, ctx->err, ET_INVALID_PROGRAM,
           "chain: %zu steps that need %zu numbers, there are %zu", chain->n_steps, numbers.used,
           numbers.n);
  return ET_OK;
}

et_status eti_chain_check(const et_kernel_ctx *ctx, const eti_chain *chain, const et_tensor *out) {
  ET_CHECK(out->dtype == ET_F32, ctx->err, ET_NOT_SUPPORTED, "chain: the result is %s, needs f32",
           et_dtype_name((et_dtype)out->dtype));
  for (size_t i = 0; i < chain->n_tensors; i++) {
    const et_tensor *const t = chain->tensors[i];
    ET_CHECK(t->dtype == ET_F32 && t->numel == out->numel, ctx->err, ET_INVALID_ARGUMENT,
             "chain: tensor %zu is %s of %zu elements, needs f32 of %zu", i,
             et_dtype_name((et_dtype)t->dtype), (size_t)t->numel, (size_t)out->numel);
    ET_CHECK(eti_same_layout(t, out) || (eti_is_contiguous(t) && eti_is_contiguous(out)), ctx->err,
             ET_INVALID_ARGUMENT, "chain: tensor %zu does not lie as the result does", i);
    ET_CHECK(t->numel == 0 || t->data != NULL || eti_is_preparing(ctx), ctx->err,
             ET_INVALID_ARGUMENT, "chain: tensor %zu has no memory", i);
  }
  return ET_OK;
}

bool eti_chain_is_range(const eti_chain *chain, eti_range *range) {
  const eti_chain_step *const step = chain->steps;
  const bool is_relu = step->loop == eti_eltwise_get()->unary.relu;
  if (chain->n_steps != 1 || (!is_relu && step->loop != eti_eltwise_get()->unary.clamp))
    return false;
  *range = is_relu ? ETI_RELU_RANGE : (eti_range){step->k[0], step->k[1], step->k[2]};
  return true;
}

// ---- running

enum { BLOCK = 1024 };

static const void *operand_of(const eti_chain *chain, const eti_chain_step *step, size_t i,
                              const float *running, const float *start, size_t at) {
  switch (step->in[i]) {
    case ETI_CHAIN_RUNNING:
      return running;
    case ETI_CHAIN_START:
      return start;
    case ETI_CHAIN_NUMBER:
      return &step->k[3];
    default:
      return (const float *)chain->tensors[step->in[i] - ETI_CHAIN_TENSOR]->data + at;
  }
}

void eti_chain_row(const eti_chain *chain, const float *in, float *out, size_t at, size_t n) {
  float kept[BLOCK];
  for (size_t i = 0, count; i < n; i += count) {
    count = n - i < BLOCK ? n - i : BLOCK;
    const float *start = in + i, *running = start;
    if (chain->keeps_start && in == out) start = memcpy(kept, start, count * sizeof(float));
    for (size_t t = 0; t < chain->n_steps; t++) {
      const eti_chain_step *const step = &chain->steps[t];
      void *p[3] = {out + i};
      ptrdiff_t s[3] = {sizeof(float), sizeof(float), sizeof(float)};
      for (size_t o = 0; o < step->n_in; o++) {
        p[o + 1] = (void *)(uintptr_t)operand_of(chain, step, o, running, start, at + i);
        if (step->in[o] == ETI_CHAIN_NUMBER) s[o + 1] = 0;
      }
      step->loop(p, s, count, step->k);
      running = out + i;
    }
  }
}

void eti_chain_rows(const eti_chain *chain, float *rows, size_t step, size_t at, size_t n_rows,
                    size_t n) {
  if (step == n) {
    eti_chain_row(chain, rows, rows, at, n_rows * n);
    return;
  }
  for (size_t r = 0; r < n_rows; r++, rows += step, at += step)
    eti_chain_row(chain, rows, rows, at, n);
}

typedef struct whole {
  const eti_chain *chain;
  const float *in;
  float *out;
} whole;

static void run_range(void *ctx, size_t begin, size_t end) {
  const whole *const w = ctx;
  eti_chain_row(w->chain, w->in + begin, w->out + begin, begin, end - begin);
}

void eti_chain_all(const et_pool *pool, const eti_chain *chain, const et_tensor *in,
                   const et_tensor *out) {
  whole w = {.chain = chain, .in = in->data, .out = out->data};
  et_parallel_for(pool, run_range, &w, out->numel, ETI_GRAIN_MATH);
}
