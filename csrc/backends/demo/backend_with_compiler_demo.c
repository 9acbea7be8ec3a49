// backend_with_compiler_demo.c — the delegate "BackendWithCompilerDemo" of upstream's tutorials:
// its payload is text with one entry for each operator,
//
//   <count>version:0#op:demo::<name>, numel:<n>, dtype:torch.float32<debug_handle><handle>#…
//
// The text does not say which operator reads which tensor, so the operators form a chain: the first
// one reads the first inputs; each further one reads the result so far, and an addition the next
// input. It knows aten.mm.default (first only), aten.add.Tensor without broadcasting, and
// aten.sin.default by two terms of its series, x - x³/6, as upstream's. A compile specification, if
// there is one, holds an int32 that must not exceed 4.
//
// A payload is untrusted: init checks all of it, and execute relies on that.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/et.h"
#include "runtime/message_text.h"

enum { VERSION = 0, MAX_SHAPE = 4, MIN_ENTRY_BYTES = 64 };

typedef enum operator_kind { OP_SIN, OP_ADD, OP_MM } operator_kind;

static const struct {
  const char *name;
  operator_kind kind;
  uint32_t n_inputs;  // as the first of a chain; one less as a further one
} operators[] = {
    {"aten.sin.default", OP_SIN, 1}, {"aten.add.Tensor", OP_ADD, 2}, {"aten.mm.default", OP_MM, 2}};

typedef struct demo_chain {
  uint32_t n_operators, n_inputs;
  uint64_t numel;  // of every result
  operator_kind kinds[];
} demo_chain;

// ---- Reading the payload

typedef struct reader {
  const uint8_t *at;
  size_t left;
} reader;

// The next bytes of the payload for a message, '?' in place of those that are no printable ASCII.
static eti_text next_text(const reader *r) {
  enum { LONGEST = 32 };
  eti_text out = {"the end of the payload"};
  const size_t n = r->left < LONGEST ? r->left : LONGEST;
  if (n == 0) return out;
  out.text[0] = '\'';
  for (size_t i = 0; i < n; i++)
    out.text[1 + i] = r->at[i] >= ' ' && r->at[i] < 0x7f ? (char)r->at[i] : '?';
  out.text[1 + n] = '\'';
  out.text[2 + n] = '\0';
  return out;
}

static bool read_text(reader *r, const char *text) {
  const size_t n = strlen(text);
  if (n > r->left || memcmp(r->at, text, n) != 0) return false;
  r->at += n;
  r->left -= n;
  return true;
}

static bool read_number(reader *r, uint64_t *out) {
  const uint8_t *const begin = r->at;
  uint64_t number = 0;
  while (r->left > 0 && *r->at >= '0' && *r->at <= '9' && number < UINT32_MAX) {
    number = number * 10 + (uint64_t)(*r->at - '0');
    r->at++;
    r->left--;
  }
  *out = number;
  return r->at != begin;
}

static const char *operator_name(operator_kind kind) {
  size_t i = 0;
  while (operators[i].kind != kind) i++;
  return operators[i].name;
}

static bool read_operator(reader *r, operator_kind *kind, uint32_t *n_inputs) {
  for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
    if (!read_text(r, operators[i].name)) continue;
    *kind = operators[i].kind;
    *n_inputs = operators[i].n_inputs;
    return true;
  }
  return false;
}

