// pte_writer.h — writes program and external data files from plain structs, for tests that need
// files which no exporter emits: several chains, several delegates, contents shared very often.
// Knows the formats' slots and nothing of the runtime's code. Does not check its input, so tests
// can write unsound files.
//
// Each table has its own vtable and eight bytes for every present field, parents come before their
// children, and every position is a multiple of eight.
#ifndef ET_PTE_WRITER_H
#define ET_PTE_WRITER_H

#include "runtime/et.h"
#include "runtime/pte_schema.h"
#include "runtime/ptd_schema.h"

#include <stdlib.h>
#include <string.h>

// ---- Flatbuffers

typedef struct writer {
  uint8_t *bytes;
  size_t size, room;
} writer;

static inline size_t w_claim(writer *w, size_t bytes) {
  const size_t at = w->size, end = at + ((bytes + 7) & ~(size_t)7);
  if (end > w->room) {
    const size_t room = end * 2 < 65536 ? 65536 : end * 2;
    uint8_t *grown = aligned_alloc(64, (room + 63) & ~(size_t)63);
    if (grown == NULL) abort();
    memset(grown, 0, room);
    if (at > 0) memcpy(grown, w->bytes, at);
    free(w->bytes);
    w->bytes = grown;
    w->room = room;
  }
  w->size = end;
  return at;
}

static inline void w_u32(writer *w, size_t at, uint32_t v) {
  memcpy(w->bytes + at, &v, 4);
}

// A table whose present slots are the set bits; returns its position. Field k lies at + 8 + 8 k.
static inline size_t w_table(writer *w, uint32_t slots) {
  enum { N = 10 };
  uint16_t vtable[2 + N] = {4 + 2 * N, 8 + 8 * N};
  for (unsigned k = 0; k < N; k++) {
    if ((slots >> k & 1u) != 0) vtable[2 + k] = (uint16_t)(8 + 8 * k);
  }
  const size_t at = w_claim(w, sizeof vtable);
  memcpy(w->bytes + at, vtable, sizeof vtable);
  const size_t table = w_claim(w, 8 + 8 * N);
  w_u32(w, table, (uint32_t)(table - at));
  return table;
}

static inline void w_set(writer *w, size_t table, unsigned slot, uint64_t v) {
  memcpy(w->bytes + table + 8 + 8 * slot, &v, 8);
}

static inline void w_link_at(writer *w, size_t at, size_t target) {
  w_u32(w, at, (uint32_t)(target - at));
}

static inline void w_link(writer *w, size_t table, unsigned slot, size_t target) {
  w_link_at(w, table + 8 + 8 * slot, target);
}

// The position of the count; elements follow it, eight-aligned.
static inline size_t w_vector(writer *w, const void *data, size_t n, size_t element_bytes) {
  const size_t at = w_claim(w, 8 + n * element_bytes + 1);
  w_u32(w, at + 4, (uint32_t)n);
  if (n > 0 && data != NULL) memcpy(w->bytes + at + 8, data, n * element_bytes);
  return at + 4;
}

static inline size_t w_text(writer *w, const char *text) {
  return w_vector(w, text, strlen(text), 1);
}

// A vector of tables that are written later: link member i at w_member(vector, i).
static inline size_t w_tables(writer *w, unsigned slot, size_t table, size_t n) {
  const size_t at = w_vector(w, NULL, n, 4);
  w_link(w, table, slot, at);
  return at;
}
static inline size_t w_member(size_t vector, size_t i) {
  return vector + 4 + 4 * i;
}

static inline size_t w_child(writer *w, size_t vector, size_t i, size_t child) {
  w_link_at(w, w_member(vector, i), child);
  return child;
}
static inline void w_copies(writer *w, size_t vector, size_t from, size_t n, size_t child) {
  for (size_t i = 0; i < n; i++) w_link_at(w, w_member(vector, from + i), child);
}

// ---- The parts of a program

typedef struct made_value {
  unsigned code;            // PTE_INT …
  int64_t number;           // of Int and Bool
  double real;              // of Double
  const char *text;         // of String; of a tensor: its name
  const int32_t *items;     // of a list; sizes of a tensor
  size_t n;                 // of items
  et_dtype dtype;           // tensors from here on
  const uint8_t *order;     // of dims; NULL: 0, 1, 2 …
  uint32_t buffer, memory;  // memory 0: no allocation
  uint64_t at;              // in the memory
  unsigned location;        // PTE_LOCATION_…
  bool is_dynamic;
} made_value;

