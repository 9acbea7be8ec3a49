// check.h — the control-flow macros. Only ET_TRY and ET_CHECK contain a return. Relies on et.h for
// statuses. Functions that must release something use `goto done` instead.
#ifndef ET_CHECK_H
#define ET_CHECK_H

#include "runtime/config.h"
#include "runtime/et.h"

// Fills err (when not NULL) with status and a printf-formatted message, and returns status.
// Supports %s %d %u %i %x %c %% with the length modifiers l, ll and z, and %g for doubles (whose
// exponents have no leading zeros and start at 1e-5 and 1e6); status.c has the
// formatter, so no stdio is linked.
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4), cold))
#endif
et_status eti_fail(et_error *err, et_status status, const char *format, ...);

// Prepends text to the message of a failure: eti_context(err, "method '%s': ", name).
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), cold))
#endif
void eti_context(et_error *err, const char *format, ...);

// Appends text to the message of a failure.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), cold))
#endif
void eti_append(et_error *err, const char *format, ...);

#if ET_MESSAGES
#define ET_FAIL(err, status, ...) eti_fail((err), (status), __VA_ARGS__)
#define ET_CONTEXT(err, ...) eti_context((err), __VA_ARGS__)
#define ET_APPEND(err, ...) eti_append((err), __VA_ARGS__)
#else
// Message arguments are compiled, so that they count as used, and then dropped.
#define ET_FAIL(err, status, ...) (0 ? eti_fail((err), (status), __VA_ARGS__) : (et_status)(status))
#define ET_CONTEXT(err, ...) (0 ? eti_context((err), __VA_ARGS__) : (void)0)
#define ET_APPEND(err, ...) (0 ? eti_append((err), __VA_ARGS__) : (void)0)
#endif

// Propagates a failure.
#define ET_TRY(call)                                  \
  do {                                                \
    const et_status et_try_status = (call);           \
    if (et_try_status != ET_OK) return et_try_status; \
  } while (0)

// Checks data from outside; always compiled. Returns the status directly, so that compilers see
// that a failed check never continues with ET_OK.
#define ET_CHECK(condition, err, status, ...)      \
  do {                                             \
    if (!(condition)) {                            \
      (void)ET_FAIL((err), (status), __VA_ARGS__); \
      return (status);                             \
    }                                              \
  } while (0)

// Asserts a proven fact; compiled out of release builds.
#if defined(ET_DEBUG)
#define ET_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#else
#define ET_ASSERT(condition) ((void)0)
#endif

// Marks a branch that should be unreachable: traps in debug builds, runs in release builds.
#if defined(ET_DEBUG)
#define ET_NEVER(x) ((x) ? (__builtin_trap(), true) : false)
#else
#define ET_NEVER(x) (x)
#endif

#endif  // ET_CHECK_H
