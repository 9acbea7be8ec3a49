// status.c — names of statuses and the text of errors. The only file that formats text: a small
// formatter replaces stdio. With ET_MESSAGES=0 the formatter vanishes and an error is its code.
#include "runtime/check.h"
#include "runtime/dtype.h"

#include <stdarg.h>
#include <string.h>

#if ET_MESSAGES
const char *et_status_name(et_status status) {
#define ET_STATUS_NUMBER(id, number, name) number,
#define ET_STATUS_NAME(id, number, name) name "\0"
  static const uint8_t numbers[] = {ET_STATUS_LIST(ET_STATUS_NUMBER)};
  static const char names[] = ET_STATUS_LIST(ET_STATUS_NAME) "Unknown";
#undef ET_STATUS_NUMBER
#undef ET_STATUS_NAME
  size_t i = 0;
  while (i < sizeof numbers && numbers[i] != (unsigned)status) i++;
  return eti_nth_text(names, i);
}
#else
const char *et_status_name(et_status status) {
  (void)status;
  return "?";
}
#endif

#if ET_MESSAGES

typedef struct sink {
  char *at;
  char *end;  // room for the NUL is kept
} sink;

static void put_char(sink *s, char c) {
  if (s->at < s->end) *s->at++ = c;
}

static void put_unsigned(sink *s, unsigned long long v, unsigned base) {
  char digits[24];
  size_t n = 0;
  do {
    digits[n++] = "0123456789abcdef"[v % base];
    v /= base;
  } while (v != 0);
  while (n > 0) put_char(s, digits[--n]);
}

enum { LONGEST_TEXT = 160, TEXT_HEAD = 80, TEXT_TAIL = 50 };

// Text of more than LONGEST_TEXT bytes is a name from a file, perhaps of megabytes: its middle is
// replaced by its length, between characters, so that the rest of a message has room.
static void put_text(sink *s, const char *text) {
  if (text == NULL) text = "(none)";
  const size_t n = strlen(text);
  size_t head = n <= LONGEST_TEXT ? n : TEXT_HEAD, tail = n <= LONGEST_TEXT ? n : n - TEXT_TAIL;
  if (head < n) {
    for (int i = 0; i < 3 && (text[head] & 0xC0) == 0x80; i++) head--;
    for (int i = 0; i < 3 && (text[tail] & 0xC0) == 0x80; i++) tail++;
  }
  for (size_t i = 0; i < head; i++) put_char(s, text[i]);
  if (head == n) return;
  put_text(s, "\xe2\x80\xa6 (");
  put_unsigned(s, n, 10);
  put_text(s, " bytes) \xe2\x80\xa6");
  for (size_t i = tail; i < n; i++) put_char(s, text[i]);
}

// Prints six significant digits, much as %g does. Error texts need no correct rounding of the last
// digit.
static void put_double(sink *s, double v) {
  if (v != v) {
    put_text(s, "nan");
    return;
  }
  if (v < 0) {
    put_char(s, '-');
    v = -v;
  }
  if (v > 1.7976931348623157e308) {
    put_text(s, "inf");
    return;
  }
  int exponent = 0;
  while (v >= 10) v /= 10, exponent++;
  while (v > 0 && v < 1) v *= 10, exponent--;
  unsigned long digits = (unsigned long)(v * 1e5 + 0.5);  // d.ddddd
  if (digits >= 1000000) digits /= 10, exponent++;
  const bool fixed = exponent >= -5 && exponent < 6;
  int n = 6;
  const int whole = fixed ? (exponent < 0 ? 0 : exponent + 1) : 1;  // digits before the point
  while (n > whole && n > 1 && digits % 10 == 0) digits /= 10, n--;
  unsigned long power = 1;
  for (int i = 1; i < n; i++) power *= 10;
  if (fixed && exponent < 0) {
    put_text(s, "0.");
    for (int i = -1; i > exponent; i--) put_char(s, '0');
  }
  for (int i = 0; i < n; i++, power /= 10) {
    if (i == whole && !(fixed && exponent < 0)) put_char(s, '.');
    put_char(s, (char)('0' + digits / power % 10));
  }
  if (!fixed) {
    put_text(s, exponent < 0 ? "e-" : "e+");
    put_unsigned(s, (unsigned long long)(exponent < 0 ? -exponent : exponent), 10);
  }
}

static void format_into(sink *s, const char *f, va_list args) {
  for (; *f != '\0'; f++) {
    if (*f != '%') {
      put_char(s, *f);
      continue;
    }
    int n_long = 0;
    for (f++; *f == 'l' || *f == 'z'; f++)
      n_long += *f == 'z' ? (sizeof(size_t) > sizeof(long) ? 2 : 1) : 1;
    switch (*f) {
      case 's':
        put_text(s, va_arg(args, const char *));
        break;
      case 'c':
        put_char(s, (char)va_arg(args, int));
        break;
      case 'g':
        put_double(s, va_arg(args, double));
        break;
      case 'd':
      case 'i': {
        const long long v = n_long >= 2   ? va_arg(args, long long)
                            : n_long == 1 ? va_arg(args, long)
                                          : va_arg(args, int);
        if (v < 0) put_char(s, '-');
        put_unsigned(s, v < 0 ? 0ULL - (unsigned long long)v : (unsigned long long)v, 10);
        break;
      }
      case 'u':
      case 'x': {
        const unsigned long long v = n_long >= 2   ? va_arg(args, unsigned long long)
                                     : n_long == 1 ? va_arg(args, unsigned long)
                                                   : va_arg(args, unsigned);
        put_unsigned(s, v, *f == 'x' ? 16 : 10);
        break;
      }
      default:
        put_char(s, *f);
        if (*f == '\0') return;
    }
  }
}

static void format_at(et_error *err, size_t at, const char *format, va_list args) {
  ET_ASSERT(at < sizeof err->message);
  sink s = {.at = err->message + at, .end = err->message + sizeof err->message - 1};
  format_into(&s, format, args);
  *s.at = '\0';
}

et_status eti_fail(et_error *err, et_status status, const char *format, ...) {
  ET_ASSERT(status != ET_OK);
  if (err == NULL) return status;
  err->status = status;
  va_list args;
  va_start(args, format);
  format_at(err, 0, format, args);
  va_end(args);
  return status;
}

void eti_append(et_error *err, const char *format, ...) {
  if (err == NULL) return;
  va_list args;
  va_start(args, format);
  format_at(err, strlen(err->message), format, args);
  va_end(args);
}

void eti_context(et_error *err, const char *format, ...) {
  if (err == NULL) return;
  char text[160];
  sink s = {.at = text, .end = text + sizeof text};
  va_list args;
  va_start(args, format);
  format_into(&s, format, args);
  va_end(args);
  const size_t n = (size_t)(s.at - text);
  const size_t room = sizeof err->message - 1 - n;
  const size_t length = strlen(err->message);
  const size_t keep = length < room ? length : room;
  memmove(err->message + n, err->message, keep);
  memcpy(err->message, text, n);
  err->message[n + keep] = '\0';
}

#else

et_status eti_fail(et_error *err, et_status status, const char *format, ...) {
  (void)err;
  (void)format;
  return status;
}

void eti_append(et_error *err, const char *format, ...) {
  (void)err;
  (void)format;
}

void eti_context(et_error *err, const char *format, ...) {
  (void)err;
  (void)format;
}

#endif
