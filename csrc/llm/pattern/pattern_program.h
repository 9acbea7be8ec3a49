// pattern_program.h — a pattern between its text and its automaton: sets of code points, and the
// instructions of a backtracking matcher, which pattern_states.c follows for all texts at once.
#ifndef ET_LLM_PATTERN_PROGRAM_H
#define ET_LLM_PATTERN_PROGRAM_H

#include "llm/pattern/pattern.h"

enum {
  PATTERN_MAX_SETS = 64,  // a bit of eti_pattern_set_bits each
  PATTERN_MAX_ITEMS = 1024,
  PATTERN_MAX_STEPS = 1024,
  PATTERN_MAX_CLASSES = 255,
  PATTERN_MAX_DEPTH = 8,  // of groups; an atom with a quantifier is read three times at each
};

typedef uint64_t eti_pattern_set_bits;

// A part of a set: code points first..last that have one of the categories; bit i stands for
// eti_unicode_category i.
typedef struct eti_set_item {
  uint32_t first, last;
  uint32_t categories;
} eti_set_item;

// A union of items, or all other code points. `folds`: a letter of ASCII is in the set with both
// cases, and U+017F and U+212A as s and k.
typedef struct eti_set {
  uint16_t i_item, n_items;
  bool negated, folds;
} eti_set;

typedef enum eti_step_kind {
  STEP_SET,     // reads a code point of the set, goes on at the next step
  STEP_SPLIT,   // tries x, then y
  STEP_JUMP,    // goes on at x
  STEP_AHEAD,   // goes on if the next code point is in the set; at the end of text, if `at_edge`
  STEP_BEHIND,  // goes on if the one before is in the set; at the beginning of text, if `at_edge`
  STEP_MATCH,
} eti_step_kind;

typedef struct eti_step {
  uint8_t kind;
  uint8_t set;
  bool negated;  // AHEAD and BEHIND: code points outside of the set
  bool at_edge;
  uint16_t x, y;
} eti_step;

typedef struct eti_pattern_program {
  eti_set_item items[PATTERN_MAX_ITEMS];
  eti_set sets[PATTERN_MAX_SETS];
  eti_step steps[PATTERN_MAX_STEPS];
  size_t n_items, n_sets, n_steps;
} eti_pattern_program;

// Classes of code points that no set of the program tells apart, and pages of 256 code points.
typedef struct eti_pattern_classes {
  eti_pattern_set_bits sets_of[PATTERN_MAX_CLASSES];  // the sets that a class is in
  size_t n_classes, n_pages;
  uint16_t page_of[ETI_PATTERN_PAGES];
  uint8_t (*pages)[256];  // room for ETI_PATTERN_PAGES
} eti_pattern_classes;

// Reads the text of a pattern. ET_NOT_SUPPORTED and ET_INVALID_ARGUMENT with the place in the text.
et_status eti_pattern_parse(eti_string text, bool lines, eti_pattern_program *program,
                            et_error *err);
// ET_NOT_SUPPORTED for more than PATTERN_MAX_CLASSES classes.
et_status eti_pattern_classify(const eti_pattern_program *program, eti_pattern_classes *classes,
                               et_error *err);

#endif  // ET_LLM_PATTERN_PROGRAM_H
