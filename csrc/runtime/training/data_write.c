// data_write.c — writes data files (.ptd) as a stream. Every position follows from the ranks and
// keys before it, so that nothing is kept in memory:
//
//   head, header | vtables | root | segment offsets | entry offsets | segments | entries | data
//
// An entry is a NamedData table, its TensorLayout table, sizes, dim order and key. Positions count
// from the file's start.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/training/et_train.h"

enum {
  FLATBUFFER = 56,     // behind the header and its padding
  HEADER_ROOM = 48,    // as the header says it: without the eight bytes before it
  HEADER_BYTES = 40,   // of the header itself
  ALIGN = 16,          // of segments
  ROOT = 96,           // root table, behind four vtables
  VECTORS = 112,       // vectors of offsets
  SEGMENT_TABLE = 24,  // bytes of the tables
  NAMED_TABLE = 16,
  LAYOUT_TABLE = 16,
};

// Vtables: bytes of the vtable and of the table, then the place of each field in the table.
static const uint16_t vtables[][5] = {
    {10, 12, 0, 4, 8},   // FlatTensor: no version, segments, named_data
    {8, 24, 8, 16, 0},   // DataSegment: offset, size
    {10, 16, 4, 8, 12},  // NamedData: key, segment_index, tensor_layout
    {10, 16, 12, 4, 8},  // TensorLayout: scalar_type, sizes, dim_order
};
enum { V_ROOT, V_SEGMENT, V_NAMED, V_LAYOUT };
_Static_assert(FLATBUFFER + sizeof vtables == ROOT, "the root table follows the vtables");

static uint32_t vtable_at(unsigned v) {
  return FLATBUFFER + v * (uint32_t)sizeof vtables[0];
}

static uint64_t rounded(uint64_t n, uint64_t to) {
  return (n + to - 1) / to * to;
}

// ---- Output

typedef struct output {
  const et_sink *sink;
  uint64_t at;
  et_status status;  // the first failure; nothing is written after it
  et_error *err;
} output;

static void put(output *o, const void *data, size_t size) {
  if (o->status == ET_OK && size > 0) o->status = o->sink->write(o->sink->ctx, data, size, o->err);
  o->at += size;
}

static void put_u32(output *o, uint64_t v) {
  const uint32_t word = (uint32_t)v;
  put(o, &word, sizeof word);
}

static void put_u64(output *o, uint64_t v) {
  put(o, &v, sizeof v);
}

static void pad_to(output *o, uint64_t position) {
  static const uint8_t zeros[16];
  while (o->at < position) {
    const uint64_t n = position - o->at;
    put(o, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros);
  }
}

// The offset from here to a later position.
static void put_offset(output *o, uint64_t to) {
  put_u32(o, to - o->at);
}

static void put_vtable_offset(output *o, unsigned v) {
  put_u32(o, o->at - vtable_at(v));
}

// ---- Sizes

static size_t key_length(const et_data_entry *entry) {
  return strlen(entry->prefix) + strlen(entry->name);
}

// The parts of an entry, from its start.
typedef struct parts {
  uint64_t layout, sizes, dim_order, key, end;
} parts;

static parts parts_of(const et_data_entry *entry) {
  parts p = {.layout = NAMED_TABLE};
  p.sizes = p.layout + LAYOUT_TABLE;
  p.dim_order = p.sizes + 4 + 4 * (uint64_t)entry->tensor.rank;
  p.key = rounded(p.dim_order + 4 + entry->tensor.rank, 4);
  p.end = rounded(p.key + 4 + key_length(entry) + 1, 4);
  return p;
}

typedef struct plan {
  uint64_t segments, entries, end;  // of tables; of the flatbuffer
  uint64_t base, data;              // of segments; bytes of all of them
} plan;

static plan plan_of(const et_data_list *list) {
  plan p = {.segments = rounded(VECTORS + 2 * (4 + 4 * (uint64_t)list->n), 8)};
  p.entries = p.segments + SEGMENT_TABLE * (uint64_t)list->n;
  p.end = p.entries;
  for (size_t i = 0; i < list->n; i++) {
    et_data_entry entry;
    list->get(list->ctx, i, &entry);
    p.end += parts_of(&entry).end;
    p.data = rounded(p.data, ALIGN) + et_tensor_bytes(&entry.tensor);
  }
  p.base = rounded(p.end, ALIGN);
  return p;
}

