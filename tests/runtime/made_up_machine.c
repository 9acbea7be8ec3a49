// made_up_machine.c — a library to be loaded before others (LD_PRELOAD): a process asks the system
// for its pages, CPUs and advice on memory, and gets the answers of another machine.
//
//   MADE_UP_PAGE=65536      sysconf: the size of pages
//   MADE_UP_CPUS=3          sysconf and sched_getaffinity: CPUs
//   MADE_UP_ADVICE=refused  madvise: EINVAL, as where huge pages or populating are not known
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long made_up(const char *name) {
  const char *const text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

long sysconf(int name) {
  const long pages = made_up("MADE_UP_PAGE"), cpus = made_up("MADE_UP_CPUS");
  if (name == _SC_PAGESIZE && pages > 0) return pages;
  if (name == _SC_NPROCESSORS_ONLN && cpus > 0) return cpus;
  long (*const real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return real(name);
}

int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set) {
  const long cpus = made_up("MADE_UP_CPUS");
  CPU_ZERO_S(bytes, set);
  if (cpus == 0) return syscall(SYS_sched_getaffinity, process, bytes, set) < 0 ? -1 : 0;
  for (long i = 0; i < cpus; i++) CPU_SET_S((size_t)i, bytes, set);
  return 0;
}

int madvise(void *begin, size_t bytes, int advice) {
  if (getenv("MADE_UP_ADVICE") == NULL) return (int)syscall(SYS_madvise, begin, bytes, advice);
  errno = EINVAL;
  return -1;
}
