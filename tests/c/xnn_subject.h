// xnn_subject.h — a delegate without a program, and its arguments. It is made from a payload,
// called with any shapes within the payload's bounds, and made again as often as a test needs.
#ifndef ET_XNN_SUBJECT_H
#define ET_XNN_SUBJECT_H

#include "backends/xnnpack/delegate.h"
#include "rig.h"
#include "xnn_named.h"

enum { MAX_ARGS = 48 };

typedef struct subject {
  rig r;  // the payload
  eti_xnn_delegate delegate;
  size_t n_args;
  bool is_input[MAX_ARGS];
  eti_xnn_shape shapes[MAX_ARGS], smaller[MAX_ARGS];
  bool has_smaller;
  rig_tensor tensors[MAX_ARGS];
  et_value *args[MAX_ARGS];
  size_t bytes[MAX_ARGS];  // of each
} subject;

static inline bool subject_add(subject *s, const eti_xnn_graph *graph, size_t k) {
  const eti_xnn_extern *e = &graph->externs[k];
  int32_t sizes[ET_MAX_RANK] = {0};
  s->args[k] = &s->tensors[k].value;
  s->shapes[k] = s->smaller[k] = e->shape;
  s->is_input[k] = e->is_input;
  if (!e->is_input && !e->is_output) return false;
  for (size_t d = 0; d < e->shape.rank; d++) sizes[d] = (int32_t)e->shape.dims[d];
  s->smaller[k].dims[0] = (e->shape.dims[0] + 1) / 2;
  rig_fill_tensor(&s->tensors[k], NULL, e->dtype, e->shape.rank, sizes);
  et_tensor *t = &s->tensors[k].t;
  t->flags |= ET_TENSOR_DYNAMIC;
  s->bytes[k] = et_tensor_bytes(t);
  t->data = malloc(s->bytes[k] + XNN_EXTRA_BYTES);
  if (t->data == NULL) abort();
  memset(t->data, 0x3c, s->bytes[k] + XNN_EXTRA_BYTES);
  return true;
}

// Owns the payload from here on. The first call makes the delegate's engine.
static inline bool subject_begin_with(subject *s, rig payload, const et_xnnpack_options *options,
                                      const et_named_data *named) {
  *s = (subject){.r = payload};
  s->delegate = (eti_xnn_delegate){
      .options = *options, .payload = s->r.bytes, .payload_bytes = s->r.size, .named = *named};
  eti_xnn_graph graph = {0};
  const eti_xnn_graph_config config = {.payload = s->r.bytes,
                                       .payload_bytes = s->r.size,
                                       .named = named,
                                       .memory = &eti_xnn_allocator};
  bool is_fine = eti_xnn_initialize(&s->r.err) == ET_OK &&
                 eti_xnn_graph_build(&graph, &config, &s->r.err) == ET_OK &&
                 graph.n_externs <= MAX_ARGS;
  for (size_t k = 0; is_fine && k < graph.n_externs; k++) is_fine = subject_add(s, &graph, k);
  s->n_args = graph.n_externs;
  s->has_smaller = is_fine && eti_xnn_graph_check_shapes(&graph, s->smaller, &s->r.err) == ET_OK;
  eti_xnn_graph_deinit(&graph);
  return is_fine;
}

static inline bool subject_begin(subject *s, rig payload, const et_xnnpack_options *options) {
  x_make_block();
  return subject_begin_with(s, payload, options, &x_named);
}

// Inputs with many different numbers, which are the same in every call.
static inline void subject_fill(subject *s) {
  for (size_t k = 0; k < s->n_args; k++) {
    const et_tensor *t = &s->tensors[k].t;
    uint32_t random = 12345 + (uint32_t)k;
    for (size_t i = 0; s->is_input[k] && i < s->bytes[k] / et_dtype_bytes((et_dtype)t->dtype);
         i++) {
      random = random * 1664525u + 1013904223u;
      if (t->dtype == ET_F32) ((float *)t->data)[i] = (float)(random >> 20) / 512 - 4;
      if (t->dtype == ET_F16) ((uint16_t *)t->data)[i] = (uint16_t)(0x3000 + (random >> 19));
      if (t->dtype == ET_I8) ((int8_t *)t->data)[i] = (int8_t)(random >> 24);
    }
  }
}

// Frees all of XNNPACK's objects; the next call makes them again.
static inline void subject_forget(subject *s) {
  et_backend_xnnpack.destroy(&s->delegate);
  s->delegate.engine = s->delegate.profiled = NULL;
}

static inline void subject_end(subject *s) {
  subject_forget(s);
  for (size_t k = 0; k < s->n_args; k++) free(s->tensors[k].t.data);
  for (size_t i = 0; i < s->r.n_blocks; i++) free(s->r.blocks[i]);
}

static inline et_status subject_note(void *ctx, const et_event *event) {
  (void)ctx;
  (void)event;
  return ET_OK;
}

// Sets outputs to zero and calls the delegate.
static inline et_status subject_call(subject *s, const eti_xnn_shape *shapes, bool is_profiled) {
  static const et_hooks hooks = {NULL, subject_note};
  const et_delegate_call given = {
      .err = &s->r.err, .n_args = s->n_args, .args = s->args, .hooks = is_profiled ? &hooks : NULL};
  for (size_t k = 0; k < s->n_args; k++) {
    et_tensor *t = &s->tensors[k].t;
    int32_t sizes[ET_MAX_RANK];
    if (!s->is_input[k]) {
      memset(t->data, 0, s->bytes[k]);
      continue;
    }
    for (size_t d = 0; d < t->rank; d++) sizes[d] = (int32_t)shapes[k].dims[d];
    if (et_tensor_resize(t, sizes, t->rank, &s->r.err) != ET_OK) return ET_INTERNAL;
  }
  return eti_xnn_execute(&s->delegate, &given);
}

static inline uint64_t subject_sum(const subject *s) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (size_t k = 0; k < s->n_args; k++) {
    const et_tensor *t = &s->tensors[k].t;
    for (size_t i = 0; !s->is_input[k] && i < et_tensor_bytes(t); i++)
      sum = (sum ^ ((const uint8_t *)t->data)[i]) * 0x100000001b3u;
  }
  return sum;
}

// Whether an fp16 payload is refused because this processor has no F16C, without which XNNPACK has
// no kernels for it.
static inline bool subject_lacks_halves(const char *name) {
  if (strstr(name, "f16") == NULL) return false;
  subject s;
  const bool is_fine = subject_begin(&s, rig_read(name), &(et_xnnpack_options){.weights = NULL});
  const bool is_refused = is_fine && subject_call(&s, s.shapes, false) == ET_NOT_SUPPORTED &&
                          strstr(s.r.err.message, "has no kernels for this processor") != NULL;
  subject_end(&s);
  return is_refused;
}

#endif  // ET_XNN_SUBJECT_H
