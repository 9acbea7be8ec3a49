// pattern.h — regular expressions of tokenizers, compiled to automata that read a text once.
//
// A match is that of a backtracking matcher: it begins at a given place, and of all ways to match
// it is the first one in the order of the alternatives and of the quantifiers. Supported are
// alternatives, groups, classes, quantifiers (greedy, lazy, and possessive ones of one code point)
// and look-around of one code point. The automaton has a state for each ordered list of places in
// the pattern where a backtracking matcher may be, and reads each code point of a match once.
#ifndef ET_LLM_PATTERN_H
#define ET_LLM_PATTERN_H

#include "llm/text/text.h"
#include "runtime/arena.h"
#include "runtime/et.h"

enum {
  ETI_PATTERN_PAGES = ETI_CODE_POINTS / 256,
  ETI_PATTERN_DEAD = 0,          // the state from which nothing matches
  ETI_PATTERN_MATCHED = 0x8000,  // on a transition: a match ends before this code point
};

// The beginning of a compiled pattern; the parts of eti_pattern follow in its order.
typedef struct eti_pattern_header {
  uint32_t n_classes, n_pages, n_states;
} eti_pattern_header;

// A compiled pattern, read where it lies: all parts are in one block of bytes.
typedef struct eti_pattern {
  const uint16_t *page_of;  // [ETI_PATTERN_PAGES]
  const uint8_t *pages;     // [n_pages][256] classes of code points
  const uint16_t *start;    // [n_classes + 1] first state, by the class before the match
  const uint16_t *next;     // [n_states][n_classes + 1]; the last column is the end of the text
  size_t n_classes, n_states;
} eti_pattern;

// Compiles a pattern to at most `out` bytes. `lines`: ^ and $ match at the ends of lines, as in
// Oniguruma; else at the ends of the text. *used is the size of the result, which is aligned to 4.
// ET_INVALID_ARGUMENT for a text that is no pattern, ET_NOT_SUPPORTED for one that needs more than
// this matcher has, both with the place; ET_OUT_OF_MEMORY if `out` or `work` is too small.
et_status eti_pattern_compile(eti_string text, bool lines, et_span out, size_t *used, et_span work,
                              et_error *err);
// Bytes for `work` that suffice for every pattern.
size_t eti_pattern_work_bytes(void);

// Opens a compiled pattern in `bytes`, which are borrowed and may come from a damaged file.
et_status eti_pattern_open(eti_string bytes, eti_pattern *pattern, et_error *err);

// The parts of a compiled pattern that is known to be right.
eti_pattern eti_pattern_parts(const uint8_t *bytes);

static inline size_t eti_pattern_class(const eti_pattern *p, uint32_t code_point) {
  return p->pages[(size_t)p->page_of[code_point >> 8] << 8 | (code_point & 0xFF)];
}

// The end of the match that begins at `from` in a valid text; SIZE_MAX if there is none.
size_t eti_pattern_match(const eti_pattern *pattern, eti_string text, size_t from);

#endif  // ET_LLM_PATTERN_H
