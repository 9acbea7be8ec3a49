// Tests of features of old and rare files: constants and payloads inside the tables, compile specs,
// named data, memory on a device.
#include "rig.h"
#include "runtime/signature/et_named_data.h"

static const int32_t three[] = {3};
#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}
enum { X, C, Y, ONE };

// ---- A delegate that copies its input and checks its payload and compile specs

static et_status look_init(et_delegate_init *init, void **handle) {
  const bool is_right = init->payload_bytes == 5 && memcmp(init->payload, "load", 5) == 0 &&
                        init->n_specs == 2 && strcmp(init->specs[0].key, "first") == 0 &&
                        init->specs[0].value_bytes == 1 && init->specs[0].value[0] == '1' &&
                        strcmp(init->specs[1].key, "second") == 0 &&
                        init->specs[1].value_bytes == 0;
  *handle = NULL;
  return is_right ? ET_OK : ET_DELEGATE_INCOMPATIBLE;
}

static et_status look_execute(void *handle, const et_delegate_call *call) {
  (void)handle;
  memmove(call->args[1]->as.tensor->data, call->args[0]->as.tensor->data, 12);
  return ET_OK;
}

static const et_backend looking = {.id = "Look", .init = look_init, .execute = look_execute};
static const et_backend *const lookings[] = {&looking};
static const et_backend_table backends = {lookings, 1};

typedef struct variant {
  size_t n_buffers, constant_bytes, n_payloads;
  const char *key;  // of the second compile spec
  uint8_t device;
} variant;

// y = x + c, copied onto itself by the delegate.
static rig old_file(const variant *v) {
  static const float c[] = {1, 2, 3};
  static const made_value values[] = {TENSOR(.memory = 1),
                                      TENSOR(.buffer = 1),
                                      TENSOR(.memory = 1, .at = 64),
                                      {.code = PTE_INT, .number = 1}};
  static const made_instruction code[] = {MADE_CALL(0, X, C, ONE, Y, Y),
                                          {.kind = PTE_DELEGATE_CALL, .args = {Y, Y}, .n_args = 2}};
  static const char *const operators[] = {"aten::add", "out"};
  const char *const specs[] = {"first", "1", v->key, ""};
  const made_delegate delegate = {.id = "Look", .is_inline = true, .specs = specs, .n_specs = 2};
  const made_segment buffers[] = {{NULL, 0, NULL, NULL}, {c, v->constant_bytes, NULL, NULL}};
  const made_segment payloads[] = {{"load", 5, NULL, NULL}};
  const made_plan plan =
      MADE_PLAN(values, code, operators, MADE_INPUT(X), MADE_OUTPUT(Y), .delegates = &delegate,
                .n_delegates = 1, MADE_MEMORY(128), .device = v->device);
  const made_program program = {.plans = &plan,
                                .n_plans = 1,
                                .buffers = buffers,
                                .payloads = payloads,
                                .n_buffers = v->n_buffers,
                                .n_payloads = v->n_payloads};
  rig r = rig_make_program(&program);
  r.config.backends = &backends;
  return r;
}

static void constants_and_payloads_may_lie_among_the_tables(void) {
  const variant whole = {2, 12, 1, "second", 0};
  rig r = old_file(&whole);
  float x[] = {10, 20, 30};
  size_t n_delegates = 0;
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 1, three) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  EXPECT(((const float *)et_method_output(r.method, 0)->as.tensor->data)[2] == 33);
  et_method_info info;
  EXPECT(et_program_method_info(&r.program, "forward", &info, &r.err) == ET_OK);
  n_delegates += info.n_delegates;
  EXPECT(n_delegates == 1);
  rig_end(&r);
}

static void what_old_files_lack_is_named(void) {
  const struct {
    variant v;
    et_status status;
    const char *part;
  } cases[] = {
      {{1, 12, 1, "second", 0}, ET_INVALID_ARGUMENT, "constant: expected below 1, got 1"},
      {{2, 11, 1, "second", 0}, ET_INVALID_ARGUMENT, "expected 12 bytes, got 11"},
      {{2, 12, 0, "second", 0}, ET_NOT_FOUND, "inline payload: expected below 0, got 0"},
      {{2, 12, 1, NULL, 0}, ET_INVALID_PROGRAM, "compile spec 1 has no key"},
      {{2, 12, 1, "other", 0}, ET_DELEGATE_INCOMPATIBLE, ""},
      {{2, 12, 1, "second", 3}, ET_NOT_SUPPORTED, "expected device type 0 (CPU), got 3"},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    rig r = old_file(&cases[k].v);
    r.err.message[0] = '\0';
    EXPECT(!rig_start(&r, "forward"));
    EXPECT(cases[k].status == ET_DELEGATE_INCOMPATIBLE || r.err.status == cases[k].status);
    EXPECT(strstr(r.err.message, cases[k].part) != NULL);
    rig_end(&r);
  }
}

static void named_data_are_listed_with_their_sizes(void) {
  static const made_value value = {.code = PTE_NULL};
  static const made_chain chain = {NULL, 0, 0};
  static const made_plan plan = {
      .name = "forward", .values = &value, .n_values = 1, .chains = &chain, .n_chains = 1};
  static const made_segment segments[] = {
      {"12345", 5, "five", NULL}, {"", 0, NULL, NULL}, {"", 0, "none", NULL}};
  const made_program program = {
      .plans = &plan, .n_plans = 1, .segments = segments, .n_segments = 3};
  size_t bytes = 0;
  rig r = rig_make_program(&program);
  EXPECT(rig_open(&r) == ET_OK && et_program_named_data_count(&r.program) == 2);
  EXPECT(strcmp(et_program_named_data_key(&r.program, 0, &bytes), "five") == 0 && bytes == 5);
  EXPECT(strcmp(et_program_named_data_key(&r.program, 1, &bytes), "none") == 0 && bytes == 0);
  EXPECT(strcmp(et_program_named_data_key(&r.program, 1, NULL), "none") == 0);
  bytes = 9;
  EXPECT(et_program_named_data_key(&r.program, 2, &bytes) == NULL && bytes == 9);
  rig_end(&r);
}

static const et_test tests[] = {
    ET_CASE(constants_and_payloads_may_lie_among_the_tables),
    ET_CASE(what_old_files_lack_is_named),
    ET_CASE(named_data_are_listed_with_their_sizes),
};

ET_TEST_MAIN(tests)
