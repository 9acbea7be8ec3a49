// Tests of verification: one field of a golden file is damaged at a time. Every defect is refused
// with its code and message, or harmless.
#include "rig.h"

#define STRUCTURE "structure is damaged"

// One defect: the change of the bytes, and the expected status (ET_OK: loads).
typedef struct defect {
  const char *name;
  const char *file;
  void (*damage)(rig *r);
  et_status status;
  const char *part;
} defect;

static void version_one(rig *r) {  // made of the segments field, as the file has no version field
  const uint8_t *root = rig_root(r), *vtable = root - eti_i32(root);
  const uint16_t field = eti_u16(vtable + 4 + 2 * PTE_PROGRAM_SEGMENTS);
  rig_poke(vtable + 4, &field, 2);
}
static void wrong_identifier(rig *r) {
  r->bytes[7] = '3';
}
static void short_header(rig *r) {
  rig_poke_u32(r->bytes + 12, 20);
}
static void old_header(rig *r) {
  rig_poke_u32(r->bytes + 12, 24);
  rig_poke_u64(r->bytes + 32, 0);
}
static void cut_by_eight(rig *r) {
  r->size -= 8;
}
static void cut_to_63(rig *r) {
  r->size = 63;
}
static void root_past_the_end(rig *r) {
  rig_poke_u32(r->bytes, 0x7fffffff);
}
static void root_in_the_header(rig *r) {
  rig_poke_u32(r->bytes, 4);
}
static void segment_too_long(rig *r) {
  rig_poke_u64(eti_fb_field(rig_member(rig_root(r), PTE_PROGRAM_SEGMENTS, 0), PTE_SEGMENT_SIZE),
               1 << 20);
}
static void no_plans(rig *r) {
  rig_remove(rig_root(r), PTE_PROGRAM_PLANS);
}
static void no_constant_segment(rig *r) {
  rig_remove(rig_root(r), PTE_PROGRAM_CONSTANT_SEGMENT);
}
static void constants_in_segment_nine(rig *r) {
  const uint8_t *constants = eti_fb_table(rig_root(r), PTE_PROGRAM_CONSTANT_SEGMENT);
  const uint8_t *vtable =
      constants - eti_i32(constants);  // the index is 0 and left out: reuse the vector's field
  const uint16_t field = eti_u16(vtable + 4 + 2 * PTE_SUBSEGMENT_OFFSETS);
  rig_poke(vtable + 4, &field, 2);
}
static void remove_plan_slot(rig *r, unsigned slot) {
  rig_remove(rig_plan(r), slot);
}
static void no_values(rig *r) {
  remove_plan_slot(r, PTE_PLAN_VALUES);
}
static void no_inputs(rig *r) {
  remove_plan_slot(r, PTE_PLAN_INPUTS);
}
static void no_outputs(rig *r) {
  remove_plan_slot(r, PTE_PLAN_OUTPUTS);
}
static void no_chains(rig *r) {
  remove_plan_slot(r, PTE_PLAN_CHAINS);
}
static void no_operators(rig *r) {
  remove_plan_slot(r, PTE_PLAN_OPERATORS);
}
static void no_delegates(rig *r) {
  remove_plan_slot(r, PTE_PLAN_DELEGATES);
}
static void no_buffer_sizes(rig *r) {
  remove_plan_slot(r, PTE_PLAN_BUFFER_SIZES);
}
static void no_container(rig *r) {
  remove_plan_slot(r, PTE_PLAN_CONTAINER);
}
static void zero_chains(rig *r) {
  rig_poke_u32(eti_fb_table(rig_plan(r), PTE_PLAN_CHAINS), 0);
}
static void negative_memory(rig *r) {
  rig_poke_u64(eti_fb_vector(rig_plan(r), PTE_PLAN_BUFFER_SIZES).data + 8, UINT64_MAX);
}
static void small_memory(rig *r) {
  rig_poke_u64(eti_fb_vector(rig_plan(r), PTE_PLAN_BUFFER_SIZES).data + 8, 8);
}
static void input_past_the_end(rig *r) {
  rig_poke_u32(eti_fb_vector(rig_plan(r), PTE_PLAN_INPUTS).data, 1000);
}
static void output_past_the_end(rig *r) {
  rig_poke_u32(eti_fb_vector(rig_plan(r), PTE_PLAN_OUTPUTS).data, 1000);
}
static void output_negative(rig *r) {
  rig_poke_u32(eti_fb_vector(rig_plan(r), PTE_PLAN_OUTPUTS).data, UINT32_MAX);
}
static void input_is_the_weight(rig *r) {
  rig_poke_u32(eti_fb_vector(rig_plan(r), PTE_PLAN_INPUTS).data, 0);
}