static et_status read_entry(reader *r, uint32_t i, demo_chain *chain, operator_kind *kind,
                            et_error *err) {
  uint64_t numel, handle;
  uint32_t n_inputs = 0;
  ET_CHECK(read_text(r, "op:demo::") && read_operator(r, kind, &n_inputs), err, ET_NOT_SUPPORTED,
           "entry %lu: expected aten.mm.default, aten.add.Tensor or aten.sin.default, got %s",
           (unsigned long)i, next_text(r).text);
  ET_CHECK(read_text(r, ", numel:") && read_number(r, &numel), err, ET_INVALID_PROGRAM,
           "entry %lu: expected a number of elements, got %s", (unsigned long)i, next_text(r).text);
  ET_CHECK(read_text(r, ", dtype:torch.float32<debug_handle>"), err, ET_NOT_SUPPORTED,
           "entry %lu: expected dtype torch.float32, got %s", (unsigned long)i, next_text(r).text);
  ET_CHECK(read_number(r, &handle) && read_text(r, "#"), err, ET_INVALID_PROGRAM,
           "entry %lu: expected a debug handle and '#', got %s", (unsigned long)i,
           next_text(r).text);
  ET_CHECK(i == 0 || (*kind != OP_MM && numel == chain->numel), err, ET_NOT_SUPPORTED,
           "entry %lu: expected an element-wise operator with %llu elements, got %s with %llu",
           (unsigned long)i, (unsigned long long)chain->numel, operator_name(*kind),
           (unsigned long long)numel);
  chain->numel = numel;
  chain->n_inputs += i == 0 ? n_inputs : n_inputs - 1;
  return ET_OK;
}

static et_status read_head(reader *r, uint32_t *n, et_error *err) {
  const reader begin = *r;
  uint64_t count = 0, version = 0;
  ET_CHECK(read_number(r, &count) && read_text(r, "version:") && read_number(r, &version), err,
           ET_INVALID_PROGRAM,
           "the payload: expected it to begin with '<count>version:<number>#', got %s",
           next_text(&begin).text);
  ET_CHECK(version == VERSION, err, ET_DELEGATE_INCOMPATIBLE,
           "payload version: expected %d, got %llu", VERSION, (unsigned long long)version);
  ET_CHECK(read_text(r, "#") && count > 0 && count <= r->left / MIN_ENTRY_BYTES, err,
           ET_INVALID_PROGRAM,
           "the payload: expected '#' and as many entries as it has, 1 or more, got %llu",
           (unsigned long long)count);
  *n = (uint32_t)count;
  return ET_OK;
}

// The value is little-endian and may be shorter than an int32.
static et_status check_spec(const et_delegate_init *init) {
  uint32_t shape = 0;
  const size_t bytes = init->n_specs == 0 ? 0 : init->specs[0].value_bytes;
  for (size_t i = 0; i < bytes && i < sizeof shape; i++)
    shape |= (uint32_t)init->specs[0].value[i] << 8 * i;
  ET_CHECK((int32_t)shape <= MAX_SHAPE, init->prepare->err, ET_INVALID_ARGUMENT,
           "compile specification '%s': expected at most %d, got %ld", init->specs[0].key,
           MAX_SHAPE, (long)(int32_t)shape);
  return ET_OK;
}

static et_status init(et_delegate_init *init, void **handle) {
  et_error *const err = init->prepare->err;
  reader r = {init->payload, init->payload_bytes};
  demo_chain read = {.n_inputs = 0};
  ET_TRY(check_spec(init));
  ET_TRY(read_head(&r, &read.n_operators, err));
  const size_t bytes = sizeof read + read.n_operators * sizeof read.kinds[0];
  demo_chain *const kept = et_prepare_alloc(init->prepare, bytes, _Alignof(demo_chain));
  ET_TRY(et_prepare_status(init->prepare));
  for (uint32_t i = 0; i < read.n_operators; i++) {
    operator_kind kind = OP_SIN;
    ET_TRY(read_entry(&r, i, &read, &kind, err));
    if (!init->prepare->measuring) kept->kinds[i] = kind;
  }
  if (init->prepare->measuring) return ET_OK;
  kept->n_operators = read.n_operators;
  kept->n_inputs = read.n_inputs;
  kept->numel = read.numel;
  *handle = kept;
  return ET_OK;
}

// ---- Running

