// fuzz_program.c — feeds arbitrary bytes to all stages of a program, or of external data with a
// program: open, describe, measure, load, set inputs, run, run again with other sizes. For any
// bytes the outcome must be a status or a correct run; the sanitizers check the rest. Memory has
// exactly the requested sizes, so that they see every overrun. Runs end early and large programs
// are not run, because the question is safety, not endurance.
#define _POSIX_C_SOURCE 200809L
#include "runtime/et.h"
#include "runtime/signature/et_named_data.h"

#include "fuzz.h"
#include "payloads.h"

#ifdef ET_HAVE_XNNPACK
#include "backends/xnnpack/alloc_region.h"
#endif

#include <stdlib.h>
#include <string.h>

fuzz_reach reach;
fuzz_companion companion;

#define MAX_BYTES ((size_t)8 << 20)  // of any one piece of memory
#define MAX_INSTRUCTIONS 300

typedef struct bag {
  void *blocks[64];
  size_t n;
} bag;

// Allocates exactly `bytes` bytes, 64-aligned; NULL above the limit of this test. The contents are
// garbage, on which no code may rely.
static void *claim(bag *b, size_t bytes) {
  if (bytes > MAX_BYTES || b->n == sizeof b->blocks / sizeof b->blocks[0]) return NULL;
  void *block = NULL;
  if (posix_memalign(&block, ET_MEMORY_ALIGN, bytes == 0 ? 1 : bytes) != 0) return NULL;
  memset(block, 0xa5, bytes);
  b->blocks[b->n++] = block;
  return block;
}

static et_status count_down(void *ctx, const et_event *event) {
  size_t *left = ctx;
  (void)event;
  return --*left == 0 ? ET_INTERRUPTED : ET_OK;
}

static void ignore_operator(void *ctx, const char *name, const char *overload, bool is_delegate,
                            size_t n_calls, size_t bytes) {
  size_t *sum = ctx;
  *sum += strlen(name) + strlen(overload) + n_calls + bytes + (is_delegate ? 1 : 0);
}

static void describe(const et_program *program, const char *name, const et_method_info *info,
                     et_error *err) {
  size_t sum = strlen(info->input_structure) + strlen(info->output_structure);
  (void)et_program_visit_operators(program, name, ignore_operator, &sum, err);
  const size_t counts[] = {info->n_inputs, info->n_outputs, info->n_attributes};
  for (int kind = ET_SLOT_INPUT; kind <= ET_SLOT_ATTRIBUTE; kind++) {
    for (size_t i = 0; i < counts[kind]; i++) {
      et_tag tag;
      et_tensor_info facts;
      (void)et_program_slot_info(program, name, (et_slot_kind)kind, i, &tag, &facts, err);
    }
  }
}

// A tensor like the method's input; on the second run a smaller one, if that is allowed.
static bool fill_input(et_tensor *t, int32_t *sizes, ptrdiff_t *strides, bool is_smaller, bag *b) {
  memcpy(sizes, t->sizes, t->rank * sizeof *sizes);
  memcpy(strides, t->strides, t->rank * sizeof *strides);
  t->sizes = sizes;
  t->strides = strides;
  int32_t wanted[ET_MAX_RANK];
  for (size_t d = 0; d < t->rank; d++) wanted[d] = is_smaller ? sizes[d] / 2 : sizes[d];
  (void)et_tensor_resize(t, wanted, t->rank, NULL);
  const size_t bytes = et_tensor_bytes(t);
  t->data = claim(b, bytes);
  if (t->data != NULL) memset(t->data, 1, bytes);
  return t->data != NULL;
}

static bool set_inputs(et_method *method, const et_method_info *info, bool is_second, bag *b,
                       et_error *err) {
  for (size_t i = 0; i < info->n_inputs; i++) {
    const et_value *now = et_method_input(method, i);
    et_value given = *now;
    et_tensor t;
    int32_t sizes[ET_MAX_RANK];
    ptrdiff_t strides[ET_MAX_RANK];
    if (now->tag == ET_TENSOR) {
      t = *now->as.tensor;
      if (!fill_input(&t, sizes, strides, is_second, b)) return false;
      given.as.tensor = &t;
    }
    if (et_method_set_input(method, i, &given, err) != ET_OK) return false;
  }
  return true;
}

static void set_outputs(et_method *method, const et_method_info *info, bag *b, et_error *err) {
  for (size_t i = 0; i < info->n_outputs; i++) {
    const et_value *v = et_method_output(method, i);
    if (v->tag != ET_TENSOR || v->as.tensor->data != NULL) continue;
    const size_t bytes = v->as.tensor->capacity * et_dtype_bytes((et_dtype)v->as.tensor->dtype);
    const et_span memory = {claim(b, bytes), bytes};
    if (memory.data != NULL) (void)et_method_set_output_data(method, i, memory, err);
  }
}

// Every byte that an output claims to have must be readable.
static unsigned read_outputs(const et_method *method, const et_method_info *info) {
  unsigned sum = 0;
  for (size_t i = 0; i < info->n_outputs; i++) {
    const et_value *v = et_method_output(method, i);
    if (v->tag != ET_TENSOR || v->as.tensor->data == NULL) continue;
    for (size_t k = 0; k < et_tensor_bytes(v->as.tensor); k++)
      sum += ((const uint8_t *)v->as.tensor->data)[k];
  }
  return sum;
}

