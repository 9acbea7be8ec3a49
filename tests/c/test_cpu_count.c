// test_cpu_count.c — tests et_cpu_count on simulated machines: the test replaces the system's
// sched_getaffinity, sysconf and control group files.
#define _GNU_SOURCE
#include "et_test.h"

#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

typedef struct text_file {
  const char *path, *text;
} text_file;

typedef struct system_facts {
  long online;   // -1: unknown
  int affinity;  // CPUs of it; -1: more than a set has room for
  text_file files[4];
} system_facts;

static system_facts machine;

static int made_up_affinity(pid_t process, size_t bytes, cpu_set_t *set) {
  (void)process;
  (void)bytes;
  if (machine.affinity < 0) {
    errno = EINVAL;
    return -1;
  }
  CPU_ZERO(set);
  for (size_t i = 0; i < (size_t)machine.affinity; i++) CPU_SET(2 * i, set);
  return 0;
}

static long made_up_sysconf(int name) {
  return name == _SC_NPROCESSORS_ONLN ? machine.online : sysconf(name);
}

static int made_up_open(const char *path, int flags, ...) {
  (void)flags;
  for (int i = 0; i < 4; i++)
    if (machine.files[i].path != NULL && strcmp(path, machine.files[i].path) == 0) return 1000 + i;
  errno = ENOENT;
  return -1;
}

static ssize_t made_up_read(int file, void *to, size_t bytes) {
  const char *const text = machine.files[file - 1000].text;
  const size_t n = strlen(text) < bytes ? strlen(text) : bytes;
  memcpy(to, text, n);
  return (ssize_t)n;
}

static int made_up_close(int file) {
  return file >= 1000 ? 0 : -1;
}

#define sched_getaffinity made_up_affinity
#define sysconf made_up_sysconf
#define open made_up_open
#define read made_up_read
#define close made_up_close
#include "runtime/platform_posix.c"

static size_t count_on(system_facts facts) {
  machine = facts;
  return et_cpu_count();
}

static void a_process_uses_the_cpus_that_it_may_run_on(void) {
  EXPECT(count_on((system_facts){.online = 8, .affinity = 8}) == 8);
  EXPECT(count_on((system_facts){.online = 8, .affinity = 3}) == 3);
  EXPECT(count_on((system_facts){.online = 1, .affinity = 1}) == 1);
}

static void a_system_that_does_not_tell_has_those_online_or_one(void) {
  EXPECT(count_on((system_facts){.online = 6, .affinity = 0}) == 6);
  EXPECT(count_on((system_facts){.online = -1, .affinity = 0}) == 1);
}

static void a_machine_with_more_cpus_than_a_pool_has_threads_leaves_some_idle(void) {
  EXPECT(count_on((system_facts){.online = 1025, .affinity = -1}) == 1024);
  EXPECT(count_on((system_facts){.online = 3000, .affinity = -1}) == 1024);
  EXPECT(count_on((system_facts){.online = 600, .affinity = -1}) == 600);
}

static size_t count_with_group(const char *group, text_file a, text_file b, text_file c) {
  return count_on((system_facts){8, 8, {{"/proc/self/cgroup", group}, a, b, c}});
}

static void quotas_of_a_group_and_those_above_it_hold(void) {
  const text_file none = {NULL, NULL}, half = {"/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"};
  const text_file two = {"/sys/fs/cgroup/a/cpu.max", "150000 100000\n"};
  const text_file any = {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"};
  const text_file much = {"/sys/fs/cgroup/cpu.max", "9900000 100000\n"};
  EXPECT(count_with_group("0::/a/b\n", half, two, much) == 1);
  EXPECT(count_with_group("0::/a/b\n", any, two, much) == 2);
  EXPECT(count_with_group("0::/a/b\n", any, none, much) == 8);
  EXPECT(count_with_group("0::/\n", half, two, much) == 8);
  EXPECT(count_with_group("0::/\n", (text_file){"/sys/fs/cgroup/cpu.max", "300000 100000"}, none,
                          none) == 3);
}

static void quotas_of_the_first_kind_of_groups_hold(void) {
  const text_file none = {NULL, NULL}, period = {"/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000"};
  const text_file quota = {"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "110000\n"};
  const text_file no_quota = {"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n"};
  static const char group[] = "7:memory:/x\n4:cpu,cpuacct:/a\n0::/y\n";
  EXPECT(count_with_group(group, quota, period, none) == 3);
  EXPECT(count_with_group("4:cpu:/a", quota, period, none) == 3);
  EXPECT(count_with_group("4:cpuset:/a", quota, period, none) == 8);
  EXPECT(count_with_group(group, no_quota, period, none) == 8);
  EXPECT(count_with_group(group, quota, none, none) == 8);
}

static const et_test tests[] = {
    ET_CASE(a_process_uses_the_cpus_that_it_may_run_on),
    ET_CASE(a_system_that_does_not_tell_has_those_online_or_one),
    ET_CASE(a_machine_with_more_cpus_than_a_pool_has_threads_leaves_some_idle),
    ET_CASE(quotas_of_a_group_and_those_above_it_hold),
    ET_CASE(quotas_of_the_first_kind_of_groups_hold),
};
#else
static void nothing_is_made_up_elsewhere(void) {}

static const et_test tests[] = {ET_CASE(nothing_is_made_up_elsewhere)};
#endif
ET_TEST_MAIN(tests)
