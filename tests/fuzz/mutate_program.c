// mutate_program.c — changes fields of a program or of external data. A random walk through the
// tables chooses the field. A number becomes another plausible or extreme one, a list changes its
// length, a union its kind, an offset refers to another object of the same kind, two list members
// are exchanged or become one, a field becomes absent. If there are delegates, every second change
// is in a payload (mutate_xnnpack.c). Such files mostly keep their structure and reach the loader
// and the kernels, which flipped bits seldom do. Relies on the runtime's schemas; the input must be
// a sound file.
#include "runtime/bytes.h"
#include "runtime/data_map.h"
#include "runtime/pte.h"

#include "fuzz.h"
#include "payloads.h"

#define MAX_OBJECTS 512

typedef struct object {
  const uint8_t *at;
  uint8_t kind;  // a byte of the schema
} object;

typedef struct walk {
  uint64_t random;
  const eti_fb_schema *schema;
  object objects[MAX_OBJECTS];  // what offsets lead to
  size_t n_objects;
} walk;

static uint64_t choose(walk *w, uint64_t n) {
  return fuzz_random(&w->random) % n;
}

static void put(const uint8_t *at, uint64_t value, size_t bytes) {
  memcpy((void *)(uintptr_t)at, &value, bytes);
}

static void change_number(walk *w, const uint8_t *at, size_t bytes) {
  static const uint64_t extremes[] = {0,          127,         128,         255,
                                      256,        0x7fff,      0xffff,      65536,
                                      0x7fffffff, 0x80000000u, 0xffffffffu, 0x7fffffffffffffffu,
                                      UINT64_MAX};
  uint64_t now = 0;
  memcpy(&now, at, bytes);
  const uint64_t near[] = {now + 1,  now - 1, now + 4,      now * 2,       now / 2,
                           now + 16, now ^ 1, choose(w, 4), choose(w, 16), choose(w, 64)};
  const uint64_t kind = choose(w, 4);
  put(at,
      kind == 0 ? extremes[choose(w, sizeof extremes / sizeof *extremes)]
                : near[choose(w, sizeof near / sizeof *near)],
      bytes);
}

static void change_vector(walk *w, const uint8_t *table, unsigned slot, size_t element_bytes) {
  const eti_vector v = eti_fb_vector(table, slot);
  if (v.n == 0 || choose(w, 8) == 0) {
    put(v.data - 4, choose(w, 2) == 0 ? choose(w, v.n + 3) : v.n + 1 + choose(w, 1000), 4);
  } else {
    change_number(w, v.data + element_bytes * (size_t)choose(w, v.n), element_bytes);
  }
}

static void note(walk *w, const uint8_t *at, uint8_t kind) {
  if (at == NULL || w->n_objects == MAX_OBJECTS) return;
  const object found = {at, kind};
  w->objects[w->n_objects++] = found;
}

// Notes every object below a table.
static void collect(walk *w, const uint8_t *table, unsigned type) {
  if (w->n_objects == MAX_OBJECTS) return;
  note(w, table, (uint8_t)ETI_FB_TABLE(type));
  for (unsigned slot = 0; slot < ETI_FB_SLOTS; slot++) {
    const uint8_t what = w->schema[type][slot];
    const unsigned kind = what >> 5, row = what & 31u;
    if (kind == ETI_FB_TABLE(0) >> 5) {
      if (eti_fb_table(table, slot) != NULL) collect(w, eti_fb_table(table, slot), row);
    } else if (kind == ETI_FB_TABLES(0) >> 5) {
      const eti_vector members = eti_fb_vector(table, slot);
      note(w, eti_fb_table(table, slot), what);
      for (size_t i = 0; i < members.n; i++) collect(w, eti_fb_at(members, i), row);
    } else if (kind == ETI_FB_UNION(0) >> 5) {
      const uint8_t *member = eti_fb_table(table, slot + 1);
      if (member != NULL) collect(w, member, row - 1 + eti_fb_u8(table, slot));
    } else if (kind == ETI_FB_STRING >> 5 || kind == ETI_FB_VECTOR(0) >> 5) {
      note(w, eti_fb_table(table, slot), what);
    }
  }
}

// Changes the offset at a place to another object of its kind at a higher address.
static void redirect(walk *w, const uint8_t *place, uint8_t kind) {
  if (w->n_objects == 0) return;
  const size_t first = (size_t)choose(w, w->n_objects);
  for (size_t i = 0; i < w->n_objects; i++) {
    const object *o = &w->objects[(first + i) % w->n_objects];
    if (o->kind != kind || o->at <= place || o->at == place + eti_u32(place)) continue;
    put(place, (uint64_t)(o->at - place), 4);
    return;
  }
}

