// example_generate.c — a C program that generates text with a language model: ids of tokens go in,
// ids come out.
//   example_generate MODEL.pte N ID…
// MODEL.pte is made by `executorch_py llm export`. The ids are read in calls of as many tokens as
// the method takes; then the most probable token is appended, N times. The caches are in the
// planned buffers: a copy of these and of `position` saves the state, and copying them back
// restores it.
#include "runtime/et.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_PLANNED = 4 };

typedef struct model {
  et_file_map file;
  et_program program;
  et_method *method;
  et_method_memory memory;
  et_span planned[MAX_PLANNED];
  size_t longest;   // tokens of one call
  size_t position;  // tokens read so far
} model;

static int fail(const et_error *err) {
  fprintf(stderr, "%s: %s\n", et_status_name(err->status), err->message);
  return 1;
}

// Zeroed memory: caches start empty.
static et_span allocate(size_t bytes) {
  const size_t rounded = (bytes + ET_MEMORY_ALIGN) / ET_MEMORY_ALIGN * ET_MEMORY_ALIGN;
  const et_span span = {aligned_alloc(ET_MEMORY_ALIGN, rounded), rounded};
  if (span.data == NULL) exit(1);
  for (size_t i = 0; i < rounded; i++) ((unsigned char *)span.data)[i] = 0;
  return span;
}

static et_status load(model *m, const char *path, et_error *err) {
  et_status status = et_file_map_open(&m->file, path, err);
  if (status != ET_OK) return status;
  const et_source source = et_source_from_memory(m->file.data, m->file.size);
  const et_method_config config = {.ops = &et_ops_portable, .backends = &et_backends_builtin};
  et_method_needs needs;
  status = et_program_open(&m->program, &source, ET_VERIFY_FULL, err);
  if (status == ET_OK) status = et_method_measure(&m->program, "forward", &config, &needs, err);
  if (status != ET_OK) return status;
  if (needs.n_planned > MAX_PLANNED) return ET_NOT_SUPPORTED;
  for (size_t i = 0; i < needs.n_planned; i++) {
    size_t bytes;
    status = et_program_planned_bytes(&m->program, "forward", i, &bytes, err);
    if (status != ET_OK) return status;
    m->planned[i] = allocate(bytes);
  }
  m->memory = (et_method_memory){.method = allocate(needs.method_bytes),
                                 .scratch = allocate(needs.scratch_bytes),
                                 .planned = m->planned,
                                 .n_planned = needs.n_planned};
  et_tag tag;
  et_tensor_info tokens;
  status = et_program_slot_info(&m->program, "forward", ET_SLOT_INPUT, 0, &tag, &tokens, err);
  if (status != ET_OK) return status;
  if (tag != ET_TENSOR || tokens.rank != 2 || tokens.dtype != ET_I64) return ET_NOT_SUPPORTED;
  m->longest = (size_t)tokens.sizes[1];  // the upper bound
  return et_method_load(&m->program, "forward", &config, &m->memory, &m->method, err);
}

static et_status set_numbers(model *m, size_t input, int64_t *data, size_t n, et_error *err) {
  et_tensor tensor = *et_method_input(m->method, input)->as.tensor;
  int32_t sizes[2] = {1, (int32_t)n};
  ptrdiff_t strides[2] = {(ptrdiff_t)n, 1};
  tensor.sizes = sizes + 2 - tensor.rank;
  tensor.strides = strides + 2 - tensor.rank;
  tensor.numel = n;
  tensor.data = data;
  const et_value value = {.tag = ET_TENSOR, .as.tensor = &tensor};
  return et_method_set_input(m->method, input, &value, err);
}

// Reads n tokens, in pieces; *best is the most probable next one, the first of equal ones.
static et_status feed(model *m, int64_t *ids, size_t n, int64_t *best, et_error *err) {
  while (n > 0) {
    const size_t now = n < m->longest ? n : m->longest;
    int64_t start = (int64_t)m->position;
    et_status status = set_numbers(m, 0, ids, now, err);
    if (status == ET_OK) status = set_numbers(m, 1, &start, 1, err);
    if (status == ET_OK) status = et_method_execute(m->method, err);
    if (status != ET_OK) return status;
    m->position += now, ids += now, n -= now;
  }
  const et_tensor *out = et_method_output(m->method, 0)->as.tensor;
  const size_t vocabulary = (size_t)out->sizes[out->rank - 1];
  const float *logits = (const float *)out->data + (out->numel - vocabulary);  // of the last token
  *best = 0;
  for (size_t i = 1; i < vocabulary; i++)
    if (logits[i] > logits[*best]) *best = (int64_t)i;
  return ET_OK;
}

static void release(model *m) {
  et_method_close(m->method);
  et_program_close(&m->program);
  et_file_map_close(&m->file);
  for (size_t i = 0; i < m->memory.n_planned; i++) free(m->planned[i].data);
  free(m->memory.method.data);
  free(m->memory.scratch.data);
}

int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: example_generate MODEL.pte N ID...\n"), 2;
  et_error err = {0};
  static model m;
  const et_status loaded = load(&m, argv[1], &err);
  if (loaded != ET_OK) {
    if (err.status == ET_OK) fprintf(stderr, "expected forward(tokens i64 [1, S], input_pos)\n");
    return err.status == ET_OK ? 1 : fail(&err);
  }

  size_t n = (size_t)argc - 3;
  int64_t *ids = malloc(n * sizeof *ids);
  if (ids == NULL) return 1;
  for (size_t i = 0; i < n; i++) ids[i] = strtoll(argv[i + 3], NULL, 10);

  int64_t next;
  et_status status = feed(&m, ids, n, &next, &err);
  for (long left = strtol(argv[2], NULL, 10); status == ET_OK && left > 0; left--) {
    printf("%lld\n", (long long)next);
    int64_t token = next;
    if (left > 1) status = feed(&m, &token, 1, &next, &err);
  }
  release(&m);
  free(ids);
  return status == ET_OK ? 0 : fail(&err);
}
