// stop_text.c — see stop_text.h. Bytes are compared: a letter of UTF-8 begins at no byte of
// another.
#include "llm/generation/stop_text.h"

size_t eti_stop_longest(eti_stop_strings stops) {
  size_t longest = 0;
  for (size_t i = 0; i < stops.n; i++) {
    const size_t n = strlen(stops.strings[i]);
    if (n > longest) longest = n;
  }
  return longest;
}

// The first place of a string that begins in the text, whole or cut off by the text's end: text.n
// if there is none.
static size_t place_of(eti_string stop, eti_string text) {
  for (size_t at = 0; at < text.n; at++) {
    const size_t left = text.n - at;
    if (memcmp(text.bytes + at, stop.bytes, left < stop.n ? left : stop.n) == 0) return at;
  }
  return text.n;
}

size_t eti_stop_safe_bytes(eti_stop_strings stops, eti_string text, bool *found) {
  size_t safe = text.n, whole = text.n;
  for (size_t i = 0; i < stops.n; i++) {
    const eti_string stop = eti_string_of(stops.strings[i]);
    if (stop.n == 0) continue;
    const size_t at = place_of(stop, text);
    if (at < text.n && text.n - at >= stop.n && at < whole) whole = at;
    if (at < safe) safe = at;
  }
  *found = whole < text.n;
  return *found ? whole : safe;
}
