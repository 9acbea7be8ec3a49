// pattern_match.c — opening a compiled pattern, and matching.
#include "llm/pattern/pattern.h"
#include "runtime/bytes.h"

// Bytes of a compiled pattern without the zeros at its end; false on overflow.
static bool parts_bytes(const eti_pattern_header *h, size_t *bytes) {
  const size_t columns = (size_t)h->n_classes + 1;
  size_t pages, rows;
  return eti_mul(h->n_pages, 256, &pages) && eti_mul(h->n_states, columns * 2, &rows) &&
         eti_add(pages, rows, bytes) &&
         eti_add(*bytes, sizeof *h + ETI_PATTERN_PAGES * sizeof(uint16_t) + columns * 2, bytes);
}

static bool all_below(const uint16_t *values, size_t n, uint16_t mask, size_t limit) {
  uint16_t greatest = 0;
  for (size_t i = 0; i < n; i++) {
    const uint16_t value = values[i] & mask;
    if (value > greatest) greatest = value;
  }
  return greatest < limit;
}

eti_pattern eti_pattern_parts(const uint8_t *bytes) {
  eti_pattern_header h;
  memcpy(&h, bytes, sizeof h);
  eti_pattern p = {.n_classes = h.n_classes, .n_states = h.n_states};
  p.page_of = (const void *)(bytes + sizeof h);
  p.pages = bytes + sizeof h + ETI_PATTERN_PAGES * sizeof p.page_of[0];
  p.start = (const void *)(p.pages + (size_t)h.n_pages * 256);
  p.next = p.start + h.n_classes + 1;
  return p;
}

et_status eti_pattern_open(eti_string bytes, eti_pattern *pattern, et_error *err) {
  eti_pattern_header h;
  ET_CHECK(bytes.n >= sizeof h && eti_is_aligned(bytes.bytes, _Alignof(uint32_t)), err,
           ET_INVALID_EXTERNAL_DATA,
           "pattern: expected a header of %zu bytes, aligned to 4, got %zu bytes", sizeof h,
           bytes.n);
  memcpy(&h, bytes.bytes, sizeof h);
  size_t size = 0;
  ET_CHECK(h.n_classes >= 1 && h.n_classes <= 255 && h.n_pages >= 1 && h.n_states >= 1 &&
               h.n_states <= ETI_PATTERN_MATCHED && parts_bytes(&h, &size) && size <= bytes.n,
           err, ET_INVALID_EXTERNAL_DATA,
           "pattern: expected %u classes, %u pages and %u states in %zu bytes, got less",
           h.n_classes, h.n_pages, h.n_states, bytes.n);
  const size_t columns = h.n_classes + 1;
  const eti_pattern p = eti_pattern_parts(bytes.bytes);
  uint8_t greatest = 0;
  for (size_t i = 0; i < (size_t)h.n_pages * 256; i++)
    if (p.pages[i] > greatest) greatest = p.pages[i];
  ET_CHECK(greatest < h.n_classes &&
               all_below(p.page_of, ETI_PATTERN_PAGES, UINT16_MAX, h.n_pages) &&
               all_below(p.start, columns, UINT16_MAX, h.n_states) &&
               all_below(p.next, h.n_states * columns, ETI_PATTERN_MATCHED - 1, h.n_states),
           err, ET_INVALID_EXTERNAL_DATA,
           "pattern: expected classes, pages and states below %u, %u and %u, got a greater one",
           h.n_classes, h.n_pages, h.n_states);
  *pattern = p;
  return ET_OK;
}

// The class of the code point that ends before `at`; n_classes at the beginning of the text.
static size_t class_before(const eti_pattern *p, eti_string text, size_t at) {
  if (at == 0) return p->n_classes;
  size_t first = at - 1;
  while (first > 0 && (text.bytes[first] & 0xC0) == 0x80) first--;
  return eti_pattern_class(p, eti_utf8_at(text.bytes + first));
}

size_t eti_pattern_match(const eti_pattern *pattern, eti_string text, size_t from) {
  const eti_pattern p = *pattern;
  const size_t columns = p.n_classes + 1;
  const uint8_t *const ascii = p.pages + ((size_t)p.page_of[0] << 8);
  size_t state = p.start[class_before(&p, text, from)], last = SIZE_MAX, at = from;
  for (;;) {
    size_t class = p.n_classes, n = 1;
    if (at < text.n) {
      const uint8_t first = text.bytes[at];
      class = ascii[first & 0x7F];
      if (first >= 0x80) {
        class = eti_pattern_class(&p, eti_utf8_at(text.bytes + at));
        n = eti_utf8_bytes(first);
      }
    }
    const uint16_t next = p.next[state * columns + class];
    if ((next & ETI_PATTERN_MATCHED) != 0) last = at;
    state = next & (ETI_PATTERN_MATCHED - 1);
    if (state == ETI_PATTERN_DEAD || at >= text.n) return last;
    at += n;
  }
}
