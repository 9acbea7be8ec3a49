// example_embedding.c — a minimal C program that runs a model: load, set inputs, run.
//   example_embedding MODEL.pte
// Feeds ones to a method `forward` whose inputs are f32 tensors and prints the first number of each
// output. All memory is the program's own, here from aligned_alloc; on a device it would be static
// arrays of the sizes that measuring gives.
#include "runtime/et.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_INPUTS = 16 };

static int fail(const et_error *err) {
  fprintf(stderr, "%s: %s\n", et_status_name(err->status), err->message);
  return 1;
}

static et_span allocate(size_t bytes) {
  const size_t rounded = (bytes + ET_MEMORY_ALIGN) / ET_MEMORY_ALIGN * ET_MEMORY_ALIGN;
  const et_span span = {aligned_alloc(ET_MEMORY_ALIGN, rounded), rounded};
  if (span.data == NULL) exit(1);
  for (size_t i = 0; i < rounded; i++) ((unsigned char *)span.data)[i] = 0;
  return span;
}

// Sets every input to ones. A loaded input already has the planned shape; a tensor of the caller's
// has the same fields. Unplanned inputs borrow the memory, which the caller frees.
static int set_inputs(et_method *method, void **inputs, et_error *err) {
  et_value *input;
  for (size_t i = 0; i < MAX_INPUTS && (input = et_method_input(method, i)) != NULL; i++) {
    if (input->tag != ET_TENSOR || input->as.tensor->dtype != ET_F32)
      return fprintf(stderr, "input %zu is not f32\n", i), 1;
    et_tensor tensor = *input->as.tensor;
    float *ones = inputs[i] = allocate(et_tensor_bytes(&tensor)).data;
    for (size_t k = 0; k < tensor.numel; k++) ones[k] = 1.0f;
    tensor.data = ones;
    const et_value value = {.tag = ET_TENSOR, .as.tensor = &tensor};
    if (et_method_set_input(method, i, &value, err) != ET_OK) return fail(err);
  }
  return 0;
}

int main(int argc, char **argv) {
  et_error err = {0};
  et_file_map file;
  if (argc != 2) return fprintf(stderr, "usage: example_embedding MODEL.pte\n"), 2;
  if (et_file_map_open(&file, argv[1], &err) != ET_OK) return fail(&err);

  // 1. Open the program and measure its method.
  et_program program;
  et_method_needs needs;
  const et_source source = et_source_from_memory(file.data, file.size);
  const et_method_config config = {.ops = &et_ops_portable, .backends = &et_backends_builtin};
  if (et_program_open(&program, &source, ET_VERIFY_FULL, &err) != ET_OK) return fail(&err);
  if (et_method_measure(&program, "forward", &config, &needs, &err) != ET_OK) return fail(&err);

  // 2. Give it that much memory and load.
  et_span planned[4] = {{0}};
  if (needs.n_planned > 4)
    return fprintf(stderr, "more planned buffers than this example has\n"), 1;
  for (size_t i = 0; i < needs.n_planned; i++) {
    size_t bytes;
    if (et_program_planned_bytes(&program, "forward", i, &bytes, &err) != ET_OK) return fail(&err);
    planned[i] = allocate(bytes);
  }
  const et_method_memory memory = {
      .method = allocate(needs.method_bytes),
      .scratch = allocate(needs.scratch_bytes),
      .planned = planned,
      .n_planned = needs.n_planned,
  };
  et_method *method;
  if (et_method_load(&program, "forward", &config, &memory, &method, &err) != ET_OK)
    return fail(&err);

  // 3. Set the inputs.
  void *inputs[MAX_INPUTS] = {0};
  const int failed = set_inputs(method, inputs, &err);
  if (failed != 0) return failed;

  // 4. Run and read the outputs. Before another run the inputs are set again.
  if (et_method_execute(method, &err) != ET_OK) return fail(&err);
  const et_value *output;
  for (size_t i = 0; (output = et_method_output(method, i)) != NULL; i++) {
    if (output->tag != ET_TENSOR || output->as.tensor->dtype != ET_F32 ||
        output->as.tensor->numel == 0)
      continue;
    printf("output %zu: %zu elements, the first is %g\n", i, output->as.tensor->numel,
           (double)*(const float *)output->as.tensor->data);
  }

  et_method_close(method);
  et_program_close(&program);
  et_file_map_close(&file);
  for (size_t i = 0; i < MAX_INPUTS; i++) free(inputs[i]);
  for (size_t i = 0; i < needs.n_planned; i++) free(planned[i].data);
  free(memory.method.data);
  free(memory.scratch.data);
  return 0;
}
