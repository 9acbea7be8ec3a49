// check_xnnpack.c — a program that links only with an XNNPACK that csrc/backends/xnnpack can use:
// it has the interface of late 2024 and calls no functions of pthreadpool but those of
// pthreadpool_shim.c. xnnpack.cmake links it.
#include <pthreadpool.h>
#include <xnnpack.h>

typedef void (*function)(void);

int main(int argc, char **argv) {
  const function needed[] = {
      (function)xnn_create_runtime_v4,
      (function)xnn_reshape_runtime,
      (function)xnn_define_unary,
      (function)xnn_define_binary,
      (function)xnn_define_static_reduce_v2,
      (function)xnn_define_batch_matrix_multiply,
      (function)xnn_initialize,
  };
  return argv[0] == NULL || needed[(unsigned)argc % (sizeof needed / sizeof needed[0])] == NULL;
}
