// Tests of other ways to open and run a method: trusted opening, runs with events, in steps,
// stopped, unprepared. All give the results of a plain run.
#include "rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static const int32_t shape[] = {2, 3};

static bool run_once(rig *r, float *out) {
  float x[6] = {1, -2, 3, -4, 5, -6};
  if (rig_set(r, 0, x, ET_F32, 2, shape) != ET_OK || et_method_execute(r->method, &r->err) != ET_OK)
    return false;
  memcpy(out, et_method_output(r->method, 0)->as.tensor->data, 6 * sizeof *out);
  return true;
}

static void a_trusted_program_runs_like_a_verified_one(void) {
  rig r = rig_read("add_mul.pte"), v = rig_read("add_mul.pte");
  const et_source source = et_source_from_memory(r.bytes, r.size);
  float trusted[6], verified[6];
  EXPECT(et_program_open(&r.program, &source, ET_VERIFY_MINIMAL, &r.err) == ET_OK);
  EXPECT(rig_load(&r, "forward") == ET_OK && run_once(&r, trusted));
  EXPECT(rig_start(&v, "forward") && run_once(&v, verified));
  EXPECT(memcmp(trusted, verified, sizeof trusted) == 0);
  rig_end(&r);
  rig_end(&v);
}

static void trust_does_not_cover_the_root_and_the_identifier(void) {
  rig r = rig_read("add_mul.pte");
  const et_source source = et_source_from_memory(r.bytes, r.size);
  const uint32_t root = eti_u32(r.bytes);
  rig_poke_u32(r.bytes, 0x7fffffff);
  EXPECT(et_program_open(&r.program, &source, ET_VERIFY_MINIMAL, &r.err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM, "root table's offset");
  rig_poke_u32(r.bytes, root);
  r.bytes[4] = 'X';
  EXPECT(et_program_open(&r.program, &source, ET_VERIFY_MINIMAL, &r.err) == ET_INVALID_PROGRAM);
  rig_end(&r);
}

static void numbers_do_not_depend_on_preparing(void) {
  rig a = rig_read("add_mul.pte"), b = rig_read("add_mul.pte");
  float prepared[6], plain[6];
  b.config.no_prepare = true;
  EXPECT(rig_start(&a, "forward") && run_once(&a, prepared));
  EXPECT(rig_start(&b, "forward") && run_once(&b, plain));
  EXPECT(memcmp(prepared, plain, sizeof plain) == 0 &&
         b.needs.method_bytes <= a.needs.method_bytes);
  rig_end(&a);
  rig_end(&b);
}

typedef struct listener {
  size_t n_begin, n_end, stop_at;
  bool in_order;
} listener;

static et_status listen(void *ctx, const et_event *event) {
  listener *l = ctx;
  if (event->kind == ET_EVENT_BEGIN) {
    l->in_order = l->in_order && event->instruction == l->n_begin && event->operator_name != NULL;
    return ++l->n_begin == l->stop_at ? ET_INTERRUPTED : ET_OK;
  }
  const et_value *result = event->args[event->n_args - 1];
  l->in_order = l->in_order && event->status == ET_OK && result->tag == ET_TENSOR &&
                result->as.tensor->data != NULL;
  l->n_end++;
  return ET_OK;
}

static void events_surround_every_instruction_and_can_stop_the_run(void) {
  rig r = rig_read("add_mul.pte");
  float x[6] = {0};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
  listener l = {.in_order = true};
  const et_hooks hooks = {&l, listen};
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_OK);
  EXPECT(l.in_order && l.n_begin == 2 && l.n_end == 2);
  const listener stopping = {.in_order = true, .stop_at = 2};
  l = stopping;
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_INTERRUPTED);
  EXPECT_ERROR(&r.err, ET_INTERRUPTED, "stopped by an event hook");
  EXPECT(l.n_begin == 2 && l.n_end == 1);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  rig_end(&r);
}

