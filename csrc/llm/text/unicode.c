#include "llm/text/unicode.h"

#include "unicode_tables.inc.h"

#include <string.h>

eti_unicode_category eti_unicode_category_of(uint32_t code_point) {
  size_t first = 0, end = eti_n_unicode_runs;  // the run is in [first, end)
  while (end - first > 1) {
    const size_t middle = first + (end - first) / 2;
    if (eti_unicode_runs[middle] >> 8 <= code_point)
      first = middle;
    else
      end = middle;
  }
  return (eti_unicode_category)(eti_unicode_runs[first] & 0xFF);
}

bool eti_unicode_is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// ASCII bytes at the beginning.
static size_t ascii_bytes(const uint8_t *p, size_t n) {
  size_t i = 0;
  for (uint64_t eight; n - i >= sizeof eight; i += sizeof eight) {
    memcpy(&eight, p + i, sizeof eight);
    if ((eight & 0x8080808080808080u) != 0) break;
  }
  while (i < n && p[i] < 0x80) i++;
  return i;
}

size_t eti_unicode_find(eti_string text, size_t at, unsigned flags) {
  while (at < text.n) {
    const uint8_t *const p = text.bytes + at;
    if (p[0] < 0x80) {
      at += ascii_bytes(p, text.n - at);
      continue;
    }
    if (eti_unicode_flags_of(eti_utf8_at(p), flags) != 0) return at;
    at += eti_utf8_bytes(p[0]);
  }
  return at;
}

size_t eti_unicode_map(const eti_unicode_mapping *mapping, uint32_t c, const uint32_t **to) {
  const size_t page = c >> ETI_UNICODE_PAGE_BITS;
  size_t first = mapping->page_begins[page];
  // The key is one of n from `first`. The loop has no branches that depend on it.
  for (size_t n = mapping->page_begins[page + 1] - first; n > 1; n -= n / 2)
    first += mapping->keys[first + n / 2] <= c ? n / 2 : 0;
  *to = mapping->values + mapping->begins[first];
  return (size_t)(mapping->begins[first + 1] - mapping->begins[first]);
}

uint32_t eti_unicode_compose(uint32_t first, uint32_t second) {
  const uint32_t l = first - ETI_HANGUL_L, v = second - ETI_HANGUL_V;
  if (l < ETI_HANGUL_N_L && v < ETI_HANGUL_N_V)
    return ETI_HANGUL_S + (l * ETI_HANGUL_N_V + v) * ETI_HANGUL_N_T;
  const uint32_t s = first - ETI_HANGUL_S, t = second - ETI_HANGUL_T;
  if (s < ETI_HANGUL_N_S && s % ETI_HANGUL_N_T == 0 && t - 1 < ETI_HANGUL_N_T - 1) return first + t;
  const uint64_t wanted = (uint64_t)first << 32 | second;
  const eti_unicode_composition *pair = eti_unicode_compositions;
  for (size_t n = eti_n_unicode_compositions; n > 1; n -= n / 2)
    pair += ((uint64_t)pair[n / 2].first << 32 | pair[n / 2].second) <= wanted ? n / 2 : 0;
  return pair->first == first && pair->second == second ? pair->composite : 0;
}