static void value_of_kind_99(rig *r) {
  rig_poke_u8(eti_fb_field(rig_member(rig_plan(r), PTE_PLAN_VALUES, 0), PTE_UNION_CODE), 99);
}
static void value_of_no_kind(rig *r) {
  rig_poke_u8(eti_fb_field(rig_member(rig_plan(r), PTE_PLAN_VALUES, 0), PTE_UNION_CODE), 0);
}
static void tensor_poke_size(rig *r, uint32_t v) {
  rig_poke_u32(eti_fb_vector(rig_value(r, PTE_TENSOR, 1), PTE_TENSOR_SIZES).data, v);
}
static void negative_size(rig *r) {
  tensor_poke_size(r, (uint32_t)-2);
}
static void huge_size(rig *r) {
  tensor_poke_size(r, 0x7fffffff);
}
static void element_type_40(rig *r) {
  rig_poke_u8(eti_fb_field(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_DTYPE), 40);
}
static void no_sizes(rig *r) {
  rig_remove(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_SIZES);
}
static void no_dim_order(rig *r) {
  rig_remove(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_DIM_ORDER);
}
static void short_dim_order(rig *r) {
  rig_poke_u32(eti_fb_table(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_DIM_ORDER), 1);
}
static void repeated_dim_order(rig *r) {
  rig_poke_u8(eti_fb_vector(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_DIM_ORDER).data, 1);
}
static void dim_order_too_large(rig *r) {
  rig_poke_u8(eti_fb_vector(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_DIM_ORDER).data, 200);
}
static void poke_dynamism(rig *r, uint8_t v) {  // of the first tensor that has the field
  size_t i = 0;
  while (eti_fb_field(rig_value(r, PTE_TENSOR, i), PTE_TENSOR_DYNAMISM) == NULL) i++;
  rig_poke_u8(eti_fb_field(rig_value(r, PTE_TENSOR, i), PTE_TENSOR_DYNAMISM), v);
}
static void unbounded(rig *r) {
  poke_dynamism(r, 2);
}
static void dynamism_seven(rig *r) {
  poke_dynamism(r, 7);
}
static void constant_index_nine(rig *r) {
  rig_poke_u32(eti_fb_field(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_BUFFER), 9);
}
static const uint8_t *constant_offsets(rig *r) {
  return eti_fb_vector(eti_fb_table(rig_root(r), PTE_PROGRAM_CONSTANT_SEGMENT),
                       PTE_SUBSEGMENT_OFFSETS)
      .data;
}
static void constant_past_its_segment(rig *r) {
  rig_poke_u64(constant_offsets(r) + 8, 8);
}
static void constant_far_away(rig *r) {
  rig_poke_u64(constant_offsets(r) + 8, UINT64_MAX - 3);
}
static const uint8_t *allocation(rig *r) {
  return eti_fb_table(rig_value(r, PTE_TENSOR, 1), PTE_TENSOR_ALLOCATION);
}
static void memory_zero(rig *r) {
  rig_poke_u32(eti_fb_field(allocation(r), PTE_ALLOCATION_MEMORY), 0);
}
static void memory_nine(rig *r) {
  rig_poke_u32(eti_fb_field(allocation(r), PTE_ALLOCATION_MEMORY), 9);
}
static const uint8_t *late_allocation(
    rig *r) {  // one whose offset is not 0, so that the field is there
  for (size_t i = 0;; i++) {
    const uint8_t *tensor = rig_value(r, PTE_TENSOR, i);
    if (tensor == NULL) return NULL;
    const uint8_t *found = eti_fb_table(tensor, PTE_TENSOR_ALLOCATION);
    if (eti_fb_u32(found, PTE_ALLOCATION_LOW) != 0) return found;
  }
}
static void offset_past_its_memory(rig *r) {
  rig_poke_u32(eti_fb_field(late_allocation(r), PTE_ALLOCATION_LOW), 1 << 20);
}
static void offset_misaligned(rig *r) {
  rig_poke_u32(eti_fb_field(late_allocation(r), PTE_ALLOCATION_LOW), 2);
}

