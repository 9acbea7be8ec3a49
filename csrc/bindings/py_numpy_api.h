// py_numpy_api.h — the only place that includes NumPy's headers and sets its macros. py_numpy_api.c
// defines PY_IMPORTS_NUMPY and with it the function table; every other file shares that table
// through the unique symbol.
#ifndef ET_PY_NUMPY_API_H
#define ET_PY_NUMPY_API_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL py_numpy_table
#ifndef PY_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif

// Warnings that NumPy's headers do not pass.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <numpy/arrayobject.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

// Fills NumPy's function table at module initialisation. -1 with an exception set.
int py_numpy_import(void);

#endif  // ET_PY_NUMPY_API_H
