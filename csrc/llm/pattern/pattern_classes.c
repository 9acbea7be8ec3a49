// pattern_classes.c — the classes of a pattern: code points that are in the same of its sets.
#include "llm/pattern/pattern_program.h"
#include "llm/text/unicode.h"

#include <string.h>

static bool has_items(const eti_pattern_program *program, const eti_set *set, uint32_t code_point,
                      uint32_t category) {
  const eti_set_item *const items = program->items + set->i_item;
  for (size_t i = 0; i < set->n_items; i++)
    if (code_point - items[i].first <= items[i].last - items[i].first &&
        (items[i].categories >> category & 1) != 0)
      return true;
  return false;
}

// The other code points that are equal without regard to case, where one of them is ASCII.
static bool has_folded(const eti_pattern_program *program, const eti_set *set, uint32_t c) {
  const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
  const uint32_t small = upper ? c + 0x20 : c == 0x17F ? 's' : c == 0x212A ? 'k' : c;
  if (!upper && !lower && small == c) return false;
  return has_items(program, set, small, ETI_UNICODE_Ll) ||
         has_items(program, set, small - 0x20, ETI_UNICODE_Lu) ||
         (small == 's' && has_items(program, set, 0x17F, ETI_UNICODE_Ll)) ||
         (small == 'k' && has_items(program, set, 0x212A, ETI_UNICODE_Lu));
}

static eti_pattern_set_bits sets_of(const eti_pattern_program *program, uint32_t code_point,
                                    uint32_t category) {
  eti_pattern_set_bits bits = 0;
  for (size_t i = 0; i < program->n_sets; i++) {
    const eti_set *const set = &program->sets[i];
    const bool in = has_items(program, set, code_point, category) ||
                    (set->folds && has_folded(program, set, code_point));
    if (in != set->negated) bits |= (eti_pattern_set_bits)1 << i;
  }
  return bits;
}

// The least code point above `from` where a range begins, or behind which one ends, at most
// `limit`.
static uint32_t next_border(const eti_pattern_program *program, uint32_t from, uint32_t limit) {
  if (from < 0x80) return from + 1;
  if (from < 0x17F && limit > 0x17F) limit = 0x17F;
  if (from < 0x212A && limit > 0x212A) limit = 0x212A;
  if (from == 0x17F || from == 0x212A) return from + 1;
  for (size_t i = 0; i < program->n_items; i++) {
    const eti_set_item *const item = &program->items[i];
    if (item->first > from && item->first < limit) limit = item->first;
    if (item->last >= from && item->last + 1 < limit) limit = item->last + 1;
  }
  return limit;
}

static et_status class_of(eti_pattern_classes *classes, eti_pattern_set_bits bits, uint8_t *number,
                          et_error *err) {
  for (size_t i = 0; i < classes->n_classes; i++) {
    if (classes->sets_of[i] != bits) continue;
    *number = (uint8_t)i;
    return ET_OK;
  }
  ET_CHECK(classes->n_classes < PATTERN_MAX_CLASSES, err, ET_NOT_SUPPORTED,
           "pattern: expected at most %d classes of code points, got more", PATTERN_MAX_CLASSES);
  *number = (uint8_t)classes->n_classes;
  classes->sets_of[classes->n_classes++] = bits;
  return ET_OK;
}

// Puts the last page among those before it if it equals one.
static uint16_t page_number(eti_pattern_classes *classes) {
  const uint8_t *const page = classes->pages[classes->n_pages];
  for (size_t i = 0; i < classes->n_pages; i++)
    if (memcmp(classes->pages[i], page, 256) == 0) return (uint16_t)i;
  return (uint16_t)classes->n_pages++;
}

et_status eti_pattern_classify(const eti_pattern_program *program, eti_pattern_classes *classes,
                               et_error *err) {
  classes->n_classes = classes->n_pages = 0;
  uint32_t at = 0, end = 0;
  size_t i_run = 0;
  uint8_t class = 0;
  for (size_t i_page = 0; i_page < ETI_PATTERN_PAGES; i_page++) {
    uint8_t *const page = classes->pages[classes->n_pages];
    const uint32_t page_end = (uint32_t)(i_page + 1) * 256;
    while (at < page_end) {
      if (at == end) {  // a run of code points that no set tells apart ends here
        while (i_run + 1 < eti_n_unicode_runs && eti_unicode_runs[i_run + 1] >> 8 <= at) i_run++;
        const uint32_t limit = i_run + 1 < eti_n_unicode_runs ? eti_unicode_runs[i_run + 1] >> 8
                                                              : (uint32_t)ETI_CODE_POINTS;
        end = next_border(program, at, limit);
        ET_TRY(
            class_of(classes, sets_of(program, at, eti_unicode_runs[i_run] & 0xFF), &class, err));
      }
      const uint32_t stop = end < page_end ? end : page_end;
      memset(page + (at & 0xFF), class, stop - at);
      at = stop;
    }
    classes->page_of[i_page] = page_number(classes);
  }
  return ET_OK;
}
