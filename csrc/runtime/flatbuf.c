// flatbuf.c — see flatbuf.h. The verifier has one small function for each kind of slot, driven by
// the schema's bytes. The nesting of the schema bounds its depth, MAX_TABLES its work.
#include "runtime/flatbuf.h"

#include "runtime/bytes.h"
#include "runtime/check.h"

// Limit of tables in one file. Tables may be shared, so a small file can describe a huge tree;
// upstream's verifier has the same limit.
#define MAX_TABLES 1000000u

typedef struct verifier {
  const uint8_t *base;
  size_t size;
  const eti_fb_schema *schema;
  size_t where;
  uint32_t n_tables;
} verifier;

static bool is_range(verifier *v, size_t at, uint64_t bytes, size_t align) {
  v->where = at;
  return at % align == 0 && eti_inside(at, bytes, v->size);
}

// Follows the offset stored at `at`.
static bool follow(verifier *v, size_t at, size_t *target) {
  if (!is_range(v, at, 4, 4)) return false;
  const uint32_t offset = eti_u32(v->base + at);
  return offset != 0 && eti_add(at, offset, target);
}

static bool is_vector(verifier *v, size_t at, size_t element_bytes, size_t *begin, size_t *n) {
  size_t target;
  if (!follow(v, at, &target) || !is_range(v, target, 4, 4)) return false;
  *begin = target + 4;
  *n = eti_u32(v->base + target);
  return is_range(v, *begin, (uint64_t)*n * element_bytes, element_bytes);
}

static bool is_table(verifier *v, size_t at, unsigned type);

static bool is_slot(verifier *v, size_t at, unsigned kind, unsigned what) {
  size_t begin, n;
  switch (kind) {
    case ETI_FB_SCALAR(0) >> 5:
      return is_range(v, at, what, what);
    case ETI_FB_STRING >> 5:
      return is_vector(v, at, 1, &begin, &n) && is_range(v, begin + n, 1, 1) &&
             v->base[begin + n] == 0;
    case ETI_FB_VECTOR(0) >> 5:
      return is_vector(v, at, what, &begin, &n);
    case ETI_FB_TABLE(0) >> 5:
      return follow(v, at, &begin) && is_table(v, begin, what);
    case ETI_FB_TABLES(0) >> 5:
      if (!is_vector(v, at, 4, &begin, &n)) return false;
      for (size_t i = 0; i < n; i++) {
        size_t member;
        if (!follow(v, begin + 4 * i, &member) || !is_table(v, member, what)) return false;
      }
      return true;
    default:
      return true;
  }
}

static bool is_table(verifier *v, size_t at, unsigned type) {
  if (++v->n_tables > MAX_TABLES || !is_range(v, at, 4, 4)) return false;
  const int64_t distance = eti_i32(v->base + at);
  if (distance > (int64_t)at || (int64_t)at - distance > (int64_t)v->size) return false;
  const size_t vtable = (size_t)((int64_t)at - distance);
  if (!is_range(v, vtable, 4, 2)) return false;
  const size_t vtable_bytes = eti_u16(v->base + vtable);
  if (vtable_bytes < 4 || !is_range(v, vtable, vtable_bytes, 2)) return false;
  const size_t n_slots = vtable_bytes / 2 - 2;
  unsigned member = 0;  // of the union whose value slot comes next
  for (unsigned slot = 0; slot < ETI_FB_SLOTS && slot < n_slots; slot++) {
    unsigned kind = v->schema[type][slot] >> 5;
    unsigned what = v->schema[type][slot] & 31u;
    const unsigned offset = eti_u16(v->base + vtable + 4 + 2 * slot);
    if (offset == 0) continue;
    const size_t field = at + offset;
    if (kind == ETI_FB_UNION(0) >> 5) {
      if (!is_range(v, field, 1, 1)) return false;
      member = v->base[field];
      if (member > (v->schema[type][slot + 1] & 31u)) return false;
      if (member != 0) member += what - 1;
      continue;
    }
    if (kind == ETI_FB_MEMBERS(0) >> 5) {
      if (member == 0) return false;  // a value without a kind cannot be verified
      kind = ETI_FB_TABLE(0) >> 5;
      what = member;
    }
    if (!is_slot(v, field, kind, what)) return false;
  }
  return true;
}

bool eti_fb_verify(const uint8_t *base, size_t size, const eti_fb_schema *schema, size_t *where) {
  verifier v = {.base = base, .size = size, .schema = schema};
  size_t root;
  const bool is_sound = follow(&v, 0, &root) && is_table(&v, root, 0);
  *where = v.where;
  return is_sound;
}

const uint8_t *eti_fb_root(const uint8_t *base) {
  return base + eti_u32(base);
}

const uint8_t *eti_fb_field(const uint8_t *table, unsigned slot) {
  if (table == NULL) return NULL;
  const uint8_t *vtable = table - eti_i32(table);
  ET_ASSERT(eti_u16(vtable) >= 4);
  if (4 + 2 * slot + 2 > eti_u16(vtable)) return NULL;
  const unsigned offset = eti_u16(vtable + 4 + 2 * slot);
  return offset == 0 ? NULL : table + offset;
}

uint8_t eti_fb_u8(const uint8_t *table, unsigned slot) {
  const uint8_t *field = eti_fb_field(table, slot);
  return field == NULL ? 0 : *field;
}

uint32_t eti_fb_u32(const uint8_t *table, unsigned slot) {
  const uint8_t *field = eti_fb_field(table, slot);
  return field == NULL ? 0 : eti_u32(field);
}

uint64_t eti_fb_u64(const uint8_t *table, unsigned slot) {
  const uint8_t *field = eti_fb_field(table, slot);
  return field == NULL ? 0 : eti_u64(field);
}

const uint8_t *eti_fb_table(const uint8_t *table, unsigned slot) {
  const uint8_t *field = eti_fb_field(table, slot);
  ET_ASSERT(field == NULL || eti_u32(field) != 0);
  return field == NULL ? NULL : field + eti_u32(field);
}

eti_vector eti_fb_vector(const uint8_t *table, unsigned slot) {
  eti_vector v = {.data = eti_fb_table(table, slot)};
  if (v.data != NULL) {
    v.n = eti_u32(v.data);
    v.data += 4;
  }
  return v;
}

const char *eti_fb_string(const uint8_t *table, unsigned slot) {
  const eti_vector text = eti_fb_vector(table, slot);
  ET_ASSERT(text.data == NULL || text.data[text.n] == '\0');
  return (const char *)text.data;
}

const uint8_t *eti_fb_at(eti_vector tables, size_t i) {
  ET_ASSERT(i < tables.n);
  const uint8_t *offset = tables.data + 4 * i;
  ET_ASSERT(eti_u32(offset) != 0);
  return offset + eti_u32(offset);
}