static void stepping_ends_after_the_last_instruction_and_gives_the_same_numbers(void) {
  rig r = rig_read("add_mul.pte");
  float whole[6];
  EXPECT(rig_start(&r, "forward") && run_once(&r, whole));
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_INVALID_STATE);
  EXPECT_ERROR(&r.err, ET_INVALID_STATE, "reset it first");
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(et_method_step(r.method, &r.err) == ET_END_OF_METHOD);
  EXPECT(memcmp(whole, et_method_output(r.method, 0)->as.tensor->data, sizeof whole) == 0);
  et_method_reset(r.method);
  float again[6];
  EXPECT(run_once(&r, again) && memcmp(whole, again, sizeof whole) == 0);
  rig_end(&r);
}

static void nothing_interrupted_means_nothing_to_resume(void) {
  rig r = rig_read("add_mul.pte");
  float out[6];
  EXPECT(rig_start(&r, "forward") && run_once(&r, out));
  EXPECT(et_method_resume(r.method, &r.err) == ET_INVALID_STATE);
  et_method_interrupt(r.method);  // before a run: cleared when the run begins
  EXPECT(run_once(&r, out));
  rig_end(&r);
}

// ---- A second thread. The program counts to N in three instructions a round.

enum { I, STEP, N, IS_DONE, N_VALUES };
#define ROUNDS 200000

static rig counter(void) {
  static const made_value values[] = {{.code = PTE_INT},
                                      {.code = PTE_INT, .number = 1},
                                      {.code = PTE_INT, .number = ROUNDS},
                                      {.code = PTE_BOOL}};
  static const made_instruction code[] = {MADE_CALL(2, I, N, I),
                                          MADE_CALL(0, I, STEP, I),
                                          MADE_CALL(1, I, N, IS_DONE),
                                          {.kind = PTE_JUMP_FALSE_CALL, .a = IS_DONE, .b = 1}};
  static const char *const operators[] = {"executorch_prim::add", "Scalar",
                                          "executorch_prim::eq",  "Scalar",
                                          "executorch_prim::mod", "Scalar"};
  static const made_plan plan = MADE_PLAN(values, code, operators, MADE_OUTPUT(I));
  return rig_make(&plan);
}

typedef struct pest {
  et_method *method;
  atomic_bool must_stop;
} pest;

static void *interrupt_often(void *arg) {
  pest *p = arg;
  while (!atomic_load(&p->must_stop)) et_method_interrupt(p->method);
  return NULL;
}

static void a_run_interrupted_again_and_again_ends_with_the_right_numbers(void) {
  rig r = counter();
  EXPECT(rig_start(&r, "forward"));
  pest p = {.method = r.method};
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, interrupt_often, &p) == 0);
  size_t n_stops = 0;
  // On a busy machine a run may end before the other thread starts: then it runs again.
  et_status status = ET_OK;
  for (size_t n_runs = 0; status == ET_OK && n_stops == 0 && n_runs < 10000; n_runs++) {
    status = et_method_execute(r.method, &r.err);
    while (status == ET_INTERRUPTED) {
      if (++n_stops == 20) atomic_store(&p.must_stop, true);
      status = et_method_resume(r.method, &r.err);
    }
  }
  atomic_store(&p.must_stop, true);
  pthread_join(thread, NULL);
  EXPECT(status == ET_OK && n_stops > 0);
  EXPECT(et_method_output(r.method, 0)->as.i == ROUNDS);
  EXPECT(et_method_resume(r.method, &r.err) == ET_INVALID_STATE);  // it has ended
  EXPECT_ERROR(&r.err, ET_INVALID_STATE, "no interrupted run to resume");
  rig_end(&r);
}

// A kernel that does not return before another thread has tried to run the method.
static atomic_bool is_inside, was_refused;
static et_status op_wait(et_kernel_ctx *ctx, et_value *const *args) {
  (void)ctx, (void)args;
  atomic_store(&is_inside, true);
  while (!atomic_load(&was_refused)) sched_yield();
  return ET_OK;
}