typedef struct made_instruction {
  unsigned kind;
  int32_t a, b;  // operator or delegate; from, to; condition, destination; value
  int32_t args[8];
  size_t n_args;
  const int32_t *many;  // instead of args
} made_instruction;

typedef struct made_chain {
  const made_instruction *code;
  size_t n, n_copies;  // the last one is repeated n_copies times, as one table
} made_chain;

typedef struct made_delegate {
  const char *id;
  uint32_t segment;  // or, when is_inline, the number among the program's inline payloads
  bool is_inline;
  const char *const *specs;  // key, value, key, value …
  size_t n_specs;
} made_delegate;

typedef struct made_plan {
  const char *name;
  const made_value *values;
  size_t n_values, n_value_copies;  // of the last one
  int32_t inputs[4], outputs[4];
  size_t n_inputs, n_outputs;
  const int32_t *many_inputs;  // instead of inputs
  const made_chain *chains;
  size_t n_chains;
  const made_instruction *code;  // one chain, instead of chains
  size_t n_code;
  const char *const *operators;  // name, overload, name, overload …
  size_t n_operators, n_operator_copies;
  const made_delegate *delegates;
  size_t n_delegates;
  int64_t memories[4];  // after the reserved one
  size_t n_memories;
  uint8_t device;  // of all of them
} made_plan;

// Initializers of parts. MADE_PLAN takes arrays, whose lengths it counts, then further fields.
#define MADE_COUNT(array) (sizeof(array) / sizeof(array)[0])
#define MADE_CALL(op, ...)  \
  {.kind = PTE_KERNEL_CALL, \
   .a = (op),               \
   .args = {__VA_ARGS__},   \
   .n_args = MADE_COUNT(((int32_t[]){__VA_ARGS__}))}
#define MADE_PLAN(the_values, the_code, the_operators, ...) \
  {.name = "forward",                                       \
   .values = (the_values),                                  \
   .n_values = MADE_COUNT(the_values),                      \
   .code = (the_code),                                      \
   .n_code = MADE_COUNT(the_code),                          \
   .operators = (the_operators),                            \
   .n_operators = MADE_COUNT(the_operators) / 2,            \
   __VA_ARGS__}
#define MADE_INPUT(x) .inputs = {x}, .n_inputs = 1
#define MADE_OUTPUT(y) .outputs = {y}, .n_outputs = 1
#define MADE_MEMORY(bytes) .memories = {bytes}, .n_memories = 1

typedef struct made_segment {
  const void *data;
  size_t size;
  const char *key;           // named data, or NULL
  const made_value *layout;  // of external data: a tensor's
} made_segment;

typedef struct made_program {
  const made_plan *plans;
  size_t n_plans;
  const made_segment *segments;
  size_t n_segments;
  uint32_t constant_segment, mutable_segment;
  uint64_t constants[4], initials[4];  // offsets after the placeholder
  size_t n_constants, n_initials;
  const made_segment *buffers, *payloads;  // constants and payloads among the tables, as old files
  size_t n_buffers, n_payloads;            // have them
} made_program;

static inline size_t w_order(writer *w, const made_value *v) {
  uint8_t order[ET_MAX_RANK];
  for (size_t d = 0; d < v->n; d++) order[d] = v->order != NULL ? v->order[d] : (uint8_t)d;
  return w_vector(w, order, v->n, 1);
}

static inline void w_tensor(writer *w, size_t table, const made_value *v) {
  w_set(w, table, PTE_TENSOR_DTYPE, v->dtype);
  w_set(w, table, PTE_TENSOR_BUFFER, v->buffer);
  w_set(w, table, PTE_TENSOR_DYNAMISM, v->is_dynamic);
  w_link(w, table, PTE_TENSOR_SIZES, w_vector(w, v->items, v->n, 4));
  w_link(w, table, PTE_TENSOR_DIM_ORDER, w_order(w, v));
  if (v->memory != 0) {
    const size_t place = w_table(w, 7);
    w_set(w, place, PTE_ALLOCATION_MEMORY, v->memory);
    w_set(w, place, PTE_ALLOCATION_LOW, (uint32_t)v->at);
    w_set(w, place, PTE_ALLOCATION_HIGH, v->at >> 32);
    w_link(w, table, PTE_TENSOR_ALLOCATION, place);
  }
  if (v->text != NULL) {
    const size_t extra = w_table(w, 1u << PTE_EXTRA_NAME | 1u << PTE_EXTRA_LOCATION);
    w_set(w, extra, PTE_EXTRA_LOCATION, v->location);
    w_link(w, extra, PTE_EXTRA_NAME, w_text(w, v->text));
    w_link(w, table, PTE_TENSOR_EXTRA, extra);
  }
}

