// py_text.h — names from files in messages: characters that a terminal may obey (controls, marks of
// direction, separators of lines, bytes that are not UTF-8) are escaped, and long names shortened.
// Python's repr() escapes the same characters; executorch_py/terminal_text.py is the counterpart.
#ifndef ET_PY_TEXT_H
#define ET_PY_TEXT_H

#include "bindings/py_module.h"

// The text with escapes such as \x1b in place of all that is not printable. A new reference.
PyObject *py_text_printable(PyObject *text) __attribute__((cold));

// Bytes of a message, which need not be UTF-8, as such a text.
PyObject *py_text_from_message(const char *message) __attribute__((cold));

// repr() of a name; the middle of a long one is replaced by its length. A new reference.
PyObject *py_text_quoted(PyObject *name) __attribute__((cold));

#endif  // ET_PY_TEXT_H
