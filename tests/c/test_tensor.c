// Tests of the runtime's small parts, which need no file: resizing, strides, arenas, operator
// tables, the error formatter.
#include "runtime/arena.h"
#include "runtime/check.h"
#include "runtime/dtype.h"
#include "runtime/op_table.h"
#include "runtime/tensor.h"

#include "et_test.h"

typedef struct shaped {
  int32_t sizes[3];
  ptrdiff_t strides[3];
  uint8_t dim_order[3];
  et_tensor t;
} shaped;

static void fill(shaped *s, unsigned flags) {
  const shaped filled = {.sizes = {2, 3, 4}, .strides = {12, 1, 3}, .dim_order = {0, 2, 1}};
  *s = filled;
  const et_tensor t = {.sizes = s->sizes,
                       .strides = s->strides,
                       .dim_order = s->dim_order,
                       .numel = 24,
                       .capacity = 24,
                       .dtype = ET_F32,
                       .rank = 3,
                       .flags = (uint16_t)flags};
  s->t = t;
}

static void a_dynamic_tensor_takes_any_shape_that_fits(void) {
  shaped s;
  et_error err;
  fill(&s, ET_TENSOR_DYNAMIC);
  const int32_t longer[] = {12, 2, 1};  // one dimension exceeds its bound, the product does not
  EXPECT(et_tensor_resize(&s.t, longer, 3, &err) == ET_OK);
  EXPECT(s.t.numel == 24 && s.strides[0] == 2 && s.strides[2] == 2 && s.strides[1] == 1);
  const int32_t empty[] = {2, 0, 4};
  EXPECT(et_tensor_resize(&s.t, empty, 3, &err) == ET_OK);
  EXPECT(s.t.numel == 0 && s.strides[1] == 1 && s.strides[2] == 1 && s.strides[0] == 4);
  const int32_t full[] = {2, 3, 4};
  EXPECT(et_tensor_resize(&s.t, full, 3, &err) == ET_OK && s.t.numel == 24 &&
         et_tensor_bytes(&s.t) == 96);
}

static void resize_beyond_capacity_is_refused(void) {
  shaped s;
  et_error err;
  fill(&s, ET_TENSOR_DYNAMIC);
  const int32_t large[] = {2, 3, 5}, negative[] = {2, -3, 4},
                huge[] = {0x7fffffff, 0x7fffffff, 0x7fffffff};
  EXPECT(et_tensor_resize(&s.t, large, 3, &err) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "at most the 24 elements planned");
  EXPECT(et_tensor_resize(&s.t, negative, 3, &err) == ET_NOT_SUPPORTED);
  EXPECT(et_tensor_resize(&s.t, huge, 3, &err) == ET_NOT_SUPPORTED);
  EXPECT(s.t.numel == 24 && s.sizes[2] == 4);
}

static void a_rank_and_a_static_shape_never_change(void) {
  shaped s;
  et_error err;
  fill(&s, 0);
  const int32_t other[] = {2, 3, 1}, same[] = {2, 3, 4};
  EXPECT(et_tensor_resize(&s.t, same, 3, &err) == ET_OK);
  EXPECT(et_tensor_resize(&s.t, other, 3, &err) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "static shape, dimension 2: expected 4, got 1");
  EXPECT(et_tensor_resize(&s.t, same, 2, &err) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "expected rank 3, which never changes, got 2");
  EXPECT(et_tensor_resize(&s.t, other, 3, NULL) == ET_NOT_SUPPORTED);
}

static void dim_orders_are_compared_without_dimensions_of_one(void) {
  const int32_t wide[] = {2, 3, 4}, thin[] = {2, 1, 4};
  const uint8_t plain[] = {0, 1, 2}, last[] = {0, 2, 1}, twice[] = {0, 0, 1}, far[] = {0, 1, 9};
  EXPECT(eti_same_order(wide, plain, NULL, 3) && !eti_same_order(wide, plain, last, 3));
  EXPECT(eti_same_order(thin, plain, last, 3));
  EXPECT(eti_is_permutation(last, 3) && !eti_is_permutation(twice, 3) &&
         !eti_is_permutation(far, 3));
  EXPECT(eti_is_permutation(plain, 0));
}

static void an_arena_gives_what_it_counted_and_not_a_byte_more(void) {
  _Alignas(64) uint8_t bytes[256];
  et_arena counting = eti_arena_counting();
  EXPECT(eti_arena_claim(&counting, 3, 5, 1) == NULL &&
         eti_arena_claim(&counting, 2, 8, 8) == NULL);
  EXPECT(counting.used == 32 && eti_arena_status(&counting, NULL) == ET_OK);
  et_arena arena = eti_arena_over((et_span){bytes, 32});
  EXPECT(eti_arena_claim(&arena, 3, 5, 1) == bytes &&
         eti_arena_claim(&arena, 2, 8, 8) == bytes + 16);
  EXPECT(eti_arena_claim(&arena, 1, 1, 1) == NULL);
  et_error err;
  EXPECT(eti_arena_status(&arena, &err) == ET_OUT_OF_MEMORY);
  EXPECT_ERROR(&err, ET_OUT_OF_MEMORY, "expected at least 33 bytes (measure first), got 32");
  eti_arena_end(&arena);
}