static inline uint32_t w_value_slots(const made_value *v) {
  if (v->code == PTE_NULL) return 0;
  if (v->code != PTE_TENSOR) return 1;
  return 1u << PTE_TENSOR_DTYPE | 1u << PTE_TENSOR_SIZES | 1u << PTE_TENSOR_DIM_ORDER |
         1u << PTE_TENSOR_BUFFER | 1u << PTE_TENSOR_DYNAMISM |
         (v->memory != 0 ? 1u << PTE_TENSOR_ALLOCATION : 0) |
         (v->text != NULL ? 1u << PTE_TENSOR_EXTRA : 0);
}

static inline size_t w_list(writer *w, const made_value *v) {
  const size_t element = v->code == PTE_BOOL_LIST                                ? 1
                         : v->code == PTE_INT_LIST || v->code == PTE_DOUBLE_LIST ? 8
                                                                                 : 4;
  const size_t at = w_vector(w, NULL, v->n, element);
  for (size_t i = 0; i < v->n; i++) {
    const int64_t item = v->items[i];
    const double number = (double)item;
    memcpy(w->bytes + at + 4 + element * i,
           v->code == PTE_DOUBLE_LIST ? (const void *)&number : (const void *)&item, element);
  }
  return at;
}

static inline size_t w_value(writer *w, const made_value *v) {
  const size_t entry = w_table(w, 3);
  const size_t table = w_table(w, w_value_slots(v));
  w_set(w, entry, PTE_UNION_CODE, v->code);
  w_link(w, entry, PTE_UNION_TABLE, table);
  uint64_t bits;
  memcpy(&bits, &v->real, 8);
  if (v->code == PTE_INT || v->code == PTE_BOOL) w_set(w, table, 0, (uint64_t)v->number);
  if (v->code == PTE_DOUBLE) w_set(w, table, 0, bits);
  if (v->code == PTE_TENSOR) w_tensor(w, table, v);
  if (v->code == PTE_STRING) w_link(w, table, 0, w_text(w, v->text));
  if (v->code > PTE_STRING) w_link(w, table, 0, w_list(w, v));
  return entry;
}

static inline size_t w_instruction(writer *w, const made_instruction *in) {
  const size_t entry = w_table(w, 3);
  const bool is_call = in->kind <= PTE_DELEGATE_CALL;
  const size_t table = w_table(w, in->kind == PTE_FREE_CALL ? 1 : 3);
  w_set(w, entry, PTE_UNION_CODE, in->kind);
  w_link(w, entry, PTE_UNION_TABLE, table);
  w_set(w, table, 0, (uint32_t)in->a);
  if (is_call) {
    w_link(w, table, PTE_CALL_ARGS,
           w_vector(w, in->many != NULL ? in->many : in->args, in->n_args, 4));
  } else {
    w_set(w, table, 1, (uint32_t)in->b);
  }
  return entry;
}

static inline size_t w_delegate(writer *w, const made_delegate *d) {
  const size_t delegate = w_table(w, d->n_specs > 0 ? 7 : 3), processed = w_table(w, 3);
  w_set(w, processed, PTE_PROCESSED_LOCATION, d->is_inline ? 0 : PTE_PROCESSED_SEGMENT);
  w_set(w, processed, PTE_PROCESSED_INDEX, d->segment);
  w_link(w, delegate, PTE_DELEGATE_PROCESSED, processed);
  w_link(w, delegate, PTE_DELEGATE_ID, w_text(w, d->id));
  if (d->n_specs == 0) return delegate;
  const size_t specs = w_tables(w, PTE_DELEGATE_SPECS, delegate, d->n_specs);
  for (size_t k = 0; k < d->n_specs; k++) {
    const size_t spec = w_child(w, specs, k, w_table(w, d->specs[2 * k] == NULL ? 2 : 3));
    if (d->specs[2 * k] != NULL) w_link(w, spec, PTE_SPEC_KEY, w_text(w, d->specs[2 * k]));
    w_link(w, spec, PTE_SPEC_VALUE, w_text(w, d->specs[2 * k + 1]));
  }
  return delegate;
}

static inline size_t w_chain(writer *w, const made_chain *c) {
  size_t last = 0;
  const size_t chain = w_table(w, 1u << PTE_CHAIN_INSTRUCTIONS);
  const size_t code = w_tables(w, PTE_CHAIN_INSTRUCTIONS, chain, c->n + c->n_copies);
  for (size_t i = 0; i < c->n; i++) last = w_child(w, code, i, w_instruction(w, &c->code[i]));
  w_copies(w, code, c->n, c->n_copies, last);
  return chain;
}