typedef struct intruder {
  et_method *method;
  const et_value *input;
  et_status found[5];
  bool is_told;
} intruder;

static void *intrude(void *arg) {
  intruder *in = arg;
  et_error err = {0};
  while (!atomic_load(&is_inside)) sched_yield();
  in->found[0] = et_method_execute(in->method, &err);
  in->is_told = strstr(err.message, "is running in another thread") != NULL;
  in->found[1] = et_method_resume(in->method, &err);
  in->found[2] = et_method_step(in->method, &err);
  in->found[3] = et_method_execute_traced(in->method, &(const et_hooks){0}, &err);
  in->found[4] = et_method_set_input(in->method, 0, in->input, &err);
  atomic_store(&was_refused, true);
  return NULL;
}

static void a_second_thread_is_refused_while_the_first_one_runs(void) {
  rig r = rig_read("add_mul.pte");
  float x[6] = {1, 2, 3, 4, 5, 6};
  static const et_op waiting = {.name = "aten::add.out", .run = op_wait, .n_args = 5};
  const et_op_table ops = {&waiting, 1, &et_ops_portable};
  r.config.ops = &ops;
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
  intruder in = {.method = r.method, .input = et_method_input(r.method, 0)};
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, intrude, &in) == 0);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  pthread_join(thread, NULL);
  for (int i = 0; i < 5; i++) EXPECT(in.found[i] == ET_INVALID_STATE);
  EXPECT(in.is_told);
  rig_end(&r);
}

static et_status interrupt_once(void *ctx, const et_event *event) {
  (void)event;
  et_method_interrupt(ctx);
  return ET_OK;
}

static void only_plain_runs_resume_and_anything_else_gives_them_up(void) {
  rig r = counter();
  EXPECT(rig_start(&r, "forward"));
  const et_hooks hooks = {r.method, interrupt_once};
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_INTERRUPTED);
  EXPECT_ERROR(&r.err, ET_INTERRUPTED, "instruction 1 (executorch_prim::add.Scalar): interrupted");
  EXPECT(et_method_resume(r.method, &r.err) == ET_INVALID_STATE);
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  et_method_interrupt(r.method);  // stops a stepped run too, which then begins again
  EXPECT(et_method_step(r.method, &r.err) == ET_INTERRUPTED);
  EXPECT(et_method_resume(r.method, &r.err) == ET_INVALID_STATE);
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(et_method_resume(r.method, &r.err) == ET_INVALID_STATE);
  EXPECT_ERROR(&r.err, ET_INVALID_STATE, "reset it first");
  et_method_reset(r.method);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  rig_end(&r);
}

// A kernel that stops its own run.
static et_method *to_stop;
static et_status op_stop(et_kernel_ctx *ctx, et_value *const *args) {
  (void)ctx, (void)args;
  et_method_interrupt(to_stop);
  return ET_OK;
}

static void new_inputs_give_an_interrupted_run_up(void) {
  rig r = rig_read("unplanned.pte");
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
  static const et_op stopping = {.name = "aten::add.out", .run = op_stop, .n_args = 5};
  const et_op_table ops = {&stopping, 1, &et_ops_portable};
  r.config.ops = &ops;
  EXPECT(rig_start(&r, "forward"));
  to_stop = r.method;
  const et_span memory = {y, sizeof y};
  for (int way = 0; way < 4; way++) {
    EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
    EXPECT(et_method_set_output_data(r.method, 0, memory, &r.err) == ET_OK);
    EXPECT(et_method_execute(r.method, &r.err) == ET_INTERRUPTED);
    EXPECT_ERROR(&r.err, ET_INTERRUPTED, "instruction 1");
    if (way == 1) EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
    if (way == 2) EXPECT(et_method_set_output_data(r.method, 0, memory, &r.err) == ET_OK);
    if (way == 3) et_method_reset(r.method);
    EXPECT(et_method_resume(r.method, &r.err) == (way == 0 ? ET_OK : ET_INVALID_STATE));
  }
  rig_end(&r);
}

// ---- The exact sequence of events

