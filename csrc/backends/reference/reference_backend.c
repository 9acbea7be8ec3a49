// reference_backend.c — a tiny delegate in plain C: elementwise f32 arithmetic without
// broadcasting. It exists to be read by who writes a backend, and to test the delegate interface;
// its payload format is described in executorch_py/backends/reference/README.md. Relies on the
// public header and the runtime's checks only.
//
// A payload is untrusted: everything in it is proven in init, so that execute has no doubts about
// it.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/et.h"

#define BLOCK 64  // elements that pass through all nodes at a time: temporaries need no more
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
  float *temps;  // n_temps × BLOCK
  const et_tensor *
      *like;  // per value: the input that has its shape in the current run; NULL for constants
  uint8_t *is_written;  // per value, while the payload is read
} reference;

// ---- Reading the payload

typedef struct reader {
  const uint8_t *at;
  size_t left;
} reader;

static bool take(reader *r, size_t bytes, const uint8_t **out) {
  if (bytes > r->left) return false;
  *out = r->at;
  r->at += bytes;
  r->left -= bytes;
  return true;
}

static bool take_u32(reader *r, uint32_t *out) {
  const uint8_t *p;
  if (!take(r, 4, &p)) return false;
  *out = eti_u32(p);
  return true;
}

static et_status read_header(reader *r, reference *h, et_error *err) {
  const uint8_t *magic;
  uint32_t version = 0;
  ET_CHECK(take(r, 4, &magic) && memcmp(magic, "ETRF", 4) == 0, err, ET_DELEGATE_INCOMPATIBLE,
           "the payload is not one of the reference backend ('ETRF' is missing)");
  ET_CHECK(take_u32(r, &version) && version == 1, err, ET_DELEGATE_INCOMPATIBLE,
           "payload version %lu, this backend reads 1", (unsigned long)version);
  ET_CHECK(take_u32(r, &h->n_inputs) && take_u32(r, &h->n_outputs) && take_u32(r, &h->n_temps) &&
               take_u32(r, &h->n_nodes) && h->n_nodes <= r->left / sizeof(node),
           err, ET_INVALID_PROGRAM, "the payload is cut short");
  // Values beyond what nodes could use are a sign of damage; the bound also keeps sums of the
  // counts in range.
  const uint32_t most = 1u << 20;
  ET_CHECK(h->n_inputs <= most && h->n_outputs <= most && h->n_temps <= most, err,
           ET_INVALID_PROGRAM, "%lu inputs, %lu outputs, %lu temporaries: at most %lu of each",
           (unsigned long)h->n_inputs, (unsigned long)h->n_outputs, (unsigned long)h->n_temps,
           (unsigned long)most);
  return ET_OK;
}

static et_status read_node(reader *r, const reference *h, uint32_t n_values, node *out,
                           et_error *err) {
  const uint8_t *p;
  ET_CHECK(take(r, sizeof *out, &p), err, ET_INVALID_PROGRAM, "the payload is cut short");
  memcpy(out, p, sizeof *out);
  const bool is_unary = out->opcode == OP_RELU;
  const uint32_t first_temp_end = h->n_inputs + h->n_outputs + h->n_temps;
  ET_CHECK(out->opcode >= OP_ADD && out->opcode <= OP_RELU && out->in0 < n_values &&
               (is_unary ? out->in1 == NO_OPERAND : out->in1 < n_values) &&
               out->out >= h->n_inputs && out->out < first_temp_end,
           err, ET_INVALID_PROGRAM,
           "a node (opcode %lu, %lu, %lu → %lu) that is unknown or names no value of the %lu",
           (unsigned long)out->opcode, (unsigned long)out->in0, (unsigned long)out->in1,
           (unsigned long)out->out, (unsigned long)n_values);
  return ET_OK;
}

// Inputs and constants are there from the start; everything else is written once, before it is
// read.
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

