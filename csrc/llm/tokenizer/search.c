#include "llm/tokenizer/search.h"

eti_search eti_search_of(const eti_image_header *header, const eti_step_record *step) {
  const uint8_t *const base = (const uint8_t *)header;
  eti_search search = {.has_pattern = step->pattern_bytes > 0,
                       .text = {base + step->text, step->text_bytes}};
  if (search.has_pattern) search.pattern = eti_pattern_parts(base + step->pattern);
  return search;
}

static bool next_text(eti_string in, eti_string wanted, size_t from, size_t *begin, size_t *end) {
  while (wanted.n > 0 && in.n - from >= wanted.n) {
    const uint8_t *const at = memchr(in.bytes + from, wanted.bytes[0], in.n - from - wanted.n + 1);
    if (at == NULL) return false;
    *begin = (size_t)(at - in.bytes);
    *end = *begin + wanted.n;
    if (memcmp(at, wanted.bytes, wanted.n) == 0) return true;
    from = *begin + 1;
  }
  return false;
}

bool eti_search_next(const eti_search *search, eti_string in, size_t from, size_t *begin,
                     size_t *end) {
  if (!search->has_pattern) return next_text(in, search->text, from, begin, end);
  for (; from < in.n; from += eti_utf8_bytes(in.bytes[from])) {
    *begin = from;
    *end = eti_pattern_match(&search->pattern, in, from);
    if (*end != SIZE_MAX && *end > from) return true;
  }
  return false;
}
