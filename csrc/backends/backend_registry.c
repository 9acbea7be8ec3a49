// backend_registry.c — expands backends.inc.h into declarations and the const table
// et_backends_builtin.
#include "runtime/et.h"

#define ET_BACKEND(name) extern const et_backend name;
#include "backends/backends.inc.h"
#undef ET_BACKEND

#define ET_BACKEND(name) &name,
static const et_backend *const backends[] = {
#include "backends/backends.inc.h"
};
#undef ET_BACKEND

const et_backend_table et_backends_builtin = {
    .backends = backends,
    .n_backends = sizeof backends / sizeof backends[0],
};