static void run(et_method *method, const et_method_info *info, bag *b, et_error *err) {
  unsigned sum = 0;
  for (int turn = 0; turn < 2; turn++) {
    size_t left = MAX_INSTRUCTIONS;
    const et_hooks hooks = {&left, count_down};
    if (!set_inputs(method, info, turn == 1, b, err)) return;
    if (turn == 0) set_outputs(method, info, b, err);
    const et_status traced = et_method_execute_traced(method, &hooks, err);
    reach.started += turn == 0;
    reach.finished += turn == 0 && traced == ET_OK;
    sum += read_outputs(method, info);
  }
  et_status status = ET_OK;
  for (size_t i = 0; status == ET_OK && i < MAX_INSTRUCTIONS; i++)
    status = et_method_step(method, err);
  et_method_reset(method);
  sum += read_outputs(method, info);
  reach.sum += sum;
}

static void load_and_run(const et_program *program, const char *name, const et_data_map *map,
                         et_error *err) {
  bag b = {.n = 0};
  et_method_info info;
  const et_method_config config = {.ops = &et_ops_portable,
                                   .backends = &et_backends_builtin,
                                   .data_maps = &map,
                                   .n_data_maps = map != NULL};
  et_method_needs needs;
  if (et_program_method_info(program, name, &info, err) != ET_OK) return;
  describe(program, name, &info, err);
  if (et_method_measure(program, name, &config, &needs, err) != ET_OK || needs.n_planned > 8)
    return;
  et_span planned[8];
  bool is_affordable = true;
  for (size_t i = 0; i < needs.n_planned; i++) {
    if (et_program_planned_bytes(program, name, i, &planned[i].size, err) != ET_OK)
      abort();  // measured, so proven
    planned[i].data = claim(&b, planned[i].size);
    is_affordable = is_affordable && planned[i].data != NULL;
  }
  const et_method_memory memory = {.method = {claim(&b, needs.method_bytes), needs.method_bytes},
                                   .scratch = {claim(&b, needs.scratch_bytes), needs.scratch_bytes},
                                   .planned = planned,
                                   .n_planned = needs.n_planned};
  et_method *method = NULL;
  if (is_affordable && memory.method.data != NULL && memory.scratch.data != NULL) {
    const bool is_loaded = et_method_load(program, name, &config, &memory, &method, err) == ET_OK;
    // A measured method must load, since the same code decides both. Exceptions: a backend may
    // check more once it has memory, and external data may be misaligned.
    if (!is_loaded && info.n_delegates == 0 && map == NULL) abort();
    reach.loaded += is_loaded;
    if (is_loaded) run(method, &info, &b, err);
    et_method_close(method);
  }
  for (size_t i = 0; i < b.n; i++) free(b.blocks[i]);
}

#ifdef ET_HAVE_XNNPACK
static bool is_too_much(const uint8_t *bytes, size_t size) {
  for (size_t at = 0; (at = fuzz_find_payload(bytes, size, at)) < size; at += 16) {
    if (fuzz_is_too_much(bytes + at, size - at, &eti_xnn_allocator)) return true;
  }
  return false;
}
#else
static bool is_too_much(const uint8_t *bytes, size_t size) {
  (void)bytes;
  return size == SIZE_MAX;
}
#endif

static void use_program(const et_source *source, const et_data_map *map) {
  et_error err;
  et_program program;
  if (et_program_open(&program, source, ET_VERIFY_FULL, &err) != ET_OK) return;
  reach.opened++;
  for (size_t i = 0; i < et_program_method_count(&program) && i < 8; i++)
    load_and_run(&program, et_program_method_name(&program, i), map, &err);
  size_t length;
  for (size_t i = 0; i < et_program_named_data_count(&program); i++)
    (void)et_program_named_data_key(&program, i, &length);
  et_program_close(&program);
}

// Opens the data of a source and uses a program with it.
static void use_data(const et_source *data, const et_source *program) {
  et_error err;
  et_data_map map;
  const bool is_open = et_data_map_open(&map, data, &err) == ET_OK;
  for (size_t i = 0; is_open && i < et_data_map_count(&map); i++) (void)et_data_map_key(&map, i);
  if (program->size > 0) use_program(program, is_open ? &map : NULL);
  if (is_open) et_data_map_close(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  bag b = {.n = 0};
  uint8_t *copy = claim(&b, size), *other = claim(&b, companion.size);
  if (copy != NULL && other != NULL) {
    if (size > 0) memcpy(copy, bytes, size);
    if (companion.size > 0) memcpy(other, companion.bytes, companion.size);
    const et_source input = et_source_from_memory(copy, size);
    const et_source beside = et_source_from_memory(other, companion.size);
    reach.inputs++;
    if (!is_too_much(copy, size) && !is_too_much(other, companion.size)) {
      use_data(&beside, &input);
      use_data(&input, &beside);
    }
    if (size > 0 && memcmp(copy, bytes, size) != 0) abort();  // a file is only read
    if (companion.size > 0 && memcmp(other, companion.bytes, companion.size) != 0) abort();
  }
  for (size_t i = 0; i < b.n; i++) free(b.blocks[i]);
  return 0;
}
