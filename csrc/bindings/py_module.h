// py_module.h — state of one module instance and declarations that the extension's files share.
// Objects keep a pointer to the state: their heap type owns the module, so it outlives them, and
// hot calls need no lookup.
#ifndef ET_PY_MODULE_H
#define ET_PY_MODULE_H

#include "bindings/py_numpy_api.h"
#include "runtime/et.h"

enum { PY_STATUS_SLOTS = 24 };

// torch's types and functions, set once the caller has imported torch; all NULL before. This module
// never imports it.
typedef struct py_torch {
  PyObject *tensor_type;
  PyObject *from_numpy;
  PyObject *dtypes[ET_DTYPE_COUNT];      // torch.float32 … by et_dtype; NULL where torch has none
  const struct py_dlpack_api *exchange;  // its C functions for tensors; NULL without them
} py_torch;

typedef struct py_state {
  PyObject *module;  // borrowed: the state lives in it
  PyTypeObject *memory_type;
  PyTypeObject *program_type;
  PyTypeObject *method_type;
  PyTypeObject *tokenizer_type;
  PyTypeObject *sampler_type;
  PyTypeObject *generation_type;
  PyObject *base_error;
  PyObject *errors[PY_STATUS_SLOTS];  // in the order of ET_STATUS_LIST
  py_torch torch;
  PyObject *ml_dtypes[ET_DTYPE_COUNT];  // dtype objects of the ml_dtypes package, filled when first
                                        // needed
  PyObject *str_dtype, *str_numpy, *str_detach, *str_view, *str_device, *str_type, *str_dlpack,
      *str_array;
  PyObject *str_torch, *str_is_neg;
  struct py_op_library *libraries;  // of users' operators, newest first, see py_op_library.h
  struct et_xnnpack_workspace *xnnpack_workspace;  // of programs that share it, see py_delegates.h
  struct et_xnnpack_weights *xnnpack_weights;
  struct py_domain *domains;  // of packed weights, see py_delegates.c
  struct py_watch *watch;     // Ctrl-C, see py_interrupt.h
  unsigned long main_thread;  // ident of the thread that receives signals
  unsigned fork_generation;   // counts os.fork() in children: thread pools of older programs are
                              // gone there
  bool interrupt_prepared;
} py_state;

extern struct PyModuleDef py_module_def;

extern PyType_Spec py_memory_spec;
extern PyType_Spec py_program_spec;
extern PyType_Spec py_method_spec;
extern PyType_Spec py_tokenizer_spec;
extern PyType_Spec py_sampler_spec;
extern PyType_Spec py_generation_spec;

// Module-level functions that live with their subject.
PyObject *py_open_program(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_kernel_manifest(PyObject *module, PyObject *unused);
PyObject *py_backend_names(PyObject *module, PyObject *unused);
PyObject *py_system_info(PyObject *module, PyObject *unused);
PyObject *py_machine_rates(PyObject *module, PyObject *args);
PyObject *py_filled_bytes(PyObject *module, PyObject *args);
PyObject *py_data_file_bytes(PyObject *module, PyObject *args);
PyObject *py_load_data_file(PyObject *module, PyObject *args);
PyObject *py_prepare_tokenizer(PyObject *module, PyObject *args);
PyObject *py_new_sampler(PyObject *module, PyObject *args);
PyObject *py_new_generation(PyObject *module, PyObject *args);
PyObject *py_open_tokenizer(PyObject *module, PyObject *image);
PyObject *py_optimizer_slots(PyObject *module, PyObject *args);
PyObject *py_optimizer_update(PyObject *module, PyObject *args);
PyObject *py_load_ops(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_loaded_ops(PyObject *module, PyObject *unused);

#endif  // ET_PY_MODULE_H
