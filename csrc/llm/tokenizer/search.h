// search.h — the text or the pattern of a step, searched in a text.
#ifndef ET_LLM_SEARCH_H
#define ET_LLM_SEARCH_H

#include "llm/pattern/pattern.h"
#include "llm/tokenizer/image.h"

typedef struct eti_search {
  bool has_pattern;
  eti_pattern pattern;
  eti_string text;
} eti_search;

eti_search eti_search_of(const eti_image_header *header, const eti_step_record *step);

// The next match at or behind `from`, of one byte or more; false if there is none.
bool eti_search_next(const eti_search *search, eti_string in, size_t from, size_t *begin,
                     size_t *end);

#endif  // ET_LLM_SEARCH_H
