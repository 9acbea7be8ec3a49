// reference_backend.c — a tiny delegate in plain C: element-wise f32 arithmetic without
// broadcasting. It is an example for authors of backends and a test double for the delegate
// interface. Its payload format is described in executorch_py/backends/reference/README.md. Relies
// on the public header and the runtime's checks only.
//
// A payload is untrusted: init checks everything in it, and execute relies on that.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/et.h"
#include "runtime/message_text.h"

#define BLOCK 64  // elements that are computed at a time; the size of a temporary
#define NO_OPERAND 0xffffffffu

enum { OP_ADD = 1, OP_SUB = 2, OP_MUL = 3, OP_RELU = 4 };

typedef struct node {
  uint32_t opcode, in0, in1, out;
} node;

typedef struct constant {
  uint32_t id;
  et_blob blob;
} constant;

// Values are numbered inputs, outputs, temporaries, constants.
typedef struct reference {
  uint32_t n_inputs, n_outputs, n_temps, n_nodes, n_constants;
  et_named_data named_data;
  node *nodes;
  constant *constants;
  float *temps;            // n_temps × BLOCK
  const et_tensor **like;  // [values] an input of the value's shape in this run; NULL of constants
  uint8_t *is_written;     // [values], while the payload is read
} reference;

// ---- Reading the payload

typedef struct reader {
  const uint8_t *at;
  size_t left;
} reader;

static bool read_bytes(reader *r, size_t bytes, const uint8_t **out) {
  if (bytes > r->left) return false;
  *out = r->at;
  r->at += bytes;
  r->left -= bytes;
  return true;
}

static bool read_u32(reader *r, uint32_t *out) {
  const uint8_t *p;
  if (!read_bytes(r, 4, &p)) return false;
  *out = eti_u32(p);
  return true;
}

static et_status read_header(reader *r, reference *h, et_error *err) {
  const uint8_t *magic;
  uint32_t version = 0;
  ET_CHECK(read_bytes(r, 4, &magic), err, ET_DELEGATE_INCOMPATIBLE,
           "the payload: expected it to begin with 'ETRF', got %zu bytes", r->left);
  ET_CHECK(
      memcmp(magic, "ETRF", 4) == 0, err, ET_DELEGATE_INCOMPATIBLE,
      "the payload is not of the reference backend: expected it to begin with 'ETRF', got bytes "
      "%x %x %x %x",
      magic[0], magic[1], magic[2], magic[3]);
  ET_CHECK(read_u32(r, &version) && version == 1, err, ET_DELEGATE_INCOMPATIBLE,
           "expected payload version 1, got %lu", (unsigned long)version);
  ET_CHECK(read_u32(r, &h->n_inputs) && read_u32(r, &h->n_outputs) && read_u32(r, &h->n_temps) &&
               read_u32(r, &h->n_nodes) && h->n_nodes <= r->left / sizeof(node),
           err, ET_INVALID_PROGRAM, "the payload is truncated");
  // More values than nodes could use are a sign of damage; the limit also keeps sums in range.
  const uint32_t limit = 1u << 20;
  ET_CHECK(
      h->n_inputs <= limit && h->n_outputs <= limit && h->n_temps <= limit, err, ET_INVALID_PROGRAM,
      "expected at most %lu inputs, outputs and temporaries each, got %lu inputs, %lu outputs, "
      "%lu temporaries",
      (unsigned long)limit, (unsigned long)h->n_inputs, (unsigned long)h->n_outputs,
      (unsigned long)h->n_temps);
  return ET_OK;
}

static et_status read_node(reader *r, const reference *h, uint32_t n_values, node *out,
                           et_error *err) {
  const uint8_t *p;
  ET_CHECK(read_bytes(r, sizeof *out, &p), err, ET_INVALID_PROGRAM, "the payload is truncated");
  memcpy(out, p, sizeof *out);
  const bool is_unary = out->opcode == OP_RELU;
  const uint32_t first_temp_end = h->n_inputs + h->n_outputs + h->n_temps;
  ET_CHECK(out->opcode >= OP_ADD && out->opcode <= OP_RELU && out->in0 < n_values &&
               (is_unary || out->in1 < n_values) && out->out >= h->n_inputs &&
               out->out < first_temp_end,
           err, ET_INVALID_PROGRAM,
           "a node: expected an opcode of 1 to 4 and values below %lu, the last one an output or a "
           "temporary, got opcode %lu and values %lu, %lu → %lu",
           (unsigned long)n_values, (unsigned long)out->opcode, (unsigned long)out->in0,
           (unsigned long)out->in1, (unsigned long)out->out);
  ET_CHECK(!is_unary || out->in1 == NO_OPERAND, err, ET_INVALID_PROGRAM,
           "a node of opcode %lu: expected no second operand, got value %lu",
           (unsigned long)out->opcode, (unsigned long)out->in1);
  return ET_OK;
}

