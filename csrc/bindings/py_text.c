// py_text.c — see py_text.h. Knows nothing of exceptions.
#include "bindings/py_text.h"

#include <string.h>

static const char ELLIPSIS[] = "\xe2\x80\xa6";
enum {
  LONGEST_NAME = 120,
  HEAD = 60,
  TAIL = 30,
  LONGEST_ESCAPE = 10,  // \U00012345
};

// Writes a character as \x1b, \u202e or \U000e0001; returns the length. A surrogate that stands for
// a byte is that byte.
static size_t put_escape(Py_UCS4 *at, Py_UCS4 c) {
  if (c >= 0xDC80 && c <= 0xDCFF) c -= 0xDC00;
  const size_t digits = c <= 0xFF ? 2 : c <= 0xFFFF ? 4 : 8;
  at[0] = '\\';
  at[1] = digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
  for (size_t i = 0; i < digits; i++) {
    at[2 + i] = (Py_UCS4) "0123456789abcdef"[(c >> (4 * (digits - 1 - i))) & 15];
  }
  return 2 + digits;
}

PyObject *py_text_printable(PyObject *text) {
  const Py_ssize_t n = PyUnicode_GET_LENGTH(text);
  size_t length = 0, n_escapes = 0;
  for (Py_ssize_t i = 0; i < n; i++)
    n_escapes += !Py_UNICODE_ISPRINTABLE(PyUnicode_READ_CHAR(text, i));
  if (n_escapes == 0) return Py_NewRef(text);
  Py_UCS4 *const made = PyMem_Calloc((size_t)n + n_escapes * LONGEST_ESCAPE, sizeof *made);
  if (made == NULL) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) {
    const Py_UCS4 c = PyUnicode_READ_CHAR(text, i);
    if (Py_UNICODE_ISPRINTABLE(c)) {
      made[length++] = c;
    } else {
      length += put_escape(made + length, c);
    }
  }
  PyObject *const result =
      PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, made, (Py_ssize_t)length);
  PyMem_Free(made);
  return result;
}

PyObject *py_text_from_message(const char *message) {
  PyObject *const text =
      PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "surrogateescape");
  PyObject *const result = text == NULL ? NULL : py_text_printable(text);
  Py_XDECREF(text);
  return result;
}

PyObject *py_text_quoted(PyObject *name) {
  const Py_ssize_t n = PyUnicode_GET_LENGTH(name);
  if (n <= LONGEST_NAME) return PyObject_Repr(name);
  PyObject *const head = PyUnicode_Substring(name, 0, HEAD);
  PyObject *const tail = PyUnicode_Substring(name, n - TAIL, n);
  PyObject *const shown =
      head == NULL || tail == NULL
          ? NULL
          : PyUnicode_FromFormat("%U%s (%zd characters) %s%U", head, ELLIPSIS, n, ELLIPSIS, tail);
  PyObject *const result = shown == NULL ? NULL : PyObject_Repr(shown);
  Py_XDECREF(shown);
  Py_XDECREF(tail);
  Py_XDECREF(head);
  return result;
}