static inline size_t w_plan(writer *w, const made_plan *p) {
  size_t last = 0;
  const size_t table = w_table(w, p->device == 0 ? 0x1fd : 0x3fd);  // all but the container
  w_link(w, table, PTE_PLAN_NAME, w_text(w, p->name));
  const size_t values = w_tables(w, PTE_PLAN_VALUES, table, p->n_values + p->n_value_copies);
  for (size_t i = 0; i < p->n_values; i++) last = w_child(w, values, i, w_value(w, &p->values[i]));
  w_copies(w, values, p->n_values, p->n_value_copies, last);
  w_link(w, table, PTE_PLAN_INPUTS,
         w_vector(w, p->many_inputs != NULL ? p->many_inputs : p->inputs, p->n_inputs, 4));
  w_link(w, table, PTE_PLAN_OUTPUTS, w_vector(w, p->outputs, p->n_outputs, 4));
  const made_chain whole = {p->code, p->n_code, 0};
  const size_t n_chains = p->code != NULL ? 1 : p->n_chains;
  const size_t chains = w_tables(w, PTE_PLAN_CHAINS, table, n_chains);
  for (size_t c = 0; c < n_chains; c++)
    w_child(w, chains, c, w_chain(w, p->code != NULL ? &whole : &p->chains[c]));
  const size_t operators =
      w_tables(w, PTE_PLAN_OPERATORS, table, p->n_operators + p->n_operator_copies);
  for (size_t i = 0; i < p->n_operators; i++) {
    const size_t op = last = w_child(w, operators, i, w_table(w, 3));
    w_link(w, op, PTE_OPERATOR_NAME, w_text(w, p->operators[2 * i]));
    w_link(w, op, PTE_OPERATOR_OVERLOAD, w_text(w, p->operators[2 * i + 1]));
  }
  w_copies(w, operators, p->n_operators, p->n_operator_copies, last);
  const size_t delegates = w_tables(w, PTE_PLAN_DELEGATES, table, p->n_delegates);
  for (size_t i = 0; i < p->n_delegates; i++) {
    w_link_at(w, w_member(delegates, i), w_delegate(w, &p->delegates[i]));
  }
  int64_t sizes[5] = {0};
  memcpy(sizes + 1, p->memories, sizeof p->memories);
  w_link(w, table, PTE_PLAN_BUFFER_SIZES, w_vector(w, sizes, 1 + p->n_memories, 8));
  if (p->device == 0) return table;
  const size_t devices = w_tables(w, PTE_PLAN_BUFFER_DEVICES, table, 1);
  w_set(w, w_child(w, devices, 0, w_table(w, 7)), PTE_BUFFER_DEVICE_TYPE, p->device);
  return table;
}

// A vector of tables with bytes in them.
static inline void w_bytes(writer *w, size_t root, unsigned slot, const made_segment *parts,
                           size_t n) {
  const size_t list = w_tables(w, slot, root, n);
  for (size_t i = 0; i < n; i++) {
    const size_t part = w_child(w, list, i, w_table(w, 1));
    w_link(w, part, PTE_BYTES_DATA, w_vector(w, parts[i].data, parts[i].size, 1));
  }
}

static inline size_t w_offsets(writer *w, uint32_t segment, const uint64_t *offsets, size_t n) {
  const size_t table = w_table(w, 3);
  const size_t list = w_vector(w, NULL, n + 1, 8);
  memcpy(w->bytes + list + 4 + 8, offsets, 8 * n);
  w_set(w, table, PTE_SUBSEGMENT_INDEX, segment);
  w_link(w, table, PTE_SUBSEGMENT_OFFSETS, list);
  return table;
}

