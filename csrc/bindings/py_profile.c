// py_profile.c — Method.profile(): one run with a clock at every instruction, and the node events
// of delegates. Times include the cost of the clock, some tens of nanoseconds. Relies on the
// runtime's events; knows no operator.
#include "bindings/py_method.h"

#include <string.h>

enum {
  MAX_TENSORS = 6,  // described per instruction
  MAX_SEEN = 64,    // distinct tensors per event
};

typedef struct tensor_note {
  uint8_t dtype, rank;
  int32_t sizes[ET_MAX_RANK];
} tensor_note;

// Sums over the calls of one instruction so far; a loop repeats it.
typedef struct note {
  const char *operator_name;  // the program's
  uint64_t calls, ns, bytes, written;
  size_t n_tensors;
  tensor_note tensors[MAX_TENSORS];  // of the last call
} note;

// A node of a delegate, of one call.
typedef struct node_note {
  size_t instruction;
  char name[96];
  uint64_t ns;
  size_t debug_handle;
} node_note;

typedef struct notes {
  note *items;
  size_t n;
  uint64_t started;
  size_t instruction;  // under way
  node_note *nodes;
  size_t n_nodes, most_nodes;
} notes;

static bool reserve(notes *all, size_t instruction) {
  if (instruction < all->n) return true;
  const size_t n = instruction + instruction / 2 + 64;
  note *const items = PyMem_RawRealloc(all->items, n * sizeof *items);
  if (items == NULL) return false;
  memset(items + all->n, 0, (n - all->n) * sizeof *items);
  all->items = items;
  all->n = n;
  return true;
}

// Distinct tensors of one event: arguments and lists may name one twice.
typedef struct seen {
  const et_tensor *tensors[MAX_SEEN];
  size_t n;
} seen;

static bool is_new(seen *s, const et_tensor *t) {
  for (size_t i = 0; i < s->n; i++) {
    if (s->tensors[i] == t) return false;
  }
  if (s->n < MAX_SEEN) s->tensors[s->n++] = t;
  return true;
}

static void add_tensor(note *to, seen *s, const et_tensor *t) {
  if (!is_new(s, t)) return;
  to->bytes += (uint64_t)t->numel * et_dtype_bytes((et_dtype)t->dtype);
  if (to->n_tensors < MAX_TENSORS) to->n_tensors++;
  tensor_note *const tensor = &to->tensors[to->n_tensors - 1];  // the last one stays described
  tensor->dtype = t->dtype;
  tensor->rank = t->rank;
  for (size_t d = 0; d < t->rank; d++) tensor->sizes[d] = t->sizes[d];
}

static bool is_tensor_list(const et_value *value) {
  return value->tag == ET_TENSOR_LIST || value->tag == ET_OPTIONAL_TENSOR_LIST;
}

static void add_value(note *to, seen *s, const et_value *value) {
  if (value == NULL) return;
  if (value->tag == ET_TENSOR) add_tensor(to, s, value->as.tensor);
  for (size_t i = 0; is_tensor_list(value) && i < value->n; i++) {
    const et_value *const item = value->as.list[i];
    if (item != NULL && item->tag == ET_TENSOR) add_tensor(to, s, item->as.tensor);
  }
}

static void describe(note *to, const et_event *event) {
  const uint64_t bytes_before = to->bytes;
  to->n_tensors = 0;
  seen all = {.n = 0}, results = {.n = 0};
  for (size_t i = 0; i < event->n_args; i++) add_value(to, &all, event->args[i]);
  const et_instruction_kind kind = event->instruction_kind;
  if (kind == ET_INSTRUCTION_MOVE || kind == ET_INSTRUCTION_FREE) {
    to->bytes = bytes_before;  // the tensor is renamed or forgotten, and no element is read
    return;
  }
  if (kind == ET_INSTRUCTION_JUMP || event->n_args == 0) return;  // a jump reads its condition
  // The last argument is the result again: a tensor, or the list of several.
  note written = {.bytes = 0, .n_tensors = MAX_TENSORS};
  add_value(&written, &results, event->args[event->n_args - 1]);
  to->written += written.bytes;
}

