// Tests of loading and running methods: numbers, control flow, dynamic shapes, state, memory,
// threads of control.
#include "rig.h"

static const int32_t shape23[] = {2, 3};

static void runs_a_program_with_constants(void) {
  rig r = rig_read("add_mul.pte");
  float x[6] = {1, 2, 3, 4, 5, 6};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape23) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  const et_tensor *y = et_method_output(r.method, 0)->as.tensor;
  EXPECT(y->numel == 6);
  for (int i = 0; i < 6; i++) EXPECT(((const float *)y->data)[i] == (x[i] + (float)i) * x[i]);
  EXPECT(et_method_output(r.method, 1) == NULL);
  EXPECT(et_method_input(r.method, 1) == NULL);
  rig_end(&r);
}

static void both_branches_of_a_condition_run(void) {
  rig r = rig_read("cond.pte");
  float x[6] = {1, 2, 3, 4, 5, 6};
  EXPECT(rig_start(&r, "forward"));
  for (int round = 0; round < 4; round++) {
    uint8_t flag = (uint8_t)(round % 2);
    EXPECT(rig_set(&r, 0, &flag, ET_B8, 0, NULL) == ET_OK);
    EXPECT(rig_set(&r, 1, x, ET_F32, 2, shape23) == ET_OK);
    EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
    const float *y = et_method_output(r.method, 0)->as.tensor->data;
    for (int i = 0; i < 6; i++) EXPECT(y[i] == (flag ? x[i] + x[i] : x[i] * x[i]));
  }
  rig_end(&r);
}

static void loops_run_and_can_be_run_again(void) {
  rig r = rig_read("map.pte");
  const int32_t shape32[] = {3, 2}, shape2[] = {2};
  float xs[6] = {1, 2, 3, 4, 5, 6}, y[2] = {10, 20};
  EXPECT(rig_start(&r, "forward"));
  for (int round = 0; round < 2; round++) {
    EXPECT(rig_set(&r, 0, xs, ET_F32, 2, shape32) == ET_OK);
    EXPECT(rig_set(&r, 1, y, ET_F32, 1, shape2) == ET_OK);
    EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
    const float *out = et_method_output(r.method, 0)->as.tensor->data;
    for (int i = 0; i < 6; i++) EXPECT(out[i] == xs[i] + y[i % 2]);
  }
  rig_end(&r);
}

static void dynamic_shapes_grow_and_shrink_within_their_bound(void) {
  rig r = rig_read("dynamic_view.pte");
  float x[27] = {0};
  for (int i = 0; i < 27; i++) x[i] = (float)i;
  EXPECT(rig_start(&r, "forward"));
  for (int32_t n = 1; n <= 8; n += 3) {
    const int32_t shape[] = {n, 3};
    EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
    EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
    const et_tensor *y = et_method_output(r.method, 0)->as.tensor;
    EXPECT(y->rank == 1 && y->sizes[0] == 3 * n);
    for (int i = 0; i < 3 * n; i++) EXPECT(((const float *)y->data)[i] == 4 * x[i]);
  }
  const int32_t too_large[] = {9, 3};
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, too_large) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&r.err, ET_NOT_SUPPORTED, "input 0");
  rig_end(&r);
}

static void saved_state_is_there_at_load_and_persists(void) {
  rig r = rig_read("mutable.pte");
  const int32_t shape[] = {2};
  float x[2] = {1, 2};
  EXPECT(rig_start(&r, "forward"));
  for (int round = 1; round <= 3; round++) {
    EXPECT(rig_set(&r, 0, x, ET_F32, 1, shape) == ET_OK);
    EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
    const float *y = et_method_output(r.method, 0)->as.tensor->data;
    EXPECT(y[0] == 5 + (float)round && y[1] == 5 + 2 * (float)round);
  }
  const et_tensor *count = et_method_attribute(r.method, "count");
  EXPECT(count != NULL && ((const float *)count->data)[0] == 8);
  EXPECT(et_method_attribute(r.method, "nothing") == NULL);
  rig_end(&r);
}

