// rig.h — the fixture for tests of programs and methods: a golden file or a written one in memory,
// which a test may damage, and a method loaded into exactly the measured memory. Relies on the
// public header, and on the flatbuffer readers to find the fields to damage.
#ifndef ET_RIG_H
#define ET_RIG_H

#include "runtime/et.h"
#include "runtime/bytes.h"
#include "runtime/pte.h"

#include "et_test.h"
#include "pte_writer.h"

#include <stdlib.h>

typedef struct rig {
  uint8_t *bytes;
  size_t size;
  et_error err;
  et_program program;
  et_method *method;
  et_method_config config;
  et_method_needs needs;
  void *blocks[16];
  size_t n_blocks;
} rig;

static inline void *rig_claim(rig *r, size_t bytes) {
  const size_t rounded = (bytes + ET_MEMORY_ALIGN) & ~(size_t)(ET_MEMORY_ALIGN - 1);
  void *block = aligned_alloc(ET_MEMORY_ALIGN, rounded);
  if (block == NULL || r->n_blocks == 16) abort();
  memset(block, 0, rounded);
  r->blocks[r->n_blocks++] = block;
  return block;
}

// Reads tests/golden/NAME; tests run in the repository's root.
static inline rig rig_read(const char *name) {
  rig r = {.config = {.ops = &et_ops_portable, .backends = &et_backends_builtin}};
  char path[256];
  snprintf(path, sizeof path, "tests/golden/%s", name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    printf("cannot open %s: run the tests in the repository's root\n", path);
    abort();
  }
  fseek(file, 0, SEEK_END);
  r.size = (size_t)ftell(file);
  rewind(file);
  r.bytes = rig_claim(&r, r.size);
  if (fread(r.bytes, 1, r.size, file) != r.size) abort();
  fclose(file);
  return r;
}

// Takes ownership of bytes from malloc or realloc.
static inline rig rig_take(uint8_t *bytes, size_t size) {
  rig r = {.config = {.ops = &et_ops_portable, .backends = &et_backends_builtin}};
  r.bytes = bytes;
  r.size = size;
  r.blocks[r.n_blocks++] = bytes;
  return r;
}

static inline rig rig_make_program(const made_program *program) {
  size_t size;
  uint8_t *bytes = make_program(program, &size);
  return rig_take(bytes, size);
}

// A program with one method.
static inline rig rig_make(const made_plan *plan) {
  const made_program program = {.plans = plan, .n_plans = 1};
  return rig_make_program(&program);
}

static inline et_status rig_open(rig *r) {
  const et_source source = et_source_from_memory(r->bytes, r->size);
  return et_program_open(&r->program, &source, ET_VERIFY_FULL, &r->err);
}

static inline et_status rig_load(rig *r, const char *name) {
  et_status status = et_method_measure(&r->program, name, &r->config, &r->needs, &r->err);
  if (status != ET_OK) return status;
  et_span planned[4] = {{0}};
  for (size_t i = 0; i < r->needs.n_planned && i < 4; i++) {
    status = et_program_planned_bytes(&r->program, name, i, &planned[i].size, &r->err);
    if (status != ET_OK) return status;
    planned[i].data = rig_claim(r, planned[i].size);
  }
  const et_method_memory memory = {
      .method = {rig_claim(r, r->needs.method_bytes), r->needs.method_bytes},
      .scratch = {rig_claim(r, r->needs.scratch_bytes), r->needs.scratch_bytes},
      .planned = planned,
      .n_planned = r->needs.n_planned};
  return et_method_load(&r->program, name, &r->config, &memory, &r->method, &r->err);
}

// Opens and loads; false, with the error in err, when one of them fails.
static inline bool rig_start(rig *r, const char *name) {
  return rig_open(r) == ET_OK && rig_load(r, name) == ET_OK;
}

static inline void rig_end(rig *r) {
  et_method_close(r->method);
  et_program_close(&r->program);
  for (size_t i = 0; i < r->n_blocks; i++) free(r->blocks[i]);
}