// Checks that values other than inputs and constants are written once, before they are read.
static et_status check_order(const reference *h, const node *one, uint32_t n_values,
                             et_error *err) {
  const uint32_t end = h->n_inputs + h->n_outputs + h->n_temps;
  const uint32_t operands[] = {one->in0, one->in1};
  for (size_t k = 0; k < 2; k++) {
    const uint32_t id = operands[k];
    const bool is_made = id != NO_OPERAND && id >= h->n_inputs && id < end;
    ET_CHECK(!is_made || h->is_written[id], err, ET_INVALID_PROGRAM,
             "value %lu of %lu is read before it is written", (unsigned long)id,
             (unsigned long)n_values);
  }
  ET_CHECK(!h->is_written[one->out], err, ET_INVALID_PROGRAM, "value %lu is written twice",
           (unsigned long)one->out);
  h->is_written[one->out] = 1;
  return ET_OK;
}

// Reads entry k of the constants and gets its bytes. While measuring, this checks that they exist.
static et_status read_constant(reader *r, et_delegate_init *init, uint32_t id, constant *out) {
  et_error *err = init->prepare->err;
  uint32_t key_bytes = 0;
  const uint8_t *text;
  char key[256];
  ET_CHECK(read_u32(r, &out->id) && read_u32(r, &key_bytes) && key_bytes < sizeof key &&
               read_bytes(r, (key_bytes + 3u) & ~3u, &text),
           err, ET_INVALID_PROGRAM, "the payload is truncated, or a key has %lu bytes",
           (unsigned long)key_bytes);
  ET_CHECK(out->id == id, err, ET_INVALID_PROGRAM, "a constant: expected id %lu, got %lu",
           (unsigned long)id, (unsigned long)out->id);
  memcpy(key, text, key_bytes);
  key[key_bytes] = '\0';
  return init->named_data->get(init->named_data->ctx, key, &out->blob, err);
}

// ---- The three functions of a backend

static void destroy(void *handle) {
  reference *h = handle;
  for (uint32_t k = 0; k < h->n_constants; k++)
    h->named_data.release(h->named_data.ctx, &h->constants[k].blob);
  h->n_constants = 0;
}

// Reads nodes and constants into a handle. While measuring, they are checked and not stored.
static et_status fill_handle(et_delegate_init *init, reader *r, reference *h,
                             uint32_t n_constants) {
  et_error *err = init->prepare->err;
  const bool is_kept = !init->prepare->measuring;
  const uint32_t first_constant = h->n_inputs + h->n_outputs + h->n_temps;
  for (uint32_t k = 0; k < h->n_nodes; k++) {
    node one;
    ET_TRY(read_node(r, h, first_constant + n_constants, &one, err));
    if (!is_kept) continue;
    ET_TRY(check_order(h, &one, first_constant + n_constants, err));
    h->nodes[k] = one;
  }
  for (uint32_t id = h->n_inputs; is_kept && id < first_constant; id++) {
    ET_CHECK(h->is_written[id], err, ET_INVALID_PROGRAM, "value %lu is never written",
             (unsigned long)id);
  }
  uint32_t repeated;
  ET_CHECK(read_u32(r, &repeated) && repeated == n_constants, err, ET_INTERNAL,
           "the payload changed while it was read");
  for (uint32_t k = 0; k < n_constants; k++) {
    constant one = {0};
    ET_TRY(read_constant(r, init, first_constant + k, &one));
    if (is_kept) {
      h->constants[h->n_constants++] = one;
    } else {
      h->named_data.release(h->named_data.ctx, &one.blob);
    }
  }
  return ET_OK;
}