// Reads entry k of the constants and gets its bytes; while measuring only to see that they are
// there.
static et_status read_constant(reader *r, et_delegate_init *init, uint32_t id, constant *out) {
  et_error *err = init->prepare->err;
  uint32_t key_bytes = 0;
  const uint8_t *text;
  char key[256];
  ET_CHECK(take_u32(r, &out->id) && take_u32(r, &key_bytes) && key_bytes < sizeof key &&
               take(r, (key_bytes + 3u) & ~3u, &text),
           err, ET_INVALID_PROGRAM, "the payload is cut short, or a key has %lu bytes",
           (unsigned long)key_bytes);
  ET_CHECK(out->id == id, err, ET_INVALID_PROGRAM, "constant %lu has id %lu", (unsigned long)id,
           (unsigned long)out->id);
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

// Fills a handle whose memory is claimed; also run while measuring, with nodes and constants that
// are not kept.
static et_status fill(et_delegate_init *init, reader *r, reference *h, uint32_t n_constants) {
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
  ET_CHECK(take_u32(r, &repeated) && repeated == n_constants, err, ET_INTERNAL,
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
  ET_CHECK(take_u32(&behind_nodes, &n_constants) && n_constants <= behind_nodes.left / 8, err,
           ET_INVALID_PROGRAM, "the payload is cut short");
  reference *kept = et_prepare_alloc(init->prepare, sizeof *kept, _Alignof(reference));
  h.nodes = et_prepare_alloc(init->prepare, h.n_nodes * sizeof(node), _Alignof(node));
  h.constants = et_prepare_alloc(init->prepare, n_constants * sizeof(constant), _Alignof(constant));
  h.temps = et_prepare_alloc(init->prepare, h.n_temps * BLOCK * sizeof(float), _Alignof(float));
  const size_t n_values = (size_t)h.n_inputs + h.n_outputs + h.n_temps + n_constants;
  h.like = et_prepare_alloc(init->prepare, n_values * sizeof *h.like, _Alignof(et_tensor *));
  h.is_written = et_prepare_alloc(init->prepare, n_values, 1);
  ET_TRY(et_prepare_status(init->prepare));
  if (h.is_written != NULL) memset(h.is_written, 0, n_values);
  const et_status status = fill(init, &r, &h, n_constants);
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

// A block of value `id`: where it lies, or a copy in `room` when it cannot be read in place.
static const float *operand(const reference *h, et_value *const *args, uint32_t id, size_t begin,
                            size_t n, float *room) {
  const uint32_t n_args = h->n_inputs + h->n_outputs;
  if (id < n_args) return (const float *)args[id]->as.tensor->data + begin;
  if (id < n_args + h->n_temps) return h->temps + (size_t)(id - n_args) * BLOCK;
  const uint8_t *bytes = h->constants[id - n_args - h->n_temps].blob.data;
  memcpy(room, bytes + begin * sizeof(float),
         n * sizeof(float));  // named data has no alignment of its own
  return room;
}

static void run_node(const reference *h, et_value *const *args, const node *one, size_t begin,
                     size_t n) {
  float room[2][BLOCK];
  const uint32_t n_args = h->n_inputs + h->n_outputs;
  const float *a = operand(h, args, one->in0, begin, n, room[0]);
  const float *b = one->opcode == OP_RELU ? a : operand(h, args, one->in1, begin, n, room[1]);
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
        out[i] = a[i] < 0 ? 0 : a[i];  // a NaN stays one
    }
  }
}

static et_status check_args(const reference *h, const et_delegate_call *call) {
  const size_t n_args = (size_t)h->n_inputs + h->n_outputs;
  ET_CHECK(call->n_args == n_args, call->err, ET_INVALID_PROGRAM,
           "%zu arguments, the payload has %lu inputs and %lu outputs", call->n_args,
           (unsigned long)h->n_inputs, (unsigned long)h->n_outputs);
  for (size_t k = 0; k < n_args; k++) {
    ET_CHECK(call->args[k]->tag == ET_TENSOR, call->err, ET_INVALID_TYPE,
             "argument %zu is no tensor", k);
    const et_tensor *t = call->args[k]->as.tensor;
    const bool is_output = k >= h->n_inputs;
    ET_CHECK(t->dtype == ET_F32 && (t->flags & ET_TENSOR_CONTIGUOUS) != 0, call->err,
             ET_NOT_SUPPORTED, "argument %zu: %s, needs a contiguous f32 tensor", k,
             et_dtype_name((et_dtype)t->dtype));
    ET_CHECK(!is_output || (t->flags & ET_TENSOR_CONSTANT) == 0, call->err, ET_INVALID_PROGRAM,
             "argument %zu is a constant and would be written", k);
    h->like[k] = t;
  }
  return ET_OK;
}

// The shape of a node's operands, which must agree.
static et_status find_like(const reference *h, const node *one, size_t k, const et_tensor **out,
                           et_error *err) {
  const uint32_t first_constant = h->n_inputs + h->n_outputs + h->n_temps;
  const et_tensor *a = one->in0 < first_constant ? h->like[one->in0] : NULL;
  const et_tensor *b = one->in1 < first_constant ? h->like[one->in1] : NULL;
  const et_tensor *like = a != NULL ? a : b;
  ET_CHECK(like != NULL, err, ET_NOT_SUPPORTED, "node %zu has constant operands only", k);
  ET_CHECK(a == NULL || b == NULL || a->numel == b->numel, err, ET_NOT_SUPPORTED,
           "node %zu has operands of %zu and %zu elements: one shape is needed", k,
           a == NULL ? 0 : a->numel, b == NULL ? 0 : b->numel);
  const uint32_t operands[] = {one->in0, one->in1};
  for (size_t i = 0; i < 2; i++) {
    if (operands[i] == NO_OPERAND || operands[i] < first_constant) continue;
    const size_t bytes = h->constants[operands[i] - first_constant].blob.size;
    ET_CHECK(bytes / sizeof(float) == like->numel, err, ET_INVALID_PROGRAM,
             "constant %lu has %zu bytes, %zu elements are needed", (unsigned long)operands[i],
             bytes, like->numel);
  }
  *out = like;
  return ET_OK;
}

// Gives every value the shape of an input, outputs their sizes, and finds the greatest element
// count.
static et_status find_shapes(const reference *h, const et_delegate_call *call, size_t *most) {
  const uint32_t n_args = h->n_inputs + h->n_outputs;
  const et_tensor *like;
  *most = 0;
  for (uint32_t k = 0; k < h->n_nodes; k++) {
    const uint32_t out = h->nodes[k].out;
    ET_TRY(find_like(h, &h->nodes[k], k, &like, call->err));
    h->like[out] = like;
    if (out < n_args)
      ET_TRY(et_tensor_resize(call->args[out]->as.tensor, like->sizes, like->rank, call->err));
    if (like->numel > *most) *most = like->numel;
  }
  for (uint32_t k = 0; k < h->n_nodes;
       k++) {  // a damaged file may name one tensor twice: resizing it must not have mattered
    const uint32_t out = h->nodes[k].out;
    ET_TRY(find_like(h, &h->nodes[k], k, &like, call->err));
    ET_CHECK(
        like->numel <= *most && (out >= n_args || call->args[out]->as.tensor->numel == like->numel),
        call->err, ET_INVALID_PROGRAM, "value %lu is an output and another argument at once",
        (unsigned long)out);
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
  size_t most;
  ET_TRY(check_args(h, call));
  ET_TRY(find_shapes(h, call, &most));
  for (size_t begin = 0; begin < most; begin += BLOCK) {
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