// Exchanges two members, or copies one over the other.
static void shuffle(walk *w, eti_vector members) {
  const uint8_t *a = members.data + 4 * (size_t)choose(w, members.n);
  const uint8_t *b = members.data + 4 * (size_t)choose(w, members.n);
  const uint8_t *at_a = a + eti_u32(a), *at_b = b + eti_u32(b);
  if (at_b > a) put(a, (uint64_t)(at_b - a), 4);
  if (at_a > b && choose(w, 2) == 0) put(b, (uint64_t)(at_a - b), 4);
}

// One step: changes a field of the table, or walks to one of its children.
static void change_table(walk *w, const uint8_t *table, unsigned type) {
  unsigned present[ETI_FB_SLOTS], n = 0;
  for (unsigned slot = 0; slot < ETI_FB_SLOTS; slot++) {
    const unsigned kind = w->schema[type][slot] >> 5;
    if (kind != 0 && kind != ETI_FB_MEMBERS(0) >> 5 && eti_fb_field(table, slot) != NULL)
      present[n++] = slot;
  }
  if (n == 0) return;
  const unsigned slot = present[choose(w, n)], kind = w->schema[type][slot] >> 5,
                 what = w->schema[type][slot] & 31u;
  const uint8_t *field = eti_fb_field(table, slot);
  const bool is_offset = kind != ETI_FB_SCALAR(0) >> 5 && kind != ETI_FB_UNION(0) >> 5;
  if (is_offset && choose(w, 12) == 0) {
    redirect(w, field, w->schema[type][slot]);
  } else if (choose(w, 32) == 0) {  // absent, here and in all tables that share the vtable
    put(table - eti_i32(table) + 4 + 2 * slot, 0, 2);
  } else if (kind == ETI_FB_SCALAR(0) >> 5) {
    change_number(w, field, what);
  } else if (kind == ETI_FB_STRING >> 5) {
    change_vector(w, table, slot, 1);
  } else if (kind == ETI_FB_VECTOR(0) >> 5) {
    change_vector(w, table, slot, what);
  } else if (kind == ETI_FB_TABLE(0) >> 5) {
    change_table(w, eti_fb_table(table, slot), what);
  } else if (kind == ETI_FB_TABLES(0) >> 5) {
    const eti_vector members = eti_fb_vector(table, slot);
    const size_t i = members.n == 0 ? 0 : (size_t)choose(w, members.n);
    if (members.n > 1 && choose(w, 12) == 0) {
      shuffle(w, members);
    } else if (members.n > 0 && choose(w, 12) == 0) {
      redirect(w, members.data + 4 * i, (uint8_t)ETI_FB_TABLE(what));
    } else if (members.n > 0) {
      change_table(w, eti_fb_at(members, i), what);
    }
  } else {
    const uint8_t *member = eti_fb_table(table, slot + 1);
    if (member == NULL || choose(w, 16) == 0) {
      change_number(w, field, 1);
    } else {
      change_table(w, member, what - 1 + *field);
    }
  }
}

// A payload of a delegate, for every second change of a file that has some; else `size`.
static size_t choose_payload(const uint8_t *bytes, size_t size, unsigned seed) {
  size_t found[64], n = 0, at = 0;
  while (n < 64 && (at = fuzz_find_payload(bytes, size, at)) < size) {
    found[n++] = at;
    at += 16;
  }
  uint64_t random = ~(uint64_t)seed;
  return n == 0 || fuzz_random(&random) % 2 == 0 ? size : found[fuzz_random(&random) % n];
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed) {
  if (size < 64) return size;
  const bool is_data = memcmp(bytes + 4, eti_ptd_format.identifier, 4) == 0;
  const size_t payload = choose_payload(bytes, size, seed);
  if (payload < size) {
    fuzz_change_payload(bytes + payload, size - payload, seed);
    return size;
  }
  walk w = {.random = seed, .schema = (is_data ? &eti_ptd_format : &eti_pte_format)->schema};
  (void)room;
  for (uint64_t n = 1 + choose(&w, 3); n > 0; n--) {
    size_t where;
    if (!eti_fb_verify(bytes, size, w.schema, &where)) break;
    w.n_objects = 0;
    collect(&w, eti_fb_root(bytes), 0);
    change_table(&w, eti_fb_root(bytes), 0);
  }
  return size;
}
