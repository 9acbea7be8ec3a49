// tuned.h — the interface of tuned/: tuned micro-kernels for XNNPACK's operators, and additional
// nodes for XNNPACK's subgraphs. It is the only header of tuned/ that other folders include.
//
// Everything is for x86-64 with AVX2 and FMA, some of it for AVX-512 VNNI or AMX, and for the
// XNNPACK release that get_xnnpack.py builds. Elsewhere tuned_absent.c replaces this folder: every
// `has` is false and the rest does nothing. Knows no payload and no delegate.
#ifndef ET_XNNPACK_TUNED_H
#define ET_XNNPACK_TUNED_H

#include <xnnpack.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- The process

// Replaces kernels in XNNPACK's tables by tuned ones, once. Any thread, after xnn_initialize and
// before the first operator is created.
void eti_xnn_tuned_install(void);

// Names of the functions of XNNPACK that tuned ones replace on this machine: writes at most n of
// them and returns how many there are. Installs; otherwise as above.
size_t eti_xnn_tuned_names(const char **names, size_t n);

// ---- Nodes. Ids are those of values of the subgraph.

// Whether layer norms can be defined. Any thread, after xnn_initialize.
bool eti_xnn_has_layer_norm(void);

// A layer norm of f32 values over the last dimension. weight and bias: constants [n], or
// XNN_INVALID_VALUE_ID; no bias without a weight. eps: a constant [1], added to the variance; it is
// read when the runtime is created.
typedef struct eti_xnn_layer_norm_ids {
  uint32_t input, weight, bias, eps, output;
} eti_xnn_layer_norm_ids;
enum xnn_status eti_xnn_define_layer_norm(xnn_subgraph_t subgraph,
                                          const eti_xnn_layer_norm_ids *ids);

// A lookup table: output[i] = table[input[i]]. input and output are both qint8 or both quint8, of
// one shape. table: a constant [ETI_XNN_LUT_BYTES] of quint8, indexed by the byte of the input; it
// is read when the runtime is created.
enum { ETI_XNN_LUT_BYTES = 256 };
bool eti_xnn_has_lut(void);
enum xnn_status eti_xnn_define_lut(xnn_subgraph_t subgraph, uint32_t input, uint32_t table,
                                   uint32_t output);

// Replaces the functions of the node that was defined last by tuned ones, if it is one of these:
//   softmax          f32, with AVX2 and FMA; XNNPACK passes over the rows three times
//   convolution_2d   int8, of at most 4 channels, where XNNPACK would run its AVX2 kernels, or
//                    tuned ones run on AMX
// The results of a softmax may differ in rounding; int8 results are the same bits.
void eti_xnn_tune_node(xnn_subgraph_t subgraph);

// Whether an f32 product of n_cols columns can add a residual. Installs.
bool eti_xnn_has_gemm_residual(size_t n_cols);
// The last node of the subgraph will add the f32 value `residual`, which has the shape of its
// result. It must be an f32 product with a bias for which eti_xnn_has_gemm_residual is true.
void eti_xnn_add_residual(xnn_subgraph_t subgraph, uint32_t residual);

// ---- A runtime

// The order in which int8 gemm multiplies weights: a list, one entry per packed weights.
typedef struct eti_xnn_q8_schedule eti_xnn_q8_schedule;

// Hook after the creation of a runtime, in a region of alloc_region.h.
void eti_xnn_tuned_after_make(xnn_runtime_t runtime);
// Hook after each reshape of a runtime that will run with n_threads; in a region of
// alloc_region.h. *schedules, NULL at first, grows; it must outlive the runtime.
void eti_xnn_tuned_after_reshape(xnn_runtime_t runtime, size_t n_threads,
                                 eti_xnn_q8_schedule **schedules);
void eti_xnn_tuned_free_schedules(eti_xnn_q8_schedule *schedules);  // NULL allowed

// The name of a runtime's next operator, in the order of XNNPACK's profile, if it is a node of this
// project; else NULL. *at begins with 0 and is advanced.
const char *eti_xnn_tuned_next_name(xnn_runtime_t runtime, size_t *at);

#endif  // ET_XNNPACK_TUNED_H