typedef struct tape {
  char text[256];
  int fail_at;  // number of the event whose hook fails
} tape;

static et_status write_down(void *ctx, const et_event *event) {
  tape *t = ctx;
  const size_t n = strlen(t->text);
  snprintf(t->text + n, sizeof t->text - n, "%c%zu%s/%zu ",
           event->kind == ET_EVENT_BEGIN ? '+' : '-', event->instruction,
           event->status == ET_OK ? "" : "!", event->n_args);
  return --t->fail_at == 0 ? ET_ACCESS_FAILED : ET_OK;
}

static void events_come_in_pairs_and_a_failure_has_its_end(void) {
  rig r = rig_read("cond.pte");
  uint8_t flag = 0;
  float x[6] = {1, 2, 3, 4, 5, 6};
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, &flag, ET_B8, 0, NULL) == ET_OK);
  EXPECT(rig_set(&r, 1, x, ET_F32, 2, shape) == ET_OK);
  tape t = {.text = ""};
  const et_hooks hooks = {&t, write_down};
  EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_OK);
  EXPECT(strcmp(t.text, "+0/1 -0/1 +4/4 -4/4 +5/2 -5/2 ") == 0);
  for (int fail_at = 1; fail_at <= 6; fail_at++) {
    const tape failing = {.text = "", .fail_at = fail_at};
    t = failing;
    EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_ACCESS_FAILED);
    EXPECT_ERROR(&r.err, ET_ACCESS_FAILED, "stopped by an event hook");
    EXPECT(strlen(t.text) == 5 * (size_t)fail_at);
  }
  rig_end(&r);
  rig u = rig_read("unplanned.pte");  // the output has no memory: the second instruction fails
  EXPECT(rig_start(&u, "forward"));
  EXPECT(rig_set(&u, 0, x, ET_F32, 2, shape) == ET_OK);
  const tape empty = {.text = ""};
  t = empty;
  EXPECT(et_method_execute_traced(u.method, &hooks, &u.err) == ET_INVALID_STATE);
  EXPECT(strcmp(t.text, "+0/5 -0/5 +1/4 -1!/4 ") == 0);
  rig_end(&u);
}

static void a_step_that_fails_ends_the_stepped_run(void) {
  rig r = rig_read("unplanned.pte");
  float x[6] = {0}, y[6];
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(et_method_set_output_data(r.method, 0, (et_span){y, sizeof y}, &r.err) ==
         ET_INVALID_STATE);
  EXPECT(et_method_step(r.method, &r.err) == ET_INVALID_STATE);
  EXPECT_ERROR(&r.err, ET_INVALID_STATE, "method 'forward', instruction 1");
  EXPECT(et_method_set_output_data(r.method, 0, (et_span){y, sizeof y}, &r.err) == ET_OK);
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(et_method_step(r.method, &r.err) == ET_OK);
  EXPECT(et_method_step(r.method, &r.err) == ET_END_OF_METHOD);
  rig_end(&r);
}

static const et_test tests[] = {
    ET_CASE(a_trusted_program_runs_like_a_verified_one),
    ET_CASE(trust_does_not_cover_the_root_and_the_identifier),
    ET_CASE(numbers_do_not_depend_on_preparing),
    ET_CASE(events_surround_every_instruction_and_can_stop_the_run),
    ET_CASE(stepping_ends_after_the_last_instruction_and_gives_the_same_numbers),
    ET_CASE(nothing_interrupted_means_nothing_to_resume),
    ET_CASE(a_run_interrupted_again_and_again_ends_with_the_right_numbers),
    ET_CASE(a_second_thread_is_refused_while_the_first_one_runs),
    ET_CASE(only_plain_runs_resume_and_anything_else_gives_them_up),
    ET_CASE(new_inputs_give_an_interrupted_run_up),
    ET_CASE(events_come_in_pairs_and_a_failure_has_its_end),
    ET_CASE(a_step_that_fails_ends_the_stepped_run),
};

ET_TEST_MAIN(tests)
