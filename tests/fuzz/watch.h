// watch.h — prints the current input before a crash or a timeout ends the process. Included by the
// file of a fuzz program that feeds inputs; that file defines _XOPEN_SOURCE first.
#ifndef ET_FUZZ_WATCH_H
#define ET_FUZZ_WATCH_H

#include "runtime/et.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));
ET_API const char *__ubsan_default_options(void);
ET_API const char *__asan_default_options(void);

const char *__ubsan_default_options(void) {
  return "abort_on_error=1:print_stacktrace=1";  // so that the handler prints the current input
}

// Limits memory to what inputs need, as on a small machine.
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

static void (*watch_tell)(void);

static void watch_end(int signal_number) {
  watch_tell();
  _exit(128 + signal_number);
}

// From now on `tell` is called before a crash ends the process. Sanitizers see memory errors first
// and report them themselves.
static void watch_begin(void (*tell)(void)) {
  watch_tell = tell;
  signal(SIGVTALRM, watch_end);
  signal(SIGABRT, watch_end);
  if (__sanitizer_set_death_callback != NULL) {
    __sanitizer_set_death_callback(tell);
    return;
  }
  static const int crashes[] = {SIGSEGV, SIGFPE, SIGBUS, SIGILL};
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], watch_end);
}

// Ends an input that takes more seconds of the processor (others may keep the machine busy); 0:
// none is under way.
static void watch_seconds(long seconds) {
  const struct itimerval timer = {.it_value = {.tv_sec = seconds}};
  if (setitimer(ITIMER_VIRTUAL, &timer, NULL) != 0) abort();
}

#endif  // ET_FUZZ_WATCH_H
