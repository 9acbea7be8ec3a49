// Tests of the ways to open and run a method beside the plain one: trusted opening, runs with
// events, in steps, stopped, unprepared. All give the numbers of the plain way.
#include "rig.h"

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
  et_method_interrupt(r.method);  // before a run: forgotten when the run begins
  EXPECT(run_once(&r, out));
  rig_end(&r);
}

static const et_test tests[] = {
    ET_CASE(a_trusted_program_runs_like_a_verified_one),
    ET_CASE(trust_does_not_cover_the_root_and_the_identifier),
    ET_CASE(numbers_do_not_depend_on_preparing),
    ET_CASE(events_surround_every_instruction_and_can_stop_the_run),
    ET_CASE(stepping_ends_after_the_last_instruction_and_gives_the_same_numbers),
    ET_CASE(nothing_interrupted_means_nothing_to_resume),
};

ET_TEST_MAIN(tests)