static et_status init(et_delegate_init *init, void **handle) {
  et_error *err = init->prepare->err;
  reader r = {init->payload, init->payload_bytes};
  reference h = {.named_data = *init->named_data};
  ET_TRY(read_header(&r, &h, err));
  reader behind_nodes = {r.at + h.n_nodes * sizeof(node), r.left - h.n_nodes * sizeof(node)};
  uint32_t n_constants;
  ET_CHECK(read_u32(&behind_nodes, &n_constants) && n_constants <= behind_nodes.left / 8, err,
           ET_INVALID_PROGRAM, "the payload is truncated");
  reference *kept = et_prepare_alloc(init->prepare, sizeof *kept, _Alignof(reference));
  h.nodes = et_prepare_alloc(init->prepare, h.n_nodes * sizeof(node), _Alignof(node));
  h.constants = et_prepare_alloc(init->prepare, n_constants * sizeof(constant), _Alignof(constant));
  h.temps = et_prepare_alloc(init->prepare, h.n_temps * BLOCK * sizeof(float), _Alignof(float));
  const size_t n_values = (size_t)h.n_inputs + h.n_outputs + h.n_temps + n_constants;
  h.like = et_prepare_alloc(init->prepare, n_values * sizeof *h.like, _Alignof(et_tensor *));
  h.is_written = et_prepare_alloc(init->prepare, n_values, 1);
  ET_TRY(et_prepare_status(init->prepare));
  if (h.is_written != NULL) memset(h.is_written, 0, n_values);
  const et_status status = fill_handle(init, &r, &h, n_constants);
  if (status != ET_OK) {
    destroy(&h);
    return status;
  }
  if (!init->prepare->measuring) {
    *kept = h;
    *handle = kept;
  }
  return ET_OK;
}

// Returns a block of value `id`: in place, or a copy if it may be misaligned.
static const float *load_block(const reference *h, et_value *const *args, uint32_t id, size_t begin,
                               size_t n, float *copy) {
  const uint32_t n_args = h->n_inputs + h->n_outputs;
  if (id < n_args) return (const float *)args[id]->as.tensor->data + begin;
  if (id < n_args + h->n_temps) return h->temps + (size_t)(id - n_args) * BLOCK;
  const uint8_t *bytes = h->constants[id - n_args - h->n_temps].blob.data;
  memcpy(copy, bytes + begin * sizeof(float), n * sizeof(float));  // named data is not aligned
  return copy;
}

static void run_node(const reference *h, et_value *const *args, const node *one, size_t begin,
                     size_t n) {
  float copies[2][BLOCK];
  const uint32_t n_args = h->n_inputs + h->n_outputs;
  const float *a = load_block(h, args, one->in0, begin, n, copies[0]);
  const float *b = one->opcode == OP_RELU ? a : load_block(h, args, one->in1, begin, n, copies[1]);
  float *out = one->out < n_args ? (float *)args[one->out]->as.tensor->data + begin
                                 : h->temps + (size_t)(one->out - n_args) * BLOCK;
  for (size_t i = 0; i < n; i++) {
    switch (one->opcode) {
      case OP_ADD:
        out[i] = a[i] + b[i];
        break;
      case OP_SUB:
        out[i] = a[i] - b[i];
        break;
      case OP_MUL:
        out[i] = a[i] * b[i];
        break;
      default:
        out[i] = a[i] < 0 ? 0 : a[i];  // NaN stays NaN
    }
  }
}

static et_status check_args(const reference *h, const et_delegate_call *call) {
  const size_t n_args = (size_t)h->n_inputs + h->n_outputs;
  ET_CHECK(call->n_args == n_args, call->err, ET_INVALID_PROGRAM,
           "expected %lu inputs and %lu outputs, got %zu arguments", (unsigned long)h->n_inputs,
           (unsigned long)h->n_outputs, call->n_args);
  for (size_t k = 0; k < n_args; k++) {
    ET_CHECK(call->args[k]->tag == ET_TENSOR, call->err, ET_INVALID_TYPE,
             "argument %zu: expected a tensor, got %s", k, eti_kind_name(call->args[k]));
    const et_tensor *t = call->args[k]->as.tensor;
    const bool is_output = k >= h->n_inputs;
    ET_CHECK(t->dtype == ET_F32 && (t->flags & ET_TENSOR_CONTIGUOUS) != 0, call->err,
             ET_NOT_SUPPORTED, "argument %zu: expected a contiguous f32 tensor, got %s%s", k,
             et_dtype_name((et_dtype)t->dtype),
             (t->flags & ET_TENSOR_CONTIGUOUS) != 0 ? "" : " in another memory layout");
    ET_CHECK(!is_output || (t->flags & ET_TENSOR_CONSTANT) == 0, call->err, ET_INVALID_PROGRAM,
             "argument %zu is a constant and would be written", k);
    h->like[k] = t;
  }
  return ET_OK;
}

