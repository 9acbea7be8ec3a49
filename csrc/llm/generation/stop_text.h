// stop_text.h — stop strings in a text that comes in pieces: they may begin in one piece and end in
// another.
#ifndef ET_LLM_STOP_TEXT_H
#define ET_LLM_STOP_TEXT_H

#include "llm/text/text.h"

// The stop strings of a text; empty ones are ignored.
typedef struct eti_stop_strings {
  const char *const *strings;
  size_t n;
} eti_stop_strings;

// Bytes of the longest one.
size_t eti_stop_longest(eti_stop_strings stops);

// The bytes of a text before the first place of a stop string, with *found; else those that no stop
// string can begin in, whatever follows.
size_t eti_stop_safe_bytes(eti_stop_strings stops, eti_string text, bool *found);

#endif  // ET_LLM_STOP_TEXT_H