static et_status check_plan(const plan *p, et_error *err) {
  ET_CHECK(p->end <= INT32_MAX, err, ET_NOT_SUPPORTED,
           "data file: expected a list of entries of at most 2 GiB, got %llu bytes",
           (unsigned long long)p->end);
  return ET_OK;
}

et_status et_data_measure(const et_data_list *list, uint64_t *bytes, et_error *err) {
  const plan p = plan_of(list);
  ET_TRY(check_plan(&p, err));
  *bytes = p.base + p.data;
  return ET_OK;
}

// ---- Writing

static void put_head(output *o, const plan *p) {
  put_u32(o, ROOT);
  put(o, "FT01FH01", 8);
  put_u32(o, HEADER_BYTES);
  put_u64(o, HEADER_ROOM);
  put_u64(o, p->end - HEADER_ROOM);
  put_u64(o, p->base);
  put_u64(o, p->data);
  pad_to(o, FLATBUFFER);
  put(o, vtables, sizeof vtables);
}

static void put_vectors(output *o, const et_data_list *list, const plan *p) {
  put_vtable_offset(o, V_ROOT);
  put_offset(o, VECTORS);
  put_offset(o, VECTORS + 4 + 4 * (uint64_t)list->n);
  pad_to(o, VECTORS);
  put_u32(o, list->n);
  for (size_t i = 0; i < list->n; i++) put_offset(o, p->segments + SEGMENT_TABLE * (uint64_t)i);
  put_u32(o, list->n);
  uint64_t at = p->entries;
  for (size_t i = 0; i < list->n; i++) {
    et_data_entry entry;
    list->get(list->ctx, i, &entry);
    put_offset(o, at);
    at += parts_of(&entry).end;
  }
}

static void put_segments(output *o, const et_data_list *list, const plan *p) {
  uint64_t at = 0;
  pad_to(o, p->segments);
  for (size_t i = 0; i < list->n; i++) {
    et_data_entry entry;
    list->get(list->ctx, i, &entry);
    const uint64_t bytes = et_tensor_bytes(&entry.tensor);
    at = rounded(at, ALIGN);
    put_vtable_offset(o, V_SEGMENT);
    put_u32(o, 0);
    put_u64(o, at);
    put_u64(o, bytes);
    at += bytes;
  }
}

static void put_entry(output *o, const et_data_entry *entry, size_t segment) {
  const et_tensor *t = &entry->tensor;
  const parts p = parts_of(entry);
  const uint64_t start = o->at;
  put_vtable_offset(o, V_NAMED);
  put_offset(o, start + p.key);
  put_u32(o, segment);
  put_offset(o, start + p.layout);
  put_vtable_offset(o, V_LAYOUT);
  put_offset(o, start + p.sizes);
  put_offset(o, start + p.dim_order);
  put_u32(o, t->dtype);
  put_u32(o, t->rank);
  put(o, t->sizes, 4 * (size_t)t->rank);
  put_u32(o, t->rank);
  put(o, t->dim_order, t->rank);
  pad_to(o, start + p.key);
  put_u32(o, key_length(entry));
  put(o, entry->prefix, strlen(entry->prefix));
  put(o, entry->name, strlen(entry->name) + 1);
  pad_to(o, start + p.end);
}

et_status et_data_write(const et_data_list *list, const et_sink *sink, et_error *err) {
  const plan p = plan_of(list);
  ET_TRY(check_plan(&p, err));
  output o = {.sink = sink, .status = ET_OK, .err = err};
  et_data_entry entry;
  put_head(&o, &p);
  put_vectors(&o, list, &p);
  put_segments(&o, list, &p);
  for (size_t i = 0; i < list->n; i++) {
    list->get(list->ctx, i, &entry);
    put_entry(&o, &entry, i);
  }
  ET_ASSERT(o.at == p.end);
  pad_to(&o, p.base);
  for (size_t i = 0; i < list->n; i++) {
    list->get(list->ctx, i, &entry);
    pad_to(&o, p.base + rounded(o.at - p.base, ALIGN));
    put(&o, entry.tensor.data, et_tensor_bytes(&entry.tensor));
  }
  return o.status;
}