// Finds a tensor of the shape that all of a node's operands have.
static et_status find_shape(const reference *h, const node *one, size_t k, const et_tensor **out,
                            et_error *err) {
  const uint32_t first_constant = h->n_inputs + h->n_outputs + h->n_temps;
  const et_tensor *a = one->in0 < first_constant ? h->like[one->in0] : NULL;
  const et_tensor *b = one->in1 < first_constant ? h->like[one->in1] : NULL;
  const et_tensor *like = a != NULL ? a : b;
  ET_CHECK(like != NULL, err, ET_NOT_SUPPORTED, "node %zu has no operand but constants", k);
  ET_CHECK(a == NULL || b == NULL || a->numel == b->numel, err, ET_NOT_SUPPORTED,
           "node %zu: expected operands of one shape, got %zu and %zu elements", k,
           a == NULL ? 0 : a->numel, b == NULL ? 0 : b->numel);
  const uint32_t operands[] = {one->in0, one->in1};
  for (size_t i = 0; i < 2; i++) {
    if (operands[i] == NO_OPERAND || operands[i] < first_constant) continue;
    const size_t bytes = h->constants[operands[i] - first_constant].blob.size;
    ET_CHECK(bytes / sizeof(float) == like->numel, err, ET_INVALID_PROGRAM,
             "constant %lu: expected %zu elements, got %zu bytes", (unsigned long)operands[i],
             like->numel, bytes);
  }
  *out = like;
  return ET_OK;
}

// Finds the shape of every value, resizes outputs, and finds the greatest element count.
static et_status find_shapes(const reference *h, const et_delegate_call *call, size_t *max_numel) {
  const uint32_t n_args = h->n_inputs + h->n_outputs;
  const et_tensor *like;
  *max_numel = 0;
  for (uint32_t k = 0; k < h->n_nodes; k++) {
    const uint32_t out = h->nodes[k].out;
    ET_TRY(find_shape(h, &h->nodes[k], k, &like, call->err));
    h->like[out] = like;
    if (out < n_args)
      ET_TRY(et_tensor_resize(call->args[out]->as.tensor, like->sizes, like->rank, call->err));
    if (like->numel > *max_numel) *max_numel = like->numel;
  }
  // A damaged file may use one tensor twice: then a resize has changed the shape of another value.
  for (uint32_t k = 0; k < h->n_nodes; k++) {
    const uint32_t out = h->nodes[k].out;
    ET_TRY(find_shape(h, &h->nodes[k], k, &like, call->err));
    ET_CHECK(like->numel <= *max_numel &&
                 (out >= n_args || call->args[out]->as.tensor->numel == like->numel),
             call->err, ET_INVALID_PROGRAM,
             "value %lu is an output and the same tensor as another argument", (unsigned long)out);
  }
  for (uint32_t k = 0; k < n_args; k++) {
    const et_tensor *t = call->args[k]->as.tensor;
    ET_CHECK(t->data != NULL || t->numel == 0, call->err, ET_INVALID_STATE,
             "argument %lu has no memory", (unsigned long)k);
  }
  return ET_OK;
}

static et_status execute(void *handle, const et_delegate_call *call) {
  const reference *h = handle;
  size_t max_numel;
  ET_TRY(check_args(h, call));
  ET_TRY(find_shapes(h, call, &max_numel));
  for (size_t begin = 0; begin < max_numel; begin += BLOCK) {
    for (uint32_t k = 0; k < h->n_nodes; k++) {
      const size_t numel = h->like[h->nodes[k].out]->numel;
      if (begin >= numel) continue;
      run_node(h, call->args, &h->nodes[k], begin, numel - begin < BLOCK ? numel - begin : BLOCK);
    }
  }
  return ET_OK;
}

extern const et_backend et_backend_reference;
const et_backend et_backend_reference = {
    .id = "ReferenceBackend",
    .init = init,
    .execute = execute,
    .destroy = destroy,
};
