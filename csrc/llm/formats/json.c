#include "llm/formats/json.h"

#include "llm/formats/decimal.h"
#include "runtime/check.h"

#include <string.h>

#define FAIL_AT(json, expected)                                                           \
  ET_FAIL((json)->err, ET_INVALID_EXTERNAL_DATA, "%s: expected %s at byte %zu, got '%s'", \
          (json)->name, (expected), (json)->at, shown_rest(json, (char[ETI_SHOWN_BYTES]){0}))

// The text where a reader is, for a message.
static const char *shown_rest(const eti_json *json, char *shown) {
  const size_t at = json->at < json->text.n ? json->at : json->text.n;
  const size_t left = json->text.n - at, n = left < 12 ? left : 12;
  return eti_text_shown((eti_string){json->text.bytes + at, n}, shown);
}

eti_json eti_json_over(eti_string text, const char *name, et_error *err) {
  return (eti_json){.name = name, .text = text, .err = err};
}

static void skip_space(eti_json *json) {
  static const char INDENT[8] = "        ";
  const uint8_t *const bytes = json->text.bytes;
  const size_t n = json->text.n;
  size_t at = json->at;
  while (at < n && bytes[at] <= ' ') {
    if (n - at >= sizeof INDENT && memcmp(bytes + at, INDENT, sizeof INDENT) == 0) {
      at += sizeof INDENT;
      continue;
    }
    if (bytes[at] != ' ' && bytes[at] != '\n' && bytes[at] != '\r' && bytes[at] != '\t') break;
    at++;
  }
  json->at = at;
}

char eti_json_peek(eti_json *json) {
  skip_space(json);
  return json->at < json->text.n ? (char)json->text.bytes[json->at] : 0;
}

static bool take(eti_json *json, char c) {
  if (eti_json_peek(json) != c || c == 0) return false;
  json->at++;
  return true;
}

static bool take_word(eti_json *json, const char *word) {
  const size_t n = strlen(word);
  skip_space(json);
  if (json->text.n - json->at < n || memcmp(json->text.bytes + json->at, word, n) != 0)
    return false;
  json->at += n;
  return true;
}

et_status eti_json_begin(eti_json *json, char open) {
  if (!take(json, open)) return FAIL_AT(json, open == '{' ? "an object" : "an array");
  if (json->depth == ETI_JSON_MAX_DEPTH) return FAIL_AT(json, "values at most 64 deep");
  json->depth++;
  json->first = true;
  return ET_OK;
}

bool eti_json_next(eti_json *json, char close, et_status *status) {
  *status = ET_OK;
  const bool first = json->first;
  json->first = false;
  if (take(json, close)) {
    json->depth--;
    return false;
  }
  if (first || take(json, ',')) return true;
  *status = FAIL_AT(json, close == '}' ? "',' or '}'" : "',' or ']'");
  return false;
}

et_status eti_json_key(eti_json *json, eti_string *key) {
  ET_TRY(eti_json_string(json, key));
  return take(json, ':') ? ET_OK : FAIL_AT(json, "':'");
}