static et_status add_node(notes *all, const et_event *event) {
  if (all->n_nodes == all->most_nodes) {
    const size_t most = all->most_nodes + all->most_nodes / 2 + 64;
    node_note *const nodes = PyMem_RawRealloc(all->nodes, most * sizeof *nodes);
    if (nodes == NULL) return ET_OUT_OF_MEMORY;
    all->nodes = nodes;
    all->most_nodes = most;
  }
  node_note *const to = &all->nodes[all->n_nodes++];
  *to = (node_note){
      .instruction = all->instruction, .ns = event->ns, .debug_handle = event->debug_handle};
  memccpy(to->name, event->operator_name, '\0', sizeof to->name - 1);
  return ET_OK;
}

// Records one event; called without the GIL.
static et_status on_event(void *ctx, const et_event *event) {
  notes *const all = ctx;
  if (event->kind == ET_EVENT_NODE) return add_node(all, event);
  if (event->kind == ET_EVENT_BEGIN) {
    if (!reserve(all, event->instruction)) return ET_OUT_OF_MEMORY;
    all->instruction = event->instruction;
    all->started = et_clock_ns();
    return ET_OK;
  }
  note *const to = &all->items[event->instruction];
  to->ns += et_clock_ns() - all->started;
  to->calls++;
  to->operator_name = event->operator_name;
  describe(to, event);
  return ET_OK;
}

static PyObject *tensor_object(const tensor_note *t) {
  PyObject *const shape = PyTuple_New(t->rank);
  for (Py_ssize_t d = 0; shape != NULL && d < t->rank; d++)
    PyTuple_SET_ITEM(shape, d, PyLong_FromLong(t->sizes[d]));
  return shape == NULL ? NULL : Py_BuildValue("(sN)", et_dtype_name((et_dtype)t->dtype), shape);
}

static PyObject *node_object(const node_note *n) {
  const long long handle = n->debug_handle == SIZE_MAX ? -1 : (long long)n->debug_handle;
  return Py_BuildValue("(sKL)", n->name, (unsigned long long)n->ns, handle);
}

// The nodes of one instruction's calls, in the order of the run.
static PyObject *nodes_object(const notes *all, size_t instruction) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < all->n_nodes; i++) {
    if (all->nodes[i].instruction != instruction) continue;
    PyObject *const node = node_object(&all->nodes[i]);
    if (node == NULL || PyList_Append(list, node) < 0) Py_CLEAR(list);
    Py_XDECREF(node);
  }
  return list;
}

static PyObject *note_object(const notes *all, size_t instruction) {
  const note *const n = &all->items[instruction];
  PyObject *const tensors = PyList_New(0);
  for (size_t i = 0; tensors != NULL && i < n->n_tensors; i++) {
    PyObject *const tensor = tensor_object(&n->tensors[i]);
    const bool failed = tensor == NULL || PyList_Append(tensors, tensor) < 0;
    Py_XDECREF(tensor);
    if (failed) {
      Py_DECREF(tensors);
      return NULL;
    }
  }
  PyObject *const nodes = tensors == NULL ? NULL : nodes_object(all, instruction);
  if (nodes == NULL) {
    Py_XDECREF(tensors);
    return NULL;
  }
  return Py_BuildValue("{s:n,s:s,s:K,s:K,s:K,s:K,s:N,s:N}", "instruction", (Py_ssize_t)instruction,
                       "operator", n->operator_name, "calls", (unsigned long long)n->calls, "ns",
                       (unsigned long long)n->ns, "bytes", (unsigned long long)n->bytes, "written",
                       (unsigned long long)n->written, "tensors", tensors, "nodes", nodes);
}

PyObject *py_method_profile(py_method *self) {
  notes all = {.n = 0};
  const et_hooks hooks = {.ctx = &all, .on_event = on_event};
  self->hooks = &hooks;
  const int ran = py_method_run(self);
  self->hooks = NULL;
  PyObject *list = ran < 0 ? NULL : PyList_New(0);
  for (size_t i = 0; list != NULL && i < all.n; i++) {
    if (all.items[i].calls == 0) continue;
    PyObject *const item = note_object(&all, i);
    if (item == NULL || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  PyMem_RawFree(all.items);
  PyMem_RawFree(all.nodes);
  return list;
}
