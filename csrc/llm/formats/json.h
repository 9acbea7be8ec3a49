// json.h — reads JSON (RFC 8259) where it lies, value by value. Nothing is kept: the caller walks
// objects and arrays, and skips what it does not need.
//
//   ET_TRY(eti_json_begin(&json, '{'));
//   while (eti_json_next(&json, '}', &status)) {
//     eti_string key;
//     ET_TRY(eti_json_key(&json, &key));
//     …
//   }
//   ET_TRY(status);
#ifndef ET_LLM_JSON_H
#define ET_LLM_JSON_H

#include "llm/text/text.h"
#include "runtime/et.h"

typedef struct eti_json {
  const char *name;  // of the file, for messages
  eti_string text;
  size_t at;
  bool first;  // the next item is the first one of its object or array
  int depth;
  et_error *err;
} eti_json;

enum { ETI_JSON_MAX_DEPTH = 64 };

// A reader of a text, which is borrowed. UTF-8 is checked where strings are unescaped.
eti_json eti_json_over(eti_string text, const char *name, et_error *err);

// The first character of the next value: one of { [ " t f n - 0…9; 0 at the end of the text.
char eti_json_peek(eti_json *json);

// Reads '{' or '['.
et_status eti_json_begin(eti_json *json, char open);
// True before each item; false behind the last one, whose '}' or ']' is then read, and after an
// error, which is then in *status.
bool eti_json_next(eti_json *json, char close, et_status *status);
// The key of an item of an object, and its ':'.
et_status eti_json_key(eti_json *json, eti_string *key);

// A string between its quotes, still escaped.
et_status eti_json_string(eti_json *json, eti_string *raw);
et_status eti_json_integer(eti_json *json, int64_t *value);  // ET_INVALID_… for fractions
et_status eti_json_number(eti_json *json, double *value);
et_status eti_json_bool(eti_json *json, bool *value);
bool eti_json_null(eti_json *json);  // reads null if it is the next value
// Skips a value; *skipped, which may be NULL, is its text.
et_status eti_json_skip(eti_json *json, eti_string *skipped);

// Whether a raw string is a word of ASCII without escapes.
bool eti_json_is(eti_string raw, const char *word);

// Writes the bytes of a raw string to `to`, which has room for raw.n, and sets *n. Surrogates
// that stand alone become U+FFFD. ET_INVALID_EXTERNAL_DATA for bad escapes and bytes.
et_status eti_json_unescape(eti_string raw, uint8_t *to, size_t *n, et_error *err);

#endif  // ET_LLM_JSON_H
