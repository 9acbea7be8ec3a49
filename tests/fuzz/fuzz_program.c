// fuzz_program.c — feeds arbitrary bytes to the whole path of a program: open, describe, measure,
// load, set inputs, run. Whatever the bytes are, the outcome is a status or a correct run; the
// sanitizers judge the rest. Memory is given in exactly the sizes asked for, so that a byte too
// many is seen. Runs end early and large programs are not run, because the question is safety, not
// endurance.
#define _POSIX_C_SOURCE 200809L
#include "runtime/et.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

fuzz_reach reach;

#define MOST_BYTES ((size_t)8 << 20)  // of any one piece of memory
#define MOST_INSTRUCTIONS 300

typedef struct bag {
  void *blocks[64];
  size_t n;
} bag;

// Exactly `bytes` bytes, 64-aligned; NULL when that is more than this test wants to spend.
static void *claim(bag *b, size_t bytes) {
  if (bytes > MOST_BYTES || b->n == sizeof b->blocks / sizeof b->blocks[0]) return NULL;
  void *block = NULL;
  if (posix_memalign(&block, ET_MEMORY_ALIGN, bytes == 0 ? 1 : bytes) != 0) return NULL;
  memset(block, 0, bytes);
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

static bool set_inputs(et_method *method, const et_method_info *info, bag *b, et_error *err) {
  for (size_t i = 0; i < info->n_inputs; i++) {
    const et_value *now = et_method_input(method, i);
    et_value given = *now;
    et_tensor t;
    if (now->tag == ET_TENSOR) {
      t = *now->as.tensor;
      const size_t bytes = et_tensor_bytes(&t);
      t.data = claim(b, bytes);
      if (t.data == NULL) return false;
      memset(t.data, 1, bytes);
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

static void run(et_method *method, const et_method_info *info, bag *b, et_error *err) {
  size_t left = MOST_INSTRUCTIONS;
  const et_hooks hooks = {&left, count_down};
  if (!set_inputs(method, info, b, err)) return;
  set_outputs(method, info, b, err);
  const et_status traced = et_method_execute_traced(method, &hooks, err);
  reach.started++;
  reach.finished += traced == ET_OK;
  et_status status = ET_OK;
  for (size_t i = 0; status == ET_OK && i < MOST_INSTRUCTIONS; i++)
    status = et_method_step(method, err);
  et_method_reset(method);
  for (size_t i = 0; i < info->n_outputs;
       i++) {  // every byte that an output claims to have must be readable
    const et_value *v = et_method_output(method, i);
    if (v->tag != ET_TENSOR || v->as.tensor->data == NULL) continue;
    unsigned sum = 0;
    for (size_t k = 0; k < et_tensor_bytes(v->as.tensor); k++)
      sum += ((const uint8_t *)v->as.tensor->data)[k];
    if (sum == 1) left++;
  }
}

static void load_and_run(const et_program *program, const char *name, et_error *err) {
  bag b = {.n = 0};
  et_method_info info;
  const et_method_config config = {.ops = &et_ops_portable, .backends = &et_backends_builtin};
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
    // What was measured must load: the same code decides both. Only a backend may look closer once
    // it has memory.
    if (!is_loaded && info.n_delegates == 0) abort();
    reach.loaded += is_loaded;
    if (is_loaded) run(method, &info, &b, err);
    et_method_close(method);
  }
  for (size_t i = 0; i < b.n; i++) free(b.blocks[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  et_error err;
  bag b = {.n = 0};
  uint8_t *copy = claim(&b, size);
  if (copy == NULL) return 0;
  if (size > 0) memcpy(copy, bytes, size);
  const et_source source = et_source_from_memory(copy, size);
  et_program program;
  reach.inputs++;
  if (et_program_open(&program, &source, ET_VERIFY_FULL, &err) == ET_OK) {
    reach.opened++;
    for (size_t i = 0; i < et_program_method_count(&program) && i < 8; i++) {
      load_and_run(&program, et_program_method_name(&program, i), &err);
    }
    size_t length;
    for (size_t i = 0; i < et_program_named_data_count(&program); i++)
      (void)et_program_named_data_key(&program, i, &length);
    et_program_close(&program);
  }
  et_data_map map;
  if (et_data_map_open(&map, &source, &err) == ET_OK) {
    for (size_t i = 0; i < et_data_map_count(&map); i++) (void)et_data_map_key(&map, i);
    et_data_map_close(&map);
  }
  free(copy);
  return 0;
}