#if ETI_POISON
static void unused_bytes_of_an_arena_are_poisoned_until_it_ends(void) {
  _Alignas(64) uint8_t bytes[64];
  memset(bytes, 0, sizeof bytes);
  et_arena arena = eti_arena_over((et_span){bytes, sizeof bytes});
  uint8_t *first = eti_arena_claim(&arena, 24, 1, 8);
  EXPECT(first == bytes);
  memset(first, 1, 24);
#if ETI_POISON == 2
  EXPECT(!__asan_address_is_poisoned(bytes + 23) && __asan_address_is_poisoned(bytes + 24));
  EXPECT(__asan_address_is_poisoned(bytes + 63));
#else
  EXPECT(bytes[23] == 1 && eti_is_poisoned(bytes + 24, 40));
  bytes[24] = 0;
  EXPECT(!eti_is_poisoned(bytes + 24, 40));
  eti_poison(bytes + 24, 1);
#endif
  eti_arena_end(&arena);
  bytes[63] = 1;  // the caller's again
}
#endif

static void sizes_that_overflow_are_refused_even_when_only_counted(void) {
  for (int k = 0; k < 3; k++) {
    et_arena counting = eti_arena_counting();
    EXPECT(eti_arena_claim(&counting, 1, 100, 1) == NULL && !counting.failed);
    EXPECT(eti_arena_claim(&counting, k == 0 ? SIZE_MAX / 2 : 1, k == 1 ? SIZE_MAX - 99 : 3,
                           k == 2 ? (size_t)1 << (8 * sizeof(size_t) - 1) : 1) == NULL);
    EXPECT(counting.failed == (k < 2));
    EXPECT(eti_arena_claim(&counting, 1, SIZE_MAX - 64, 64) == NULL && counting.failed);
    EXPECT(eti_arena_status(&counting, NULL) == ET_OUT_OF_MEMORY);
  }
}

static void a_base_off_the_alignment_loses_its_first_bytes(void) {
  _Alignas(64) uint8_t bytes[256];
  et_arena arena = eti_arena_over((et_span){bytes + 1, 255});
  EXPECT(arena.base == bytes + 64 && arena.size == 192);
  eti_arena_end(&arena);
  arena = eti_arena_over((et_span){bytes + 1, 10});
  EXPECT(arena.size == 0 && eti_arena_claim(&arena, 1, 1, 1) == NULL && arena.failed);
  arena = eti_arena_over((et_span){NULL, 100});
  EXPECT(arena.size == 0);
}

static void claims_that_overflow_fail(void) {
  et_arena counting = eti_arena_counting();
  EXPECT(eti_arena_claim(&counting, SIZE_MAX / 2, 4, 8) == NULL && counting.failed);
  counting = eti_arena_counting();
  counting.used = SIZE_MAX - 3;
  EXPECT(eti_arena_claim(&counting, 1, 8, 8) == NULL && counting.failed);
}

static void operators_are_found_in_the_first_table_that_has_them(void) {
  static const et_op mine[] = {{.name = "aten::add.out"}, {.name = "my::op"}},
                     theirs[] = {{.name = "aten::add"}, {.name = "aten::add.out"}};
  const et_op_table last = {theirs, 2, NULL}, first = {mine, 2, &last};
  EXPECT(eti_op_find(&first, "aten::add", "out") == &mine[0] &&
         et_op_find(&first, "aten::add.out") == &mine[0]);
  EXPECT(eti_op_find(&first, "aten::add", "") == &theirs[0] &&
         eti_op_find(&first, "aten::add", NULL) == &theirs[0]);
  EXPECT(et_op_find(&first, "my::op") == &mine[1] && eti_op_find(&first, "my::op", "out") == NULL);
  EXPECT(et_op_find(&first, "aten::ad") == NULL && et_op_find(&first, "") == NULL &&
         et_op_find(NULL, "my::op") == NULL);
}

static void every_operator_of_the_library_is_found_by_its_name(void) {
  for (size_t i = 0; i < et_ops_portable.n_ops; i++) {
    EXPECT(et_op_find(&et_ops_portable, et_ops_portable.ops[i].name) == &et_ops_portable.ops[i]);
  }
}

