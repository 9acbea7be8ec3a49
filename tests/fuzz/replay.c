// replay.c — runs a fuzz entry over files without a fuzzing engine: unchanged, truncated at every
// length, and with seeded mutations, half of them bit flips and half made by the entry's mutator.
// After a crash or a timeout it prints the file and the mutation, which --only repeats. The last
// line counts how far the inputs got.
//   fuzz_program [--truncate] [--words] [--flips N] [--seed S] [--only K] [--save PATH]
//                [--with FILE] FILE…
#define _XOPEN_SOURCE 700
#include "runtime/et.h"

#include "fuzz.h"
#include "watch.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_PER_INPUT 10

static const char *current_file = "";
static const char *current_what = "";
static long current_number;

static void tell(void) {
  char text[512];
  const int n = snprintf(text, sizeof text, "\nwhile replaying %s, %s %ld\n", current_file,
                         current_what, current_number);
  if (n > 0 && write(2, text, (size_t)n) < 0) _exit(3);
}

static void feed(const char *what, long number, const uint8_t *bytes, size_t size) {
  current_what = what;
  current_number = number;
  watch_seconds(SECONDS_PER_INPUT);
  (void)LLVMFuzzerTestOneInput(bytes, size);
  watch_seconds(0);
}

typedef struct options {
  bool truncate, words;
  long n_flips, only;
  uint64_t seed;
  const char *save;
} options;

// Mutation k of a file. Even ones: one to four bits, or one little-endian word set to something
// extreme.
static void mutate(uint8_t *bytes, size_t size, uint64_t seed, long k) {
  static const uint32_t extremes[] = {0,      1,       0x7f,       0x80,        0xff,
                                      0x7fff, 0x10000, 0x7fffffff, 0x80000000u, 0xffffffffu};
  uint64_t state = seed * 1000003u + (uint64_t)k;
  if (k % 2 != 0) {
    (void)LLVMFuzzerCustomMutator(bytes, size, size, (unsigned)fuzz_random(&state));
    return;
  }
  const uint64_t kind = fuzz_random(&state) % 8;
  const size_t at = (size_t)(fuzz_random(&state) % size);
  if (kind == 0 && at + 4 <= size) {
    const uint32_t word = extremes[fuzz_random(&state) % (sizeof extremes / sizeof extremes[0])];
    memcpy(bytes + (at & ~(size_t)3), &word, sizeof word);
    return;
  }
  const uint64_t n = kind < 5 ? 1 : 1 + fuzz_random(&state) % 4;
  bytes[at] ^= (uint8_t)(1u << fuzz_random(&state) % 8);
  for (uint64_t i = 1; i < n; i++)
    bytes[fuzz_random(&state) % size] ^= (uint8_t)(1u << fuzz_random(&state) % 8);
}

// Sets the two and the four bytes at a place to extreme values, and to offsets at and past the
// file's end.
static void set_word(uint8_t *copy, const uint8_t *original, size_t size, size_t at) {
  const uint32_t left = (uint32_t)(size - at);
  const uint32_t words[] = {0,    1,    2,    3,      4,          left - 4,    left - 3,
                            left, 0x7f, 0xff, 0x7fff, 0x7fffffff, 0x80000000u, 0xffffffffu};
  for (size_t k = 0; k < 2 * sizeof words / sizeof *words; k++) {
    memcpy(copy, original, size);
    memcpy(copy + at, &words[k / 2], k % 2 == 0 ? 2 : 4);
    feed("word at", (long)at, copy, size);
  }
}

static void replay(const uint8_t *original, size_t size, const options *o) {
  uint8_t *copy = malloc(size == 0 ? 1 : size);
  if (copy == NULL) exit(3);
  if (o->only < 0) feed("as it is", 0, original, size);
  if (o->truncate) {
    for (size_t n = 0; n < size; n++) feed("cut to bytes:", (long)n, original, n);
  }
  for (size_t at = 0; o->words && at + 4 <= size; at += 2) set_word(copy, original, size, at);
  const long begin = o->only < 0 ? 0 : o->only, end = o->only < 0 ? o->n_flips : o->only + 1;
  for (long k = begin; size > 0 && k < end; k++) {
    memcpy(copy, original, size);
    mutate(copy, size, o->seed, k);
    if (o->save != NULL) {
      FILE *file = fopen(o->save, "wb");
      if (file == NULL || fwrite(copy, 1, size, file) != size || fclose(file) != 0) exit(3);
    }
    feed("mutation", k, copy, size);
  }
  free(copy);
}

static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    fprintf(stderr, "replay: cannot open %s\n", path);
    exit(2);
  }
  *size = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(*size > 0 ? *size : 1);
  if (bytes == NULL || fread(bytes, 1, *size, file) != *size) exit(2);
  fclose(file);
  return bytes;
}

static void replay_file(const char *path, const options *o) {
  size_t size;
  uint8_t *bytes = read_file(path, &size);
  current_file = path;
  replay(bytes, size, o);
  free(bytes);
}

static void set_companion(const char *path) {
  free((void *)(uintptr_t)companion.bytes);
  companion.bytes = read_file(path, &companion.size);
}

int main(int argc, char **argv) {
  options o = {.only = -1, .seed = 1};
  watch_begin(tell);
  long n_files = 0;
  for (int i = 1; i < argc; i++) {
    const bool has_value = i + 1 < argc;
    if (strcmp(argv[i], "--truncate") == 0) {
      o.truncate = true;
    } else if (strcmp(argv[i], "--words") == 0) {
      o.words = true;
    } else if (strcmp(argv[i], "--flips") == 0 && has_value) {
      o.n_flips = strtol(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
      o.seed = strtoull(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--only") == 0 && has_value) {
      o.only = strtol(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--save") == 0 && has_value) {
      o.save = argv[++i];
    } else if (strcmp(argv[i], "--with") == 0 && has_value) {
      set_companion(argv[++i]);
    } else {
      replay_file(argv[i], &o);
      n_files++;
    }
  }
  free((void *)(uintptr_t)companion.bytes);
  printf(
      "replayed %ld files: %lu inputs, %lu opened, %lu methods loaded, %lu started, %lu finished\n",
      n_files, reach.inputs, reach.opened, reach.loaded, reach.started, reach.finished);
  return n_files > 0 ? 0 : 2;
}
