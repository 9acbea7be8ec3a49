// lut.h — nodes of our own in XNNPACK's graphs that look each byte up. Where a payload makes
// floats of an int8 value, computes with each of them alone and makes int8 of the results, as
// hardswish or gelu of a quantized value do, fuse_lut.c computes the 256 results once, by the very
// kernels of XNNPACK that would have run, and one node takes the place of all: XNNPACK's kernel for
// tables does the rest.
#ifndef ET_XNNPACK_TABLES_H
#define ET_XNNPACK_TABLES_H

#include <stdbool.h>
#include <stdint.h>
#include <xnnpack.h>

enum { ETI_XNN_TABLE_BYTES = 256 };

// Whether this build can define such nodes.
bool eti_xnn_has_tables(void);

// input and output are both qint8 or both quint8, of one shape. The table has the result for each
// byte of the input; it is read when the runtime is made.
enum xnn_status eti_xnn_define_table(xnn_subgraph_t subgraph, uint32_t input, uint32_t output,
                                     const uint8_t *table);

#endif  // ET_XNNPACK_TABLES_H
