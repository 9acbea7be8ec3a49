// mutate_program.c — changes one field of a program file, found by a random walk through its
// tables: a number becomes another plausible or extreme one, a list changes its length, a union its
// kind, a field goes absent. Such files mostly keep their structure and reach the loader and the
// kernels, which flipped bits seldom do. Relies on the schema that the runtime verifies by; the
// bytes given must be a sound program.
#include "runtime/bytes.h"
#include "runtime/pte.h"

#include "fuzz.h"

typedef struct walk {
  uint64_t random;
  const eti_fb_schema *schema;
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

// One step: changes something of the table, or goes to one of its children.
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
  if (choose(w, 32) == 0) {  // absent, here and in all tables that share the vtable
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
    if (members.n > 0) change_table(w, eti_fb_at(members, (size_t)choose(w, members.n)), what);
  } else {
    const uint8_t *member = eti_fb_table(table, slot + 1);
    if (member == NULL || choose(w, 16) == 0) {
      change_number(w, field, 1);
    } else {
      change_table(w, member, what - 1 + *field);
    }
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed) {
  walk w = {.random = seed, .schema = eti_pte_format.schema};
  (void)room;
  for (uint64_t n = 1 + choose(&w, 3); n > 0; n--) {
    size_t where;
    if (size < 64 || !eti_fb_verify(bytes, size, w.schema, &where)) break;
    change_table(&w, eti_fb_root(bytes), 0);
  }
  return size;
}
