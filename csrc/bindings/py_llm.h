// py_llm.h — the C objects within the module's types for language models.
#ifndef ET_PY_LLM_H
#define ET_PY_LLM_H

#include "bindings/py_module.h"
#include "llm/et_llm.h"

// The tokenizer of a Tokenizer, borrowed; NULL with an exception set for another object.
const et_tokenizer *py_tokenizer_of(py_state *state, PyObject *object);

// A list of ids, each an int of its own.
PyObject *py_ids_list(const uint32_t *ids, size_t n);
// The ids of a sequence of integers, to be freed with PyMem_RawFree; NULL with an exception set,
// which names the sequence.
uint32_t *py_ids_of(py_state *state, PyObject *sequence, const char *name, size_t *n);

// The sampler of a Sampler and the counts of its text, borrowed; NULL with an exception set for
// another object.
et_sampler *py_sampler_of(py_state *state, PyObject *object, et_token_counts **counts);

// A list of the sample's most probable tokens, (id, log-probability).
PyObject *py_sampler_best(const et_sample *sample);

#endif  // ET_PY_LLM_H
