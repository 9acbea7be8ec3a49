// et_test.h — the C test framework. A test is a void function, EXPECT returns from it if a
// condition is false, and et_test_main runs a table of tests. Prints one line per test; --list
// prints their names, an argument runs one.
#ifndef ET_TEST_H
#define ET_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct et_test {
  const char *name;
  void (*run)(void);
} et_test;

static const char *et_test_current = "";
static bool et_test_failed;

static inline void et_test_fail(const char *file, int line, const char *what) {
  if (!et_test_failed) printf("FAIL %s: %s:%d: %s\n", et_test_current, file, line, what);
  et_test_failed = true;
}

#define EXPECT(condition)                           \
  do {                                              \
    if (!(condition)) {                             \
      et_test_fail(__FILE__, __LINE__, #condition); \
      return;                                       \
    }                                               \
  } while (0)

// Checks the error's code and a part of its message.
#define EXPECT_ERROR(error, code, part)                                            \
  do {                                                                             \
    if ((error)->status != (code) || strstr((error)->message, (part)) == NULL) {   \
      printf("  got %s: %s\n", et_status_name((error)->status), (error)->message); \
      et_test_fail(__FILE__, __LINE__, #code ", " #part);                          \
      return;                                                                      \
    }                                                                              \
  } while (0)

#define ET_CASE(function) {#function, function}

static inline int et_test_main(int argc, char **argv, const et_test *tests, size_t n) {
  int n_failed = 0, n_run = 0;
  setvbuf(stdout, NULL, _IOLBF,
          0);  // a sanitizer that ends the process takes unwritten lines with it
  for (size_t i = 0; i < n; i++) {
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
      printf("%s\n", tests[i].name);
      n_run++;
      continue;
    }
    if (argc > 1 && strcmp(argv[1], tests[i].name) != 0) continue;
    et_test_current = tests[i].name;
    et_test_failed = false;
    tests[i].run();
    if (!et_test_failed) printf("ok %s\n", tests[i].name);
    n_failed += et_test_failed;
    n_run++;
  }
  if (n_run == 0) printf("FAIL %s: no such test\n", argc > 1 ? argv[1] : "");
  return n_failed == 0 && n_run > 0 ? 0 : 1;
}

#define ET_TEST_MAIN(tests)                                                     \
  int main(int argc, char **argv) {                                             \
    return et_test_main(argc, argv, (tests), sizeof(tests) / sizeof(tests)[0]); \
  }

#endif  // ET_TEST_H
