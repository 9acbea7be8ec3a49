// normalize.h — the normal forms of Unicode.
//
// Relies on valid UTF-8 and on the tables of unicode.h. The time is linear in the text, however
// many combining marks follow each other.
#ifndef ET_LLM_NORMALIZE_H
#define ET_LLM_NORMALIZE_H

#include "llm/text/text.h"
#include "runtime/et.h"

typedef enum eti_normal_form { ETI_NFC, ETI_NFD, ETI_NFKC, ETI_NFKD } eti_normal_form;

// Bytes of `out` and of `scratch` that suffice for every text of n bytes: U+1D160 of 4 bytes has a
// canonical decomposition of 12, U+FDFA of 3 bytes has a compatible one of 33. The scratch memory
// holds code points that wait for their order; U+0344 of 2 bytes has two.
static inline size_t eti_normalize_bytes(eti_normal_form form, size_t n) {
  return form == ETI_NFKC || form == ETI_NFKD ? 11 * n : 3 * n;
}
static inline size_t eti_normalize_scratch_bytes(size_t n) {
  return 4 * n + 4;
}

// True if the text has a form, by its code points alone; false for some texts that have it too,
// such as those with combining marks.
bool eti_normalize_is_identity(eti_normal_form form, eti_string in);

// Writes a text in a form. `scratch` is aligned to 4. ET_OUT_OF_MEMORY if `out` or `scratch` is
// smaller than the functions above say.
et_status eti_normalize(eti_normal_form form, eti_string in, et_span out, size_t *n_out,
                        et_span scratch, et_error *err);

#endif  // ET_LLM_NORMALIZE_H