// Segments and named data, which both formats have, in the given slots of the root table.
static inline void w_segments(writer *w, size_t root, unsigned slot, unsigned named_slot,
                              const made_segment *segments, size_t n) {
  size_t n_named = 0, k = 0;
  uint64_t end = 0;
  const size_t list = w_tables(w, slot, root, n);
  for (size_t i = 0; i < n; i++) {
    const size_t segment = w_table(w, 3);
    w_link_at(w, w_member(list, i), segment);
    w_set(w, segment, PTE_SEGMENT_OFFSET, end);
    w_set(w, segment, PTE_SEGMENT_SIZE, segments[i].size);
    end += (segments[i].size + 63) & ~(uint64_t)63;
    n_named += segments[i].key != NULL;
  }
  const size_t named = w_tables(w, named_slot, root, n_named);
  for (size_t i = 0; i < n; i++) {
    if (segments[i].key == NULL) continue;
    const made_value *v = segments[i].layout;
    const size_t entry = w_table(w, v == NULL ? 3 : 7);
    w_link_at(w, w_member(named, k++), entry);
    w_set(w, entry, PTE_NAMED_SEGMENT, i);
    w_link(w, entry, PTE_NAMED_KEY, w_text(w, segments[i].key));
    if (v == NULL) continue;
    const size_t layout = w_table(w, 7);
    w_link(w, entry, PTD_NAMED_LAYOUT, layout);
    w_set(w, layout, PTD_LAYOUT_DTYPE, v->dtype);
    w_link(w, layout, PTD_LAYOUT_SIZES, w_vector(w, v->items, v->n, 4));
    w_link(w, layout, PTD_LAYOUT_DIM_ORDER, w_order(w, v));
  }
}

// Pads the flatbuffer, appends the segments and fills the header.
static inline void w_finish(writer *w, size_t root, bool is_data, const made_segment *segments,
                            size_t n) {
  const uint64_t flatbuffer = w->size, base = (flatbuffer + 63) & ~(uint64_t)63;
  (void)w_claim(w, (size_t)(base - flatbuffer));
  for (size_t i = 0; i < n; i++) {
    const size_t at = w_claim(w, (segments[i].size + 63) & ~(size_t)63);
    if (segments[i].size > 0) memcpy(w->bytes + at, segments[i].data, segments[i].size);
  }
  w_u32(w, 0, (uint32_t)root);
  memcpy(w->bytes + 4, is_data ? "FT01FH01" : "ET12eh00", 8);
  w_u32(w, 12, is_data ? 40 : 32);
  const uint64_t figures[3] = {is_data ? flatbuffer - 48 : flatbuffer, base, w->size - base};
  const uint64_t offset = 48;
  if (is_data) memcpy(w->bytes + 16, &offset, 8);
  memcpy(w->bytes + (is_data ? 24 : 16), figures, sizeof figures);
}

// A .pte; free() the bytes.
static inline uint8_t *make_program(const made_program *p, size_t *size) {
  writer w = {0};
  (void)w_claim(&w, 64);
  const size_t root =
      w_table(&w, 1u << PTE_PROGRAM_PLANS | 1u << PTE_PROGRAM_SEGMENTS |
                      (p->n_buffers == 0 ? 1u << PTE_PROGRAM_CONSTANT_SEGMENT : 0) |
                      1u << PTE_PROGRAM_NAMED_DATA | 1u << PTE_PROGRAM_MUTABLE_SEGMENTS |
                      1u << PTE_PROGRAM_CONSTANT_BUFFER | 1u << PTE_PROGRAM_INLINE_DELEGATES);
  const size_t plans = w_tables(&w, PTE_PROGRAM_PLANS, root, p->n_plans);
  for (size_t i = 0; i < p->n_plans; i++)
    w_link_at(&w, w_member(plans, i), w_plan(&w, &p->plans[i]));
  w_segments(&w, root, PTE_PROGRAM_SEGMENTS, PTE_PROGRAM_NAMED_DATA, p->segments, p->n_segments);
  w_bytes(&w, root, PTE_PROGRAM_CONSTANT_BUFFER, p->buffers, p->n_buffers);
  w_bytes(&w, root, PTE_PROGRAM_INLINE_DELEGATES, p->payloads, p->n_payloads);
  if (p->n_buffers == 0)
    w_link(&w, root, PTE_PROGRAM_CONSTANT_SEGMENT,
           w_offsets(&w, p->constant_segment, p->constants, p->n_constants));
  const size_t initials = w_tables(&w, PTE_PROGRAM_MUTABLE_SEGMENTS, root, p->n_initials > 0);
  if (p->n_initials > 0)
    w_link_at(&w, w_member(initials, 0),
              w_offsets(&w, p->mutable_segment, p->initials, p->n_initials));
  w_finish(&w, root, false, p->segments, p->n_segments);
  *size = w.size;
  return w.bytes;
}

// A .ptd; free() the bytes.
static inline uint8_t *make_data(const made_segment *segments, size_t n, size_t *size) {
  writer w = {0};
  (void)w_claim(&w, 64);
  const size_t root = w_table(&w, 7);
  w_segments(&w, root, PTD_ROOT_SEGMENTS, PTD_ROOT_NAMED_DATA, segments, n);
  w_finish(&w, root, true, segments, n);
  *size = w.size;
  return w.bytes;
}

#endif  // ET_PTE_WRITER_H