// The bytes at p, up to eight, before the first one that is '"' or '\\'.
static size_t plain_bytes(const uint8_t *p) {
  const uint64_t ones = 0x0101010101010101u, tops = ones << 7;
  uint64_t eight = 0;
  for (size_t i = 0; i < 8; i++) eight |= (uint64_t)p[i] << (8 * i);  // one load
  const uint64_t quotes = eight ^ ones * '"', slashes = eight ^ ones * '\\';
  // The lowest bit that is set is right; those above it may be wrong.
  uint64_t found = (((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes)) & tops;
  if (found == 0) return 8;
  found &= 0 - found;
  return (size_t)((((found >> 7) - 1) & ones) * ones >> 56);
}

et_status eti_json_string(eti_json *json, eti_string *raw) {
  if (!take(json, '"')) return FAIL_AT(json, "a string");
  const uint8_t *const begin = json->text.bytes + json->at, *p = begin;
  const uint8_t *const end = json->text.bytes + json->text.n;
  for (;;) {
    for (size_t n = 8; n == 8 && end - p >= 8; p += n) n = plain_bytes(p);
    if (p >= end || *p == '"') break;
    p += *p == '\\' ? 2 : 1;
  }
  if (p >= end) return FAIL_AT(json, "the end of the string that begins");
  *raw = (eti_string){begin, (size_t)(p - begin)};
  json->at += raw->n + 1;
  return ET_OK;
}

static bool is_digit(const eti_json *json) {
  return json->at < json->text.n && (uint8_t)(json->text.bytes[json->at] - '0') < 10;
}

// Digits into *value, which stops growing at 10^18; *dropped counts the digits behind.
static size_t digits(eti_json *json, int64_t *value, int *dropped) {
  const size_t first = json->at;
  for (; is_digit(json); json->at++) {
    if (*value < 100000000000000000)
      *value = *value * 10 + (json->text.bytes[json->at] - '0');
    else
      ++*dropped;
  }
  return json->at - first;
}

et_status eti_json_integer(eti_json *json, int64_t *value) {
  const bool negative = take(json, '-');
  int64_t sum = 0;
  int dropped = 0;
  const bool whole =
      (negative || eti_json_peek(json) != 0) && digits(json, &sum, &dropped) > 0 && dropped == 0;
  const uint8_t behind = json->at < json->text.n ? json->text.bytes[json->at] : 0;
  if (!whole || behind == '.' || behind == 'e' || behind == 'E') return FAIL_AT(json, "an integer");
  *value = negative ? -sum : sum;
  return ET_OK;
}

et_status eti_json_number(eti_json *json, double *value) {
  const bool negative = take(json, '-');
  int64_t sum = 0, exponent = 0;
  int scale = 0, dropped = 0;
  skip_space(json);
  if (digits(json, &sum, &scale) == 0) return FAIL_AT(json, "a number");
  if (take_word(json, ".")) {
    const size_t n = digits(json, &sum, &dropped);
    if (n == 0) return FAIL_AT(json, "a digit");
    scale -= (int)n - dropped;
  }
  if (take_word(json, "e") || take_word(json, "E")) {
    const bool minus = take_word(json, "-");
    if (!minus) (void)take_word(json, "+");
    if (digits(json, &exponent, &dropped) == 0) return FAIL_AT(json, "an exponent");
    if (exponent > 400) exponent = 400;
    scale += minus ? -(int)exponent : (int)exponent;
  }
  const double size = eti_decimal((uint64_t)sum, scale > 400 ? 400 : scale < -400 ? -400 : scale);
  *value = negative ? -size : size;
  return ET_OK;
}

et_status eti_json_bool(eti_json *json, bool *value) {
  *value = take_word(json, "true");
  return *value || take_word(json, "false") ? ET_OK : FAIL_AT(json, "true or false");
}

bool eti_json_null(eti_json *json) {
  return take_word(json, "null");
}

// Looks at brackets and strings only: the grammar of a value that nobody reads is not checked.
et_status eti_json_skip(eti_json *json, eti_string *skipped) {
  static const char STRUCTURE[] = "{}[],: \t\r\n\"";
  skip_space(json);
  const size_t first = json->at;
  size_t depth = 0;
  do {
    const char c = eti_json_peek(json);
    const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    if (c == 0 || (depth == 0 && (closes || c == ',' || c == ':'))) return FAIL_AT(json, "a value");
    if (c == '"') {
      eti_string string;
      ET_TRY(eti_json_string(json, &string));
    } else if (strchr(STRUCTURE, c) != NULL) {
      depth += opens ? 1u : 0u;
      depth -= closes ? 1u : 0u;
      json->at++;
    } else {
      while (json->at < json->text.n && json->text.bytes[json->at] != 0 &&
             strchr(STRUCTURE, json->text.bytes[json->at]) == NULL)
        json->at++;
    }
  } while (depth > 0);
  if (skipped != NULL) *skipped = (eti_string){json->text.bytes + first, json->at - first};
  return ET_OK;
}

bool eti_json_is(eti_string raw, const char *word) {
  return eti_string_equal(raw, eti_string_of(word));
}

// ---- escapes

// The four digits of \uXXXX; UINT32_MAX if they are not there.
static uint32_t hex4(eti_string raw, size_t at) {
  uint32_t value = 0;
  if (raw.n - at < 4) return UINT32_MAX;
  for (size_t i = at; i < at + 4; i++) {
    const uint8_t c = raw.bytes[i], small = c | 0x20;
    if (c >= '0' && c <= '9')
      value = value << 4 | (uint32_t)(c - '0');
    else if (small >= 'a' && small <= 'f')
      value = value << 4 | (uint32_t)(small - 'a' + 10);
    else
      return UINT32_MAX;
  }
  return value;
}

// The code point of \uXXXX at *at, behind the 'u', with the low surrogate that follows a high one.
static uint32_t unicode_escape(eti_string raw, size_t *at) {
  const uint32_t high = hex4(raw, *at);
  if (high == UINT32_MAX) return high;
  *at += 4;
  if (high - 0xD800 >= 0x800) return high;
  const bool pair =
      high < 0xDC00 && raw.n - *at >= 6 && raw.bytes[*at] == '\\' && raw.bytes[*at + 1] == 'u';
  const uint32_t low = pair ? hex4(raw, *at + 2) : 0;
  if (low - 0xDC00 >= 0x400) return 0xFFFD;
  *at += 6;
  return 0x10000 + ((high - 0xD800) << 10 | (low - 0xDC00));
}

et_status eti_json_unescape(eti_string raw, uint8_t *to, size_t *n, et_error *err) {
  static const char ESCAPES[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
  size_t at = 0, end = 0;
  while (at < raw.n) {
    const uint8_t *const slash = memchr(raw.bytes + at, '\\', raw.n - at);
    const size_t plain = slash == NULL ? raw.n - at : (size_t)(slash - raw.bytes) - at;
    memcpy(to + end, raw.bytes + at, plain);
    end += plain;
    at += plain;
    if (slash == NULL) break;
    const uint8_t c = at + 1 < raw.n ? raw.bytes[at + 1] : 0;
    const char *const place = c == 0 ? NULL : strchr(ESCAPES, c);
    at += 2;
    uint32_t code_point = UINT32_MAX;
    if (place != NULL)
      code_point = (uint8_t)MEANT[place - ESCAPES];
    else if (c == 'u')
      code_point = unicode_escape(raw, &at);
    ET_CHECK(code_point != UINT32_MAX, err, ET_INVALID_EXTERNAL_DATA,
             "JSON: expected an escape such as \\n or \\u00e9, got another one");
    end += eti_utf8_write(code_point, to + end);
  }
  const size_t valid = eti_utf8_valid_bytes((eti_string){to, end});
  ET_CHECK(valid == end, err, ET_INVALID_EXTERNAL_DATA,
           "JSON: expected UTF-8 in a string, got byte %d", to[valid]);
  *n = end;
  return ET_OK;
}