static void every_method_of_a_program_loads(void) {
  rig r = rig_read("methods.pte");
  EXPECT(rig_open(&r) == ET_OK);
  EXPECT(et_program_method_count(&r.program) == 4);
  EXPECT(rig_load(&r, "answer") == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  EXPECT(et_method_output(r.method, 0)->tag == ET_INT && et_method_output(r.method, 0)->as.i == 42);
  et_method_close(r.method);
  EXPECT(rig_load(&r, "name") == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  EXPECT(strcmp(et_method_output(r.method, 0)->as.string, "golden") == 0);
  et_method_close(r.method);
  r.method = NULL;
  EXPECT(rig_load(&r, "one") == ET_OK);
  et_method_close(r.method);
  r.method = NULL;
  EXPECT(rig_load(&r, "forward") == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "no method 'forward'");
  rig_end(&r);
}

static void a_missing_input_is_named(void) {
  rig r = rig_read("cond.pte");
  float x[6] = {0};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 1, x, ET_F32, 2, shape23) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "input 0 of 2 was never set");
  rig_end(&r);
}

static void borrowed_memory_is_used_and_never_seen_again(void) {
  rig r = rig_read("unplanned.pte");
  float *x = malloc(6 * sizeof *x), y[6] = {0};
  for (int i = 0; i < 6; i++) x[i] = 1;
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape23) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_INVALID_STATE);  // the output has no memory yet
  EXPECT_ERROR(&r.err, ET_INVALID_STATE, "has no memory");
  EXPECT(et_method_set_output_data(r.method, 0, (et_span){y, 20}, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT(et_method_set_output_data(r.method, 0, (et_span){y, sizeof y}, &r.err) == ET_OK);
  EXPECT(et_method_set_output_data(r.method, 1, (et_span){y, sizeof y}, &r.err) ==
         ET_INVALID_ARGUMENT);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  for (int i = 0; i < 6; i++) EXPECT(y[i] == 1 + (float)i);
  EXPECT(et_method_input(r.method, 0)->as.tensor->data == x);
  free(x);
  rig_end(&r);
}

static void a_planned_output_keeps_its_memory(void) {
  rig r = rig_read("add_mul.pte");
  float y[6];
  EXPECT(rig_start(&r, "forward"));
  EXPECT(et_method_set_output_data(r.method, 0, (et_span){y, sizeof y}, &r.err) ==
         ET_INVALID_STATE);
  rig_end(&r);
}

static void a_stepped_run_gives_the_same_result(void) {
  rig r = rig_read("add_mul.pte");
  float x[6] = {1, 1, 1, 1, 1, 1};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(et_method_step(r.method, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape23) == ET_OK);
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape23) == ET_INVALID_STATE);
  EXPECT(et_method_execute(r.method, &r.err) == ET_INVALID_STATE);
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(et_method_step(r.method, &r.err) == ET_END_OF_METHOD);
  EXPECT(et_method_step(r.method, &r.err) == ET_END_OF_METHOD);
  EXPECT(((const float *)et_method_output(r.method, 0)->as.tensor->data)[5] == 6);
  et_method_reset(r.method);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  rig_end(&r);
}

typedef struct trace {
  et_method *method;
  char names[256];
  size_t n_begin, n_end, stop_at;
  bool interrupt;
} trace;

static et_status record(void *ctx, const et_event *event) {
  trace *t = ctx;
  if (event->kind == ET_EVENT_END) {
    t->n_end++;
    if (t->interrupt) et_method_interrupt(t->method);
    return event->status;
  }
  strncat(t->names, event->operator_name, sizeof t->names - strlen(t->names) - 1);
  strncat(t->names, " ", sizeof t->names - strlen(t->names) - 1);
  return ++t->n_begin == t->stop_at ? ET_INTERRUPTED : ET_OK;
}

static void hooks_see_every_instruction_and_can_stop(void) {
  rig r = rig_read("add_mul.pte");
  float x[6] = {0};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape23) == ET_OK);
  trace t = {.method = r.method};
  const et_hooks hooks = {&t, record};
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_OK);
  EXPECT(strcmp(t.names, "aten::add.out aten::mul.out ") == 0);
  EXPECT(t.n_begin == 2 && t.n_end == 2);
  t.stop_at = 4;
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_INTERRUPTED);
  EXPECT_ERROR(&r.err, ET_INTERRUPTED, "instruction 1 (aten::mul.out)");
  t.interrupt = true;
  t.stop_at = 0;
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_INTERRUPTED);
  EXPECT_ERROR(&r.err, ET_INTERRUPTED, "on request");
  EXPECT(et_method_execute(r.method, &r.err) ==
         ET_OK);  // a stale request does not stop the next run
  rig_end(&r);
}

