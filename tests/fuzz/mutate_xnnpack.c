// mutate_xnnpack.c — changes one field of a delegate payload: of a node, of a value, of its
// quantization, a size, an element of a list, the kind of a node, the constant of a value. Such
// payloads keep their structure and reach the checks of ids, types and shapes, and XNNPACK itself.
// Uses the format's slots; expects a sound payload with a header.
#include "backends/xnnpack/payload/payload_schema.h"
#include "runtime/bytes.h"
#include "runtime/flatbuf.h"

#include "fuzz.h"
#include "payloads.h"

static uint64_t random_state;

static uint64_t random_below(uint64_t n) {
  return fuzz_random(&random_state) % n;
}

static void write_number(const uint8_t *at, uint64_t value, size_t bytes) {
  memcpy((void *)(uintptr_t)at, &value, bytes);
}

static void change_number(const uint8_t *at, size_t bytes) {
  static const uint32_t extremes[] = {0, 1, 127, 255, 256, 65536, 0x7fffffff, 0x80000000u, ~0u};
  uint64_t now = 0;
  memcpy(&now, at, bytes);
  const uint64_t near[] = {now + 1,          now - 1,         now * 2, now / 2,
                           now + 16,         random_below(3), now ^ 1, random_below(8),
                           random_below(64), random_below(16)};
  write_number(at,
               random_below(5) == 0 ? extremes[random_below(sizeof extremes / sizeof *extremes)]
                                    : near[random_below(sizeof near / sizeof *near)],
               bytes);
}

// Changes a random field of a table, all of them four bytes wide, or of the list that it refers to.
static void change_field(const uint8_t *table, unsigned first, unsigned end, unsigned lists) {
  const unsigned slot = first + (unsigned)random_below(end - first);
  const uint8_t *field = eti_fb_field(table, slot);
  if (field == NULL) return;
  if ((lists >> slot & 1u) == 0) {
    change_number(field, 4);
    return;
  }
  const eti_vector list = eti_fb_vector(table, slot);
  if (list.n == 0 || random_below(6) == 0) {
    write_number(list.data - 4, random_below(list.n + 2), 4);
  } else {
    change_number(list.data + 4 * (size_t)random_below(list.n), 4);
  }
}

static unsigned list_slots_of(unsigned kind) {
  switch (kind) {
    case 5:  // StaticTranspose
    case 20:
      return 1u << 1;
    case 10:  // StaticConstantPad
      return 1u << 0 | 1u << 1;
    case 35:  // StaticSlice
      return 1u << 1 | 1u << 2;
    default:
      return 0;
  }
}

static void change_node(const uint8_t *node) {
  const unsigned kind = eti_fb_u8(node, NODE_KIND);
  const uint8_t *table = eti_fb_table(node, NODE_UNION);
  const uint8_t *bounds = eti_fb_table(node, NODE_MIN_MAX);
  if (random_below(16) == 0 && eti_fb_field(node, NODE_KIND) != NULL) {
    write_number(eti_fb_field(node, NODE_KIND), random_below(50), 1);
  } else if (bounds != NULL && random_below(8) == 0) {
    change_field(bounds, 0, 2, 0);
  } else if (table != NULL) {
    change_field(table, 0, (unsigned)(eti_u16(table - eti_i32(table)) - 4) / 2,
                 list_slots_of(kind));
  }
}

static void change_value(const uint8_t *value) {
  const uint8_t *member = eti_fb_table(value, VALUE_UNION);
  const uint8_t *tensor = member;
  if (member == NULL) return;
  if (eti_fb_u8(value, VALUE_KIND) == VALUE_QUANTIZED) {
    tensor = eti_fb_table(member, QUANTIZED_TENSOR);
    const uint8_t *params = eti_fb_table(member, QUANTIZED_UNION);
    if (params != NULL && random_below(3) == 0) {
      change_field(params, 0, 2, 0);
      return;
    }
  }
  if (tensor == NULL) return;
  if (random_below(5) == 0 && eti_fb_field(tensor, TENSOR_DATATYPE) != NULL) {
    write_number(eti_fb_field(tensor, TENSOR_DATATYPE), random_below(16), 2);
  } else {
    change_field(tensor, TENSOR_N_DIMS, TENSOR_ID + 1, 1u << TENSOR_DIMS);
  }
}

void fuzz_change_payload(uint8_t *bytes, size_t size, unsigned seed) {
  if (size < XH_BYTES || memcmp(bytes + XH_MAGIC, "XH00", 4) != 0) return;
  random_state = seed;
  const uint8_t *root = eti_fb_root(bytes + eti_u32(bytes + XH_GRAPH_OFFSET));
  const eti_vector nodes = eti_fb_vector(root, GRAPH_NODES);
  const eti_vector values = eti_fb_vector(root, GRAPH_VALUES);
  // One change: a second would walk fields that the first has damaged.
  if (random_below(2) == 0 && nodes.n > 0) {
    change_node(eti_fb_at(nodes, (size_t)random_below(nodes.n)));
  } else if (values.n > 0) {
    change_value(eti_fb_at(values, (size_t)random_below(values.n)));
  }
}
