// platform_posix.c — mapped files, a clock and the number of CPUs, for programs on an operating
// system. Only platform_* files know the system; bare builds leave them out, and nothing in the
// runtime calls them.
#define _GNU_SOURCE  // sched_getaffinity
#include "runtime/check.h"
#include "runtime/config.h"
#include "runtime/et.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void identify(const struct stat *facts, uint64_t identity[4]) {
  struct timespec now;
  memset(identity, 0, 4 * sizeof *identity);
  if (clock_gettime(CLOCK_REALTIME, &now) != 0 || facts->st_ctim.tv_sec >= now.tv_sec - 3) return;
  identity[0] = (uint64_t)facts->st_dev;
  identity[1] = (uint64_t)facts->st_ino;
  identity[2] = (uint64_t)facts->st_size;
  identity[3] = (uint64_t)facts->st_ctim.tv_sec * 1000000000u + (uint64_t)facts->st_ctim.tv_nsec;
}

et_status et_file_map_open(et_file_map *map, const char *path, et_error *err) {
  et_status status = ET_OK;
  struct stat facts;
  void *data = NULL;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &facts) != 0) {
    status = ET_FAIL(err, ET_ACCESS_FAILED, "cannot open '%s': %s", path, strerror(errno));
  } else if (!S_ISREG(facts.st_mode)) {
    status = ET_FAIL(err, ET_ACCESS_FAILED, "'%s' is not a regular file", path);
  } else if (facts.st_size > 0) {
    data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
      status = ET_FAIL(err, ET_ACCESS_FAILED, "cannot map '%s' (%lld bytes): %s", path,
                       (long long)facts.st_size, strerror(errno));
    }
  }
  if (file >= 0) (void)close(file);
  if (status == ET_OK) {
    map->data = data;  // NULL when the file is empty, which mmap does not allow
    map->size = (size_t)facts.st_size;
    identify(&facts, map->identity);
  }
  return status;
}

void et_file_map_close(et_file_map *map) {
  if (map->data != NULL) (void)munmap(map->data, map->size);
  map->data = NULL;
  map->size = 0;
}

uint64_t et_clock_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// ---- CPUs

static size_t online(void) {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (size_t)count : 1;
}

#if defined(__linux__)

// Reads a small text file; gives an empty text on failure.
static const char *read_text(const char *path, char *text, size_t capacity) {
  text[0] = '\0';
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  const ssize_t n = read(file, text, capacity - 1);
  text[n > 0 ? n : 0] = '\0';
  (void)close(file);
  return text;
}

// Parses a decimal number and moves *text past it and one space; 0 when there is none ("max",
// "-1").
static uint64_t read_number(const char **text) {
  uint64_t v = 0;
  for (; **text >= '0' && **text <= '9'; (*text)++) v = v * 10 + (uint64_t)(**text - '0');
  if (**text == ' ') (*text)++;
  return v;
}

static void lower_to_quota(size_t *count, uint64_t quota, uint64_t period) {
  if (quota == 0 || period == 0) return;
  const uint64_t whole = (quota + period - 1) / period;  // half a CPU counts as one thread
  if (whole < *count) *count = (size_t)whole;
}

static void join(char *path, size_t capacity, const char *a, const char *b, const char *c) {
  size_t n = 0;
  const char *const parts[] = {a, b, c};
  for (size_t i = 0; i < 3; i++) {
    for (const char *p = parts[i]; *p != '\0' && n + 1 < capacity; p++) path[n++] = *p;
  }
  path[n] = '\0';
}

// Applies the CPU quota of a control group and of every group above it. is_v2 selects the file
// layout.
static void apply_groups(size_t *count, char *group, bool is_v2) {
  char path[600], text[64];
  for (;;) {
    const char *at;
    if (is_v2) {
      join(path, sizeof path, "/sys/fs/cgroup", group, "/cpu.max");
      at = read_text(path, text, sizeof text);
      const uint64_t quota = read_number(&at);
      lower_to_quota(count, quota, read_number(&at));
    } else {
      join(path, sizeof path, "/sys/fs/cgroup/cpu", group, "/cpu.cfs_quota_us");
      at = read_text(path, text, sizeof text);
      const uint64_t quota = read_number(&at);
      join(path, sizeof path, "/sys/fs/cgroup/cpu", group, "/cpu.cfs_period_us");
      at = read_text(path, text, sizeof text);
      lower_to_quota(count, quota, read_number(&at));
    }
    char *slash = strrchr(group, '/');
    if (slash == NULL) return;
    *slash = '\0';  // "/a/b" → "/a" → ""
  }
}

static void apply_quota(size_t *count) {
  char text[2048];
  (void)read_text("/proc/self/cgroup", text, sizeof text);
  for (char *line = text;
       line != NULL && *line != '\0';) {  // "0::/group" or "4:cpu,cpuacct:/group"
    char *end = strchr(line, '\n');
    if (end != NULL) *end = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group != NULL) {
      *group++ = '\0';
      controllers++;
      const bool is_v2 = *controllers == '\0';
      if (strcmp(group, "/") == 0) *group = '\0';
      if (is_v2 || strncmp(controllers, "cpu,", 4) == 0 || strcmp(controllers, "cpu") == 0)
        apply_groups(count, group, is_v2);
    }
    line = end == NULL ? NULL : end + 1;
  }
}

// CPUs that this process may use. The set holds 1024: with more CPUs the affinity cannot be read.
static size_t usable(void) {
  cpu_set_t set;
  size_t count = online();
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    count = (size_t)CPU_COUNT(&set);
  apply_quota(&count);
  return count;
}

#else

static size_t usable(void) {
  return online();
}

#endif

size_t et_cpu_count(void) {
  const size_t count = usable();
  return count < ET_MAX_THREADS ? count : ET_MAX_THREADS;
}
