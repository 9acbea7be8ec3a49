// Tests of the names of inputs and outputs: those that the exporter writes, files without names,
// rooms of every size, and text that is damaged in every byte.
#include "runtime/signature/et_names.h"

#include "et_test.h"

#include <stdlib.h>

static const char structure[] =
    "[1, {\"type\": \"builtins.tuple\", \"context\": \"[\\\"signature\\\"]\", \"children_spec\": "
    "[{\"type\": null, \"children_spec\": []}, {}], \"signature\": {\"inputs\": [{\"name\": "
    "\"tokens\", \"dtype\": \"i64\", \"shape\": [[0, 8, \"s0\"], 3]}, {\"type\": \"float\", "
    "\"value\": "
    "-1.5e3, \"name\": \"t\\u00e9 \\ud83d\\ude00 \\\"x\\\"\"}], \"outputs\": [{\"name\": "
    "\"logits\"}]}}]";

static et_method_info info_of(const char *text) {
  return (et_method_info){
      .name = "forward", .n_inputs = 2, .n_outputs = 1, .input_structure = text};
}

static bool has_name(const char *text, et_slot_kind kind, size_t i, const char *expected) {
  const et_method_info info = info_of(text);
  char name[64] = "?";
  return et_method_slot_name(&info, kind, i, name, sizeof name, NULL) == ET_OK &&
         strcmp(name, expected) == 0;
}

static void names_are_those_of_the_model(void) {
  EXPECT(has_name(structure, ET_SLOT_INPUT, 0, "tokens"));
  EXPECT(has_name(structure, ET_SLOT_INPUT, 1, "t\xc3\xa9 \xf0\x9f\x98\x80 \"x\""));
  EXPECT(has_name(structure, ET_SLOT_OUTPUT, 0, "logits"));
  EXPECT(has_name(" [ 1 ,{ \"signature\":{\"inputs\":[{\"name\":\"a\\/b\\n\"}]}}]", ET_SLOT_INPUT,
                  0, "a/b\n"));
}

static void a_file_without_names_says_so(void) {
  static const char *const texts[] = {"",
                                      "T1#1#1($,*)",
                                      "[1, {\"type\": null}]",
                                      "[1, {}]",
                                      "[1, {\"signature\": {\"outputs\": []}}]",
                                      "[1, {\"signature\": {\"inputs\": [{\"type\": \"int\"}]}}]"};
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
    const et_method_info info = info_of(texts[k]);
    et_error err = {.status = ET_OK};
    char name[8] = "?";
    EXPECT(et_method_slot_name(&info, ET_SLOT_INPUT, 0, name, sizeof name, &err) == ET_NOT_FOUND);
    EXPECT_ERROR(&err, ET_NOT_FOUND, "method 'forward': the file has no names");
    EXPECT(name[0] == '\0');
  }
}

static void other_slots_are_refused(void) {
  const et_method_info info = info_of(structure);
  et_error err = {.status = ET_OK};
  char name[64];
  EXPECT(et_method_slot_name(&info, ET_SLOT_INPUT, 2, name, 64, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "got input 2 of 2");
  EXPECT(et_method_slot_name(&info, ET_SLOT_OUTPUT, SIZE_MAX, name, 64, &err) != ET_OK);
  EXPECT(et_method_slot_name(&info, ET_SLOT_ATTRIBUTE, 0, name, 64, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "got attribute 0");
}

static void a_room_that_is_too_small_is_named(void) {
  const et_method_info info = info_of(structure);
  for (size_t room = 0; room < 8; room++) {
    et_error err = {.status = ET_OK};
    char *const name = malloc(room + (room == 0));
    const et_status status = et_method_slot_name(&info, ET_SLOT_OUTPUT, 0, name, room, &err);
    const bool is_right = room == 0 || strcmp(name, room > 6 ? "logits" : "") == 0;
    free(name);
    EXPECT(is_right && (status == ET_OK) == (room > 6));
    if (room > 6) continue;
    EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "output 0: expected room for 7 bytes, got ");
  }
}

static void damaged_text_is_refused(void) {
  static const char *const texts[] = {
      "[1, {\"signature\": {\"inputs\": [{\"name\": \"\\x\"}]}}]",
      "[1, {\"signature\": {\"inputs\": [{\"name\": \"\\u12\"}]}}]",
      "[1, {\"signature\": {\"inputs\": [{\"name\": \"\\u0000\"}]}}]",
      "[1, {\"signature\": {\"inputs\": [{\"name\": \"\\ud800\"}]}}]",
      "[1, {\"signature\": {\"inputs\": [{\"name\": \"\\ud800\\u0041\"}]}}]",
      "[1, {\"signature\": {\"inputs\": [{\"name\": \"\\udc00\"}]}}]",
      "[1, {\"signature\": {\"inputs\": [{\"name\": 3}]}}]",
      "[1, {\"signature\": {\"inputs\": [{\"name\": \"ab",
      "[1, {\"signature\": {\"inputs\": [{\"name\" \"ab\"}]}}]",
      "[1, {\"signature\": {\"inputs\": {\"name\": \"ab\"}}}]",
      "[1, {\"signature\": {\"inputs\": []}}]",
      "[1, {\"signature\": []}]",
      "[1, {\"a\": , \"signature\": {}}]",
      "[1, [[[[[[",
      "[",
  };
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
    const et_method_info info = info_of(texts[k]);
    et_error err = {.status = ET_OK};
    char name[8] = "?";
    EXPECT(et_method_slot_name(&info, ET_SLOT_INPUT, 0, name, sizeof name, &err) ==
           ET_INVALID_PROGRAM);
    EXPECT_ERROR(&err, ET_INVALID_PROGRAM, "input 0: expected a name in the input structure");
    EXPECT(name[0] == '\0');
  }
}

// Asks for every name of a text, in memory that ends with it.
static bool is_harmless(const char *text, size_t n) {
  char *const copy = malloc(n + 1);
  memcpy(copy, text, n);
  copy[n] = '\0';
  const et_method_info info = info_of(copy);
  bool is_right = true;
  for (size_t i = 0; i < 3; i++) {
    char name[16] = "?";
    const et_slot_kind kind = i < 2 ? ET_SLOT_INPUT : ET_SLOT_OUTPUT;
    const et_status status = et_method_slot_name(&info, kind, i % 2, name, sizeof name, NULL);
    is_right = is_right && (status == ET_OK || name[0] == '\0');
  }
  free(copy);
  return is_right;
}

static void every_cut_and_changed_bit_is_an_error_or_another_name(void) {
  char changed[sizeof structure];
  for (size_t n = 0; n < sizeof structure; n++) EXPECT(is_harmless(structure, n));
  for (size_t k = 0; k < 8 * (sizeof structure - 1); k++) {
    memcpy(changed, structure, sizeof structure);
    changed[k / 8] = (char)(changed[k / 8] ^ 1 << k % 8);
    EXPECT(is_harmless(changed, strlen(changed)));
    EXPECT(is_harmless(changed, k / 8 + 1));  // the changed byte is the last one
  }
}

static const et_test tests[] = {
    ET_CASE(names_are_those_of_the_model),
    ET_CASE(a_file_without_names_says_so),
    ET_CASE(other_slots_are_refused),
    ET_CASE(a_room_that_is_too_small_is_named),
    ET_CASE(damaged_text_is_refused),
    ET_CASE(every_cut_and_changed_bit_is_an_error_or_another_name),
};

ET_TEST_MAIN(tests)
