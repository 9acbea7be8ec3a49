// xnn_status.c — maps XNNPACK's status codes to et_status: see xnn_status.h.
#include "backends/xnnpack/xnn_status.h"

#include "runtime/check.h"

et_status eti_xnn_check(enum xnn_status status, et_error *err, const char *what) {
  switch (status) {
    case xnn_status_success:
      return ET_OK;
    case xnn_status_uninitialized:
      return ET_FAIL(err, ET_INVALID_STATE, "%s: XNNPACK is not initialised", what);
    case xnn_status_invalid_parameter:
      return ET_FAIL(err, ET_INVALID_PROGRAM, "%s: XNNPACK refuses a parameter as invalid", what);
    case xnn_status_invalid_state:
      return ET_FAIL(err, ET_INVALID_STATE, "%s: XNNPACK is in the wrong state", what);
    case xnn_status_unsupported_parameter:
      return ET_FAIL(err, ET_NOT_SUPPORTED, "%s: the linked XNNPACK does not support a parameter",
                     what);
    case xnn_status_unsupported_hardware:
      return ET_FAIL(err, ET_NOT_SUPPORTED, "%s: XNNPACK has no kernels for this processor", what);
    case xnn_status_out_of_memory:
      return ET_FAIL(err, ET_DELEGATE_OUT_OF_MEMORY, "%s: out of memory", what);
    default:
      return ET_FAIL(err, ET_INTERNAL, "%s: XNNPACK returned status %d", what, (int)status);
  }
}