static et_status check_args(const demo_chain *chain, const et_delegate_call *call) {
  ET_CHECK(call->n_args == (size_t)chain->n_inputs + 1, call->err, ET_NOT_SUPPORTED,
           "expected %lu inputs and an output, got %zu arguments", (unsigned long)chain->n_inputs,
           call->n_args);
  for (size_t k = 0; k < call->n_args; k++) {
    ET_CHECK(call->args[k]->tag == ET_TENSOR, call->err, ET_INVALID_TYPE,
             "argument %zu: expected a tensor, got %s", k, eti_kind_name(call->args[k]));
    const et_tensor *const t = call->args[k]->as.tensor;
    ET_CHECK(t->dtype == ET_F32 && (t->flags & ET_TENSOR_CONTIGUOUS) != 0, call->err,
             ET_NOT_SUPPORTED, "argument %zu: expected a contiguous f32 tensor, got %s%s", k,
             et_dtype_name((et_dtype)t->dtype),
             (t->flags & ET_TENSOR_CONTIGUOUS) != 0 ? "" : " in another memory layout");
    ET_CHECK(t->data != NULL || t->numel == 0, call->err, ET_INVALID_STATE,
             "argument %zu has no memory", k);
  }
  const et_tensor *const out = call->args[chain->n_inputs]->as.tensor;
  ET_CHECK((out->flags & ET_TENSOR_CONSTANT) == 0, call->err, ET_INVALID_PROGRAM,
           "the output is a constant and would be written");
  for (size_t k = 0; k < chain->n_inputs; k++)
    ET_CHECK(call->args[k]->as.tensor->data != out->data || out->numel == 0, call->err,
             ET_INVALID_PROGRAM, "argument %zu is the output, too", k);
  return ET_OK;
}

static et_status check_numel(const demo_chain *chain, const et_tensor *t, et_error *err) {
  ET_CHECK(t->numel == chain->numel, err, ET_NOT_SUPPORTED,
           "expected a tensor with %llu elements, got %zu", (unsigned long long)chain->numel,
           t->numel);
  return ET_OK;
}

static et_status multiply(const demo_chain *chain, const et_tensor *a, const et_tensor *b,
                          et_tensor *out, et_error *err) {
  ET_CHECK(a->rank == 2 && b->rank == 2 && a->sizes[1] == b->sizes[0], err, ET_NOT_SUPPORTED,
           "mm: expected two matrices [n, k] and [k, m], got %s and %s",
           eti_sizes_text(a->sizes, a->rank).text, eti_sizes_text(b->sizes, b->rank).text);
  const int32_t sizes[2] = {a->sizes[0], b->sizes[1]};
  ET_TRY(et_tensor_resize(out, sizes, 2, err));
  ET_TRY(check_numel(chain, out, err));
  const float *const x = a->data, *const y = b->data;
  float *const z = out->data;
  const size_t n = (size_t)a->sizes[0], depth = (size_t)a->sizes[1], m = (size_t)b->sizes[1];
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < m; j++) {
      float sum = 0;
      for (size_t k = 0; k < depth; k++) sum += x[i * depth + k] * y[k * m + j];
      z[i * m + j] = sum;
    }
  }
  return ET_OK;
}

static void apply(operator_kind kind, const float *a, const float *b, float *out, size_t n) {
  for (size_t i = 0; i < n; i++)
    out[i] = kind == OP_ADD ? a[i] + b[i] : a[i] - a[i] * a[i] * a[i] / 6.0f;
}

static et_status execute(void *handle, const et_delegate_call *call) {
  const demo_chain *const chain = handle;
  ET_TRY(check_args(chain, call));
  et_tensor *const out = call->args[chain->n_inputs]->as.tensor;
  uint32_t next = 0;  // input
  for (uint32_t i = 0; i < chain->n_operators; i++) {
    const operator_kind kind = chain->kinds[i];
    const et_tensor *const a = i == 0 ? call->args[next++]->as.tensor : out;
    const et_tensor *const b = kind == OP_SIN ? a : call->args[next++]->as.tensor;
    if (kind == OP_MM) {
      ET_TRY(multiply(chain, a, b, out, call->err));
      continue;
    }
    ET_TRY(check_numel(chain, a, call->err));
    ET_TRY(check_numel(chain, b, call->err));
    if (i == 0) ET_TRY(et_tensor_resize(out, a->sizes, a->rank, call->err));
    ET_TRY(check_numel(chain, out, call->err));
    apply(kind, a->data, b->data, out->data, out->numel);
  }
  return ET_OK;
}

extern const et_backend et_backend_with_compiler_demo;
const et_backend et_backend_with_compiler_demo = {
    .id = "BackendWithCompilerDemo",
    .init = init,
    .execute = execute,
};