static void instruction_of_kind_nine(rig *r) {
  rig_poke_u8(eti_fb_field(rig_member(rig_member(rig_plan(r), PTE_PLAN_CHAINS, 0),
                                      PTE_CHAIN_INSTRUCTIONS, 0),
                           PTE_UNION_CODE),
              9);
}
static void operator_nine(rig *r) {
  rig_poke_u32(eti_fb_field(rig_instruction(r, 1), PTE_CALL_INDEX), 9);
}
static void operator_negative(rig *r) {
  rig_poke_u32(eti_fb_field(rig_instruction(r, 1), PTE_CALL_INDEX), UINT32_MAX);
}
static void argument_1000(rig *r) {
  rig_poke_u32(eti_fb_vector(rig_instruction(r, 0), PTE_CALL_ARGS).data, 1000);
}
static void one_argument_less(rig *r) {
  const uint8_t *args = eti_fb_table(rig_instruction(r, 0), PTE_CALL_ARGS);
  rig_poke_u32(args, eti_u32(args) - 1);
}
static void no_arguments(rig *r) {
  rig_poke_u32(eti_fb_table(rig_instruction(r, 0), PTE_CALL_ARGS), 0);
}
static void unknown_operator(rig *r) {
  rig_poke_u8((const uint8_t *)eti_fb_string(rig_member(rig_plan(r), PTE_PLAN_OPERATORS, 0),
                                             PTE_OPERATOR_NAME) +
                  6,
              'x');
}
static void operator_without_overload(rig *r) {
  const uint8_t *overload =
      eti_fb_table(rig_member(rig_plan(r), PTE_PLAN_OPERATORS, 0), PTE_OPERATOR_OVERLOAD);
  rig_poke_u32(overload, 0);
  rig_poke_u8(overload + 4, 0);
}
static void writes_a_constant(rig *r) {  // result := the weight, which is value 0
  const eti_vector args = eti_fb_vector(rig_instruction(r, 0), PTE_CALL_ARGS);
  rig_poke_u32(args.data + 4 * (args.n - 1), 0);
}
static void int_result_type(
    rig *r) {  // the last tensor is the output: an i64 one holds fewer elements in its memory
  rig_poke_u8(eti_fb_field(rig_value(r, PTE_TENSOR, 0), PTE_TENSOR_DTYPE), ET_QI8);
}

static const uint8_t *find_kind(rig *r, unsigned code) {
  for (size_t i = 0;; i++) {
    const uint8_t *entry =
        rig_member(rig_member(rig_plan(r), PTE_PLAN_CHAINS, 0), PTE_CHAIN_INSTRUCTIONS, i);
    if (eti_fb_u8(entry, PTE_UNION_CODE) == code) return eti_fb_table(entry, PTE_UNION_TABLE);
  }
}
static void jump_to(rig *r, uint32_t to) {
  rig_poke_u32(eti_fb_field(find_kind(r, PTE_JUMP_FALSE_CALL), PTE_JUMP_DESTINATION), to);
}
static void jump_past_the_end(rig *r) {
  jump_to(r, 1000);
}
static void jump_negative(rig *r) {
  jump_to(r, UINT32_MAX);
}
static void jump_to_the_end(rig *r) {
  jump_to(r, (uint32_t)eti_fb_vector(rig_member(rig_plan(r), PTE_PLAN_CHAINS, 0),
                                     PTE_CHAIN_INSTRUCTIONS)
                 .n);
}
static void move_to_1000(rig *r) {
  rig_poke_u32(eti_fb_field(find_kind(r, PTE_MOVE_CALL), PTE_MOVE_TO), 1000);
}