static et_status run_inside(void *ctx, const et_event *event) {
  (void)event;
  trace *t = ctx;
  et_error err;
  if (et_method_execute(t->method, &err) == ET_INVALID_STATE) t->n_begin++;
  return ET_OK;
}

static void a_method_serves_one_run_at_a_time(void) {
  rig r = rig_read("add_mul.pte");
  float x[6] = {0};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape23) == ET_OK);
  trace t = {.method = r.method};
  const et_hooks hooks = {&t, run_inside};
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_OK);
  EXPECT(t.n_begin == 4);
  rig_end(&r);
}

static void scalar_inputs_must_be_what_was_traced(void) {
  rig r = rig_read("scalars.pte");
  float x[6] = {1, 1, 1, 1, 1, 1};
  et_value n = {.tag = ET_INT, .as.i = 3}, none = {.tag = ET_NONE};
  const et_value s = {.tag = ET_STRING, .n = 4, .as.string = "text"};
  et_value f = {.tag = ET_DOUBLE, .as.d = 0.50005};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape23) == ET_OK);
  EXPECT(et_method_set_input(r.method, 1, &n, &r.err) == ET_OK);
  EXPECT(et_method_set_input(r.method, 2, &none, &r.err) ==
         ET_OK);  // texts that nothing uses are exported as None
  EXPECT(et_method_set_input(r.method, 3, &f, &r.err) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  EXPECT(((const float *)et_method_output(r.method, 0)->as.tensor->data)[0] == 3.5f);
  n.as.i = 4;
  EXPECT(et_method_set_input(r.method, 1, &n, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "the Int 3");
  EXPECT(et_method_set_input(r.method, 2, &s, &r.err) == ET_INVALID_ARGUMENT);
  f.as.d = 0.6;
  EXPECT(et_method_set_input(r.method, 3, &f, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "the Double 0.5 ");
  EXPECT(et_method_set_input(r.method, 0, &n, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT(et_method_set_input(r.method, 9, &n, &r.err) == ET_INVALID_ARGUMENT);
  rig_end(&r);
}

static void unfit_tensors_are_refused_by_name(void) {
  rig r = rig_read("add_mul.pte");
  double wide[6] = {0};
  float x[8] = {0};
  const int32_t shape32[] = {3, 2}, shape6[] = {6}, negative[] = {-2, -3};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, wide, ET_F64, 2, shape23) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "input 0: expected element type f32, got f64");
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape32) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&r.err, ET_NOT_SUPPORTED, "static shape");
  EXPECT(rig_set(&r, 0, x, ET_F32, 1, shape6) == ET_NOT_SUPPORTED);
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, negative) == ET_INVALID_ARGUMENT);
  EXPECT(rig_set(&r, 0, NULL, ET_F32, 2, shape23) == ET_INVALID_ARGUMENT);
  rig_tensor t;
  rig_fill_tensor(&t, x, ET_F32, 2, shape23);
  t.dim_order[0] = 1;
  t.dim_order[1] = 0;
  EXPECT(et_method_set_input(r.method, 0, &t.value, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "the planned dim order, [0, 1], got [1, 0]: layouts");
  rig_end(&r);
}

static const et_test tests[] = {
    ET_CASE(runs_a_program_with_constants),
    ET_CASE(both_branches_of_a_condition_run),
    ET_CASE(loops_run_and_can_be_run_again),
    ET_CASE(dynamic_shapes_grow_and_shrink_within_their_bound),
    ET_CASE(saved_state_is_there_at_load_and_persists),
    ET_CASE(every_method_of_a_program_loads),
    ET_CASE(a_missing_input_is_named),
    ET_CASE(borrowed_memory_is_used_and_never_seen_again),
    ET_CASE(a_planned_output_keeps_its_memory),
    ET_CASE(a_stepped_run_gives_the_same_result),
    ET_CASE(hooks_see_every_instruction_and_can_stop),
    ET_CASE(a_method_serves_one_run_at_a_time),
    ET_CASE(scalar_inputs_must_be_what_was_traced),
    ET_CASE(unfit_tensors_are_refused_by_name),
};

ET_TEST_MAIN(tests)