static void the_formatter_prints_text_integers_and_plain_doubles_as_printf_does(void) {
  static const double numbers[] = {0, 1, -2.5, 0.1, 123456, 0.00012345, 3.14159265, 1e20, -1e-10};
  char wanted[64];
  et_error err;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    snprintf(wanted, sizeof wanted, "%g", numbers[i]);
    EXPECT(eti_fail(&err, ET_INTERNAL, "%g", numbers[i]) == ET_INTERNAL);
    EXPECT(strcmp(err.message, wanted) == 0);
  }
  (void)eti_fail(&err, ET_INTERNAL, "%d %u %ld %lld %zu %x %c %s %%", -7, 7u, -8L, -9LL, (size_t)10,
                 255, 'c', "text");
  EXPECT(strcmp(err.message, "-7 7 -8 -9 10 ff c text %") == 0);
  (void)eti_fail(&err, ET_INTERNAL, "%lld", (long long)INT64_MIN);
  EXPECT(strcmp(err.message, "-9223372036854775808") == 0);
  const char *volatile nothing = NULL;
  (void)eti_fail(&err, ET_INTERNAL, "%s", nothing);
  EXPECT(strcmp(err.message, "(none)") == 0);
}

static void the_middle_of_a_long_name_is_replaced_by_its_length(void) {
  static char name[1000001];
  et_error err;
  memset(name, 'x', 160);
  (void)eti_fail(&err, ET_NOT_FOUND, "method '%s' is absent", name);
  EXPECT(strlen(err.message) == strlen("method '' is absent") + 160);
  memset(name, 'x', sizeof name - 1);
  (void)eti_fail(&err, ET_NOT_FOUND, "method '%s' is absent", name);
  EXPECT(strstr(err.message, "xx\xe2\x80\xa6 (1000000 bytes) \xe2\x80\xa6xx") != NULL);
  EXPECT(strstr(err.message, "xx' is absent") != NULL);
  // No character is cut: both places are in the middle of one here.
  for (size_t i = 0; i < 1000; i += 2) memcpy(name + 1 + i, "\xc3\xa9", 2);
  name[1001] = '\0';
  (void)eti_fail(&err, ET_NOT_FOUND, "%s", name);
  EXPECT(strstr(err.message, "\xc3\xa9\xe2\x80\xa6 (1001 bytes) \xe2\x80\xa6\xc3\xa9") != NULL);
}

static void long_messages_are_cut_and_context_goes_in_front(void) {
  char text[ET_ERROR_MESSAGE_BYTES / 4];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  et_error err;
  (void)eti_fail(&err, ET_INTERNAL, "%s%s%s%s%s", text, text, text, text, text);
  EXPECT(strlen(err.message) == ET_ERROR_MESSAGE_BYTES - 1);
  eti_context(&err, "%s %d: ", "input", 3);
  EXPECT(strncmp(err.message, "input 3: xxx", 12) == 0 &&
         strlen(err.message) == ET_ERROR_MESSAGE_BYTES - 1);
  eti_append(&err, "end");
  EXPECT(strlen(err.message) == ET_ERROR_MESSAGE_BYTES - 1);
  (void)eti_fail(&err, ET_NOT_FOUND, "a");
  eti_append(&err, " %s", "b");
  EXPECT(err.status == ET_NOT_FOUND && strcmp(err.message, "a b") == 0);
  EXPECT(eti_fail(NULL, ET_NOT_FOUND, "nobody listens") == ET_NOT_FOUND);
}

static void statuses_and_element_types_have_names(void) {
  EXPECT(strcmp(et_status_name(ET_OK), "Ok") == 0 &&
         strcmp(et_status_name(ET_INTERRUPTED), "Interrupted") == 0);
  EXPECT(strcmp(et_status_name((et_status)0x99), "Unknown") == 0);
  EXPECT(strcmp(et_dtype_name(ET_U8), "u8") == 0 && strcmp(et_dtype_name(ET_U64), "u64") == 0);
  EXPECT(strcmp(et_dtype_name((et_dtype)30), "?") == 0 && et_dtype_bytes((et_dtype)30) == 0);
  EXPECT(eti_dtype_align(ET_C128) == 8 && eti_dtype_align(ET_BF16) == 2);
}

static const et_test tests[] = {
    ET_CASE(a_dynamic_tensor_takes_any_shape_that_fits),
    ET_CASE(resize_beyond_capacity_is_refused),
    ET_CASE(a_rank_and_a_static_shape_never_change),
    ET_CASE(dim_orders_are_compared_without_dimensions_of_one),
    ET_CASE(an_arena_gives_what_it_counted_and_not_a_byte_more),
#if ETI_POISON
    ET_CASE(unused_bytes_of_an_arena_are_poisoned_until_it_ends),
#endif
    ET_CASE(sizes_that_overflow_are_refused_even_when_only_counted),
    ET_CASE(a_base_off_the_alignment_loses_its_first_bytes),
    ET_CASE(claims_that_overflow_fail),
    ET_CASE(operators_are_found_in_the_first_table_that_has_them),
    ET_CASE(every_operator_of_the_library_is_found_by_its_name),
    ET_CASE(the_formatter_prints_text_integers_and_plain_doubles_as_printf_does),
    ET_CASE(the_middle_of_a_long_name_is_replaced_by_its_length),
    ET_CASE(long_messages_are_cut_and_context_goes_in_front),
    ET_CASE(statuses_and_element_types_have_names),
};

ET_TEST_MAIN(tests)
