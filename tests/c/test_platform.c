// Tests of the hosted helpers: files mapped into memory, the clock, the number of CPUs.
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <unistd.h>

static void a_mapped_file_is_a_source(void) {
  rig r = rig_read("add_mul.pte");
  et_file_map map;
  EXPECT(et_file_map_open(&map, "tests/golden/add_mul.pte", &r.err) == ET_OK);
  EXPECT(map.size == r.size && memcmp(map.data, r.bytes, r.size) == 0);
  const et_source source = et_source_from_memory(map.data, map.size);
  EXPECT(et_program_open(&r.program, &source, ET_VERIFY_FULL, &r.err) == ET_OK);
  EXPECT(rig_load(&r, "forward") == ET_OK);
  rig_end(&r);
  et_file_map_close(&map);
  EXPECT(map.data == NULL && map.size == 0);
  et_file_map_close(&map);
}

static void an_empty_file_maps_to_nothing_and_is_no_program(void) {
  char path[] = "/tmp/empty_file_XXXXXX";
  const int file = mkstemp(path);
  EXPECT(file >= 0 && close(file) == 0);
  et_file_map map = {&map, 9, {1}};
  et_error err;
  et_program program;
  const et_status status = et_file_map_open(&map, path, &err);
  (void)unlink(path);
  EXPECT(status == ET_OK && map.data == NULL && map.size == 0);
  const et_source source = et_source_from_memory(map.data, map.size);
  EXPECT(et_program_open(&program, &source, ET_VERIFY_FULL, &err) == ET_INVALID_ARGUMENT);
  et_file_map_close(&map);
}

static void what_cannot_be_mapped_is_named(void) {
  et_file_map map;
  et_error err;
  EXPECT(et_file_map_open(&map, "tests/golden/none.pte", &err) == ET_ACCESS_FAILED);
  EXPECT_ERROR(&err, ET_ACCESS_FAILED, "cannot open 'tests/golden/none.pte': No such file");
  EXPECT(et_file_map_open(&map, "tests/golden", &err) == ET_ACCESS_FAILED);
  EXPECT_ERROR(&err, ET_ACCESS_FAILED, "'tests/golden' is not a regular file");
}

static void time_goes_on_and_there_is_a_processor(void) {
  const uint64_t before = et_clock_ns();
  EXPECT(before > 0 && et_clock_ns() >= before);
  EXPECT(et_cpu_count() >= 1);
}

static const et_test tests[] = {
    ET_CASE(a_mapped_file_is_a_source),
    ET_CASE(an_empty_file_maps_to_nothing_and_is_no_program),
    ET_CASE(what_cannot_be_mapped_is_named),
    ET_CASE(time_goes_on_and_there_is_a_processor),
};

ET_TEST_MAIN(tests)
