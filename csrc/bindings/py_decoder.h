// py_decoder.h — a Python object as a decoder of llm/et_llm.h: its methods keep(ids), read(ids,
// rows) and rewind(n), and its attributes capacity, longest, most_rows and vocabulary.
#ifndef ET_PY_DECODER_H
#define ET_PY_DECODER_H

#include "bindings/py_llm.h"

typedef struct py_decoder {
  et_llm_decoder decoder;
  PyObject *object;  // strong; NULL: no decoder
  PyObject *logits;  // strong: the array of the last read
} py_decoder;

// Makes the decoder, which stays where it is until py_decoder_clear. -1 with an exception set. Its
// functions return ET_INTERRUPTED with the exception set when a Python method raises; the caller
// has the GIL.
int py_decoder_init(py_decoder *decoder, PyObject *object);
int py_decoder_traverse(const py_decoder *decoder, visitproc visit, void *arg);
void py_decoder_clear(py_decoder *decoder);

#endif  // ET_PY_DECODER_H