static void int_list_item_1000(rig *r) {
  rig_poke_u64(eti_fb_vector(rig_value(r, PTE_INT_LIST, 0), 0).data, 1000);
}
static void int_list_item_negative(rig *r) {
  rig_poke_u64(eti_fb_vector(rig_value(r, PTE_INT_LIST, 0), 0).data, UINT64_MAX);
}
static void tensor_list_of_an_int(rig *r) {
  const eti_vector values = eti_fb_vector(rig_plan(r), PTE_PLAN_VALUES);
  for (uint32_t i = 0; i < values.n; i++) {
    if (eti_fb_u8(eti_fb_at(values, i), PTE_UNION_CODE) != PTE_INT) continue;
    rig_poke_u32(eti_fb_vector(rig_value(r, PTE_TENSOR_LIST, 0), 0).data, i);
  }
}
static void delegate_segment_nine(rig *r) {
  const uint8_t *processed =
      eti_fb_table(rig_member(rig_plan(r), PTE_PLAN_DELEGATES, 0), PTE_DELEGATE_PROCESSED);
  rig_poke_u32(eti_fb_field(processed, PTE_PROCESSED_INDEX), 9);
}
static void delegate_without_id(rig *r) {
  rig_remove(rig_member(rig_plan(r), PTE_PLAN_DELEGATES, 0), PTE_DELEGATE_ID);
}
static void nothing(rig *r) {
  (void)r;
}

