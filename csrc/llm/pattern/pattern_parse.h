// pattern_parse.h — the state of reading a pattern, and its sets (pattern_sets.c).
#ifndef ET_LLM_PATTERN_PARSE_H
#define ET_LLM_PATTERN_PARSE_H

#include "llm/pattern/pattern_program.h"

typedef struct eti_pattern_parser {
  eti_string text;
  size_t at;
  bool lines, folds;
  int depth;
  eti_pattern_program *program;
  et_error *err;
} eti_pattern_parser;

// Skips an ASCII word if the rest of the pattern begins with it.
bool eti_pattern_skip(eti_pattern_parser *p, const char *word);

// Reads a class, an escape or a literal code point; *set is its number. Equal sets have one number.
et_status eti_pattern_read_set(eti_pattern_parser *p, uint8_t *set);

et_status eti_pattern_empty_set(eti_pattern_parser *p, uint8_t *set);
et_status eti_pattern_line_feed_set(eti_pattern_parser *p, uint8_t *set);
et_status eti_pattern_word_set(eti_pattern_parser *p, uint8_t *set);

#endif  // ET_LLM_PATTERN_PARSE_H