// A tensor over caller memory with contiguous layout; lives as long as the struct.
typedef struct rig_tensor {
  et_tensor t;
  et_value value;
  int32_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];
  uint8_t dim_order[ET_MAX_RANK];
} rig_tensor;

static inline void rig_fill_tensor(rig_tensor *out, void *data, et_dtype dtype, size_t rank,
                                   const int32_t *sizes) {
  memset(out, 0, sizeof *out);
  size_t numel = 1;
  for (size_t d = 0; d < rank && d < ET_MAX_RANK; d++) {
    out->sizes[d] = sizes[d];
    out->dim_order[d] = (uint8_t)d;
    numel *= (size_t)sizes[d];
  }
  ptrdiff_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    out->strides[d] = stride;
    stride *= sizes[d] == 0 ? 1 : sizes[d];
  }
  const et_tensor t = {.data = data,
                       .sizes = out->sizes,
                       .strides = out->strides,
                       .dim_order = out->dim_order,
                       .numel = numel,
                       .capacity = numel,
                       .dtype = (uint8_t)dtype,
                       .rank = (uint8_t)rank};
  out->t = t;
  out->value.tag = ET_TENSOR;
  out->value.as.tensor = &out->t;
}

static inline et_status rig_set(rig *r, size_t i, void *data, et_dtype dtype, size_t rank,
                                const int32_t *sizes) {
  rig_tensor t;
  rig_fill_tensor(&t, data, dtype, rank, sizes);
  return et_method_set_input(r->method, i, &t.value, &r->err);
}

// ---- Damage. The tables are found in the undamaged bytes; a field that a file leaves out cannot
// be changed, only a present one removed.

static inline const uint8_t *rig_root(const rig *r) {
  return eti_fb_root(r->bytes);
}

static inline const uint8_t *rig_plan(const rig *r) {
  return eti_fb_at(eti_fb_vector(rig_root(r), PTE_PROGRAM_PLANS), 0);
}

// Member i of a vector of tables.
static inline const uint8_t *rig_member(const uint8_t *table, unsigned slot, size_t i) {
  return eti_fb_at(eti_fb_vector(table, slot), i);
}

// The n-th value table of a kind in the first plan; NULL when there are fewer.
static inline const uint8_t *rig_value(const rig *r, unsigned code, size_t n) {
  const eti_vector values = eti_fb_vector(rig_plan(r), PTE_PLAN_VALUES);
  for (size_t i = 0; i < values.n; i++) {
    const uint8_t *value = eti_fb_at(values, i);
    if (eti_fb_u8(value, PTE_UNION_CODE) == code && n-- == 0)
      return eti_fb_table(value, PTE_UNION_TABLE);
  }
  return NULL;
}

// The table of instruction i of the first chain.
static inline const uint8_t *rig_instruction(const rig *r, size_t i) {
  return eti_fb_table(
      rig_member(rig_member(rig_plan(r), PTE_PLAN_CHAINS, 0), PTE_CHAIN_INSTRUCTIONS, i),
      PTE_UNION_TABLE);
}

static inline void rig_poke(const uint8_t *at, const void *bytes, size_t n) {
  if (at != NULL) memcpy((void *)(uintptr_t)at, bytes, n);
}

static inline void rig_poke_u32(const uint8_t *at, uint32_t v) {
  rig_poke(at, &v, 4);
}
static inline void rig_poke_u64(const uint8_t *at, uint64_t v) {
  rig_poke(at, &v, 8);
}
static inline void rig_poke_u8(const uint8_t *at, uint8_t v) {
  rig_poke(at, &v, 1);
}

// Makes a field absent, in all tables that share the vtable.
static inline void rig_remove(const uint8_t *table, unsigned slot) {
  const uint8_t *vtable = table - eti_i32(table);
  const uint16_t absent = 0;
  if (eti_fb_field(table, slot) != NULL) rig_poke(vtable + 4 + 2 * slot, &absent, 2);
}

#endif  // ET_RIG_H