#define D(file, damage, status, part) {#damage, file, damage, status, part}
static const defect defects[] = {
    D("add_mul.pte", nothing, ET_OK, ""),
    D("add_mul.pte", version_one, ET_INVALID_PROGRAM, "version"),
    D("add_mul.pte", wrong_identifier, ET_INVALID_PROGRAM, "ET12"),
    D("add_mul.pte", short_header, ET_INVALID_PROGRAM, "got mark 65 68 30 30 and 20 bytes"),
    D("add_mul.pte", old_header, ET_OK, ""),
    D("add_mul.pte", cut_by_eight, ET_INVALID_PROGRAM, "cut short"),
    D("add_mul.pte", cut_to_63, ET_INVALID_ARGUMENT, "expected at least 64 bytes, got 63"),
    D("add_mul.pte", root_past_the_end, ET_INVALID_PROGRAM, "root table"),
    D("add_mul.pte", root_in_the_header, ET_INVALID_PROGRAM, "root table"),
    D("add_mul.pte", segment_too_long, ET_INVALID_PROGRAM, "segment 0"),
    D("add_mul.pte", no_plans, ET_INVALID_PROGRAM, "no methods"),
    D("add_mul.pte", no_constant_segment, ET_INVALID_PROGRAM, "constant segment"),
    D("add_mul.pte", constants_in_segment_nine, ET_INVALID_PROGRAM, "constants in segment"),
    D("add_mul.pte", no_values, ET_INVALID_PROGRAM, "slot 2"),
    D("add_mul.pte", no_inputs, ET_INVALID_PROGRAM, "slot 3"),
    D("add_mul.pte", no_outputs, ET_INVALID_PROGRAM, "slot 4"),
    D("add_mul.pte", no_chains, ET_INVALID_PROGRAM, "slot 5"),
    D("add_mul.pte", no_operators, ET_INVALID_PROGRAM, "slot 6"),
    D("add_mul.pte", no_delegates, ET_INVALID_PROGRAM, "slot 7"),
    D("add_mul.pte", no_buffer_sizes, ET_INVALID_PROGRAM, "slot 8"),
    D("add_mul.pte", no_container, ET_OK, ""),
    D("add_mul.pte", zero_chains, ET_INVALID_PROGRAM, "got 0 and 2"),
    D("add_mul.pte", negative_memory, ET_INVALID_PROGRAM, "memory 1"),
    D("add_mul.pte", small_memory, ET_OUT_OF_MEMORY, "memory 1: expected at most 8 bytes"),
    D("add_mul.pte", input_past_the_end, ET_INVALID_PROGRAM,
      "input 0: expected a value index below 5, got 1000"),
    D("add_mul.pte", output_past_the_end, ET_INVALID_PROGRAM,
      "output 0: expected a value index below 5, got 1000"),
    D("add_mul.pte", output_negative, ET_INVALID_PROGRAM,
      "output 0: expected a value index below 5, got -1"),
    D("add_mul.pte", input_is_the_weight, ET_INVALID_PROGRAM, "is a constant"),
    D("add_mul.pte", value_of_kind_99, ET_INVALID_PROGRAM, STRUCTURE),
    D("add_mul.pte", value_of_no_kind, ET_INVALID_PROGRAM, STRUCTURE),
    D("add_mul.pte", negative_size, ET_INVALID_PROGRAM, "value 1: a size is negative"),
    D("add_mul.pte", huge_size, PTRDIFF_MAX > INT32_MAX ? ET_OUT_OF_MEMORY : ET_INVALID_PROGRAM,
      PTRDIFF_MAX > INT32_MAX ? "planned memory 1" : "too large for this machine"),
    D("add_mul.pte", element_type_40, ET_INVALID_PROGRAM,
      "value 0: element type: expected a number below 30, got 40"),
    D("add_mul.pte", no_sizes, ET_INVALID_PROGRAM, "sizes"),
    D("add_mul.pte", no_dim_order, ET_INVALID_PROGRAM, "dim order"),
    D("add_mul.pte", short_dim_order, ET_INVALID_PROGRAM, "got 2 and 1"),
    D("add_mul.pte", repeated_dim_order, ET_INTERNAL, "permutation of 0..1, got [1, 1]"),
    D("add_mul.pte", dim_order_too_large, ET_INTERNAL, "permutation of 0..1, got [200, 1]"),
    D("dynamic_view.pte", unbounded, ET_NOT_SUPPORTED, "bounded (1), got 2"),
    D("dynamic_view.pte", dynamism_seven, ET_INVALID_PROGRAM, "bounded (1), got 7"),
    D("add_mul.pte", constant_index_nine, ET_INVALID_ARGUMENT,
      "data entry: expected below 2, got 9"),
    D("add_mul.pte", constant_past_its_segment, ET_INVALID_ARGUMENT, "outside its segment"),
    D("add_mul.pte", constant_far_away, ET_INVALID_ARGUMENT, "outside its segment"),
    D("add_mul.pte", memory_zero, ET_INVALID_ARGUMENT, "planned memory: expected 1 to 1, got 0"),
    D("add_mul.pte", memory_nine, ET_INVALID_ARGUMENT, "planned memory: expected 1 to 1, got 9"),
    D("add_mul.pte", offset_past_its_memory, ET_OUT_OF_MEMORY, "at 1048576"),
    D("add_mul.pte", offset_misaligned, ET_INVALID_PROGRAM, "not aligned"),
    D("add_mul.pte", instruction_of_kind_nine, ET_INVALID_PROGRAM, STRUCTURE),
    D("add_mul.pte", operator_nine, ET_INVALID_PROGRAM,
      "instruction 1: expected an operator or delegate below 2, got 9"),
    D("add_mul.pte", operator_negative, ET_INVALID_PROGRAM, "instruction 1"),
    D("add_mul.pte", argument_1000, ET_INVALID_PROGRAM,
      "instruction 0: argument 0: expected a value index below 5, got 1000"),
    D("add_mul.pte", one_argument_less, ET_INVALID_PROGRAM, "expected 5 arguments, got 4"),
    D("add_mul.pte", no_arguments, ET_INVALID_PROGRAM, "arguments, got 0"),
    D("add_mul.pte", unknown_operator, ET_OPERATOR_MISSING, "aten::xdd.out(f32, f32, f32)"),
    D("add_mul.pte", operator_without_overload, ET_OPERATOR_MISSING, " aten::add(f32"),
    D("add_mul.pte", writes_a_constant, ET_INVALID_PROGRAM,
      "is a constant, which the operator would write"),
    D("add_mul.pte", int_result_type, ET_NOT_SUPPORTED, "does not support element type qi8"),
    D("cond.pte", jump_past_the_end, ET_INVALID_PROGRAM,
      "jump: expected a target of at most 6, got 1000"),
    D("cond.pte", jump_negative, ET_INVALID_PROGRAM,
      "jump: expected a target of at most 6, got -1"),
    D("cond.pte", jump_to_the_end, ET_OK, ""),
    D("cond.pte", move_to_1000, ET_INVALID_PROGRAM, "got 1000"),
    D("lists.pte", int_list_item_1000, ET_INVALID_PROGRAM,
      "list entry 0: expected a value that such a list can hold, got 1000"),
    D("lists.pte", int_list_item_negative, ET_INVALID_PROGRAM,
      "list entry 0: expected a value that such a list can hold, got -1"),
    D("lists.pte", tensor_list_of_an_int, ET_INVALID_PROGRAM, "list entry 0"),
    D("xnnpack.pte", delegate_segment_nine, ET_NOT_FOUND, "segment 9"),
    D("xnnpack.pte", delegate_without_id, ET_INVALID_PROGRAM, "has no id"),
};

