// xnn_status.h — maps XNNPACK's status codes to et_status, with a message. Knows nothing of graphs.
#ifndef ET_XNNPACK_STATUS_H
#define ET_XNNPACK_STATUS_H

#include <xnnpack.h>

#include "runtime/et.h"

// ET_OK for xnn_status_success. Otherwise the corresponding et_status, with a message that begins
// with `what`, the step that failed: "reshaping".
et_status eti_xnn_check(enum xnn_status status, et_error *err, const char *what);

#endif  // ET_XNNPACK_STATUS_H