static void every_defect_has_its_code_and_words(void) {
  for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++) {
    const defect *d = &defects[i];
    rig r = rig_read(d->file);
    d->damage(&r);
    const et_status status = rig_start(&r, "forward") ? ET_OK : r.err.status;
    if (status != d->status || (status != ET_OK && strstr(r.err.message, d->part) == NULL)) {
      printf("  %s: got %s: %s\n", d->name, et_status_name(status),
             status == ET_OK ? "" : r.err.message);
      et_test_fail(__FILE__, __LINE__, d->name);
    }
    rig_end(&r);
  }
}

static void an_infinite_loop_is_stopped(void) {
  rig r = rig_read("cond.pte");
  uint8_t flag = 0;
  float x[6] = {0};
  const int32_t shape[] = {2, 3};
  jump_to(&r, 0);
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, &flag, ET_B8, 0, NULL) == ET_OK);
  EXPECT(rig_set(&r, 1, x, ET_F32, 2, shape) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM, "infinite loop");
  rig_end(&r);
}

static void trailing_bytes_are_allowed(void) {
  rig r = rig_read("add_mul.pte");
  uint8_t *longer = rig_claim(&r, r.size + 100);
  memcpy(longer, r.bytes, r.size);
  r.bytes = longer;
  r.size += 100;
  EXPECT(rig_start(&r, "forward"));
  rig_end(&r);
}

static void the_identifier_is_looked_at_before_anything_else(void) {
  rig r = rig_read("external.ptd");
  EXPECT(rig_open(&r) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM, "expected the identifier 'ET12', got bytes 46 54 30 31");
  rig_end(&r);
}

static const et_test tests[] = {
    ET_CASE(every_defect_has_its_code_and_words),
    ET_CASE(an_infinite_loop_is_stopped),
    ET_CASE(trailing_bytes_are_allowed),
    ET_CASE(the_identifier_is_looked_at_before_anything_else),
};

ET_TEST_MAIN(tests)
