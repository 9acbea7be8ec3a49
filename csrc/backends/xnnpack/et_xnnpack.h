// et_xnnpack.h — the XNNPACK delegate, for programs that want more of it than the entry of
// et_backends_builtin gives: delegates that share memory for intermediate values, weights that are
// packed once for all methods and programs, a file that keeps them packed.
//
//   et_xnnpack_weights *weights;                     // shared by everything loaded below
//   et_xnnpack_weights_open(&weights, "model.packed", &err);
//   et_xnnpack_workspace *workspace;
//   et_xnnpack_workspace_open(&workspace, &err);
//   et_xnnpack xnnpack;
//   et_xnnpack_init(&xnnpack, &(et_xnnpack_options){.weights = weights, .workspace = workspace});
//   const et_backend *const backends[] = {&xnnpack.backend};
//   … load methods with a table of these backends, then:
//   et_xnnpack_weights_save(weights, "model.packed", &err);
//   … close the methods first, then:
//   et_xnnpack_workspace_close(workspace);
//   et_xnnpack_weights_close(weights);
//
// Everything here may be used from several threads at once, opening and closing apart.
#ifndef ET_XNNPACK_H
#define ET_XNNPACK_H

#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// The delegate with nothing shared: every delegate has a workspace and packed weights of its own.
extern ET_API const et_backend et_backend_xnnpack;

// Memory for intermediate values, as large as the neediest of the delegates that share it. Runs of
// these delegates take turns.
typedef struct et_xnnpack_workspace et_xnnpack_workspace;
ET_API et_status et_xnnpack_workspace_open(et_xnnpack_workspace **workspace, et_error *err);
// When all methods that were loaded with it are closed; NULL allowed.
ET_API void et_xnnpack_workspace_close(et_xnnpack_workspace *workspace);

// Packed weights, found by what they are: the key of the constant in the program's named data,
// which derives from its contents, and all that packing depends on. Programs that share them trust
// each other's keys. Weights stay as long as a method uses them.
typedef struct et_xnnpack_weights et_xnnpack_weights;
// With a path, weights that an earlier et_xnnpack_weights_save put there are mapped and used in
// place. The file is a cache: one that is missing, damaged, or made by another XNNPACK or for
// another CPU is left alone and its weights are packed anew; *note (NULL allowed) then says why, in
// `message`, with the status ET_OK. That is known of the file and its index when it is opened; of
// each weights when a run first needs them, before anything reads them. Like a program, it comes
// from a place that is trusted not to change while it is in use.
ET_API et_status et_xnnpack_weights_open(et_xnnpack_weights **weights, const char *path,
                                         et_error *note);
ET_API void et_xnnpack_weights_close(et_xnnpack_weights *weights);  // as above
// Writes all named weights that are in use now, and those of the file that was opened, to a new
// file that then takes the place of `path`; does nothing when the opened file has them all.
// ET_ACCESS_FAILED when that is not possible; then `path` is as before.
ET_API et_status et_xnnpack_weights_save(et_xnnpack_weights *weights, const char *path,
                                         et_error *err);

typedef struct et_xnnpack_facts {
  size_t n_weights, bytes;        // named, in memory or in the file
  size_t n_mapped, mapped_bytes;  // of these, in the file that was opened
  size_t n_packed;                // so far
  size_t n_shared;                // so far: how often packing was spared
  size_t n_damaged;               // so far, of those in the file: packed anew instead
} et_xnnpack_facts;
ET_API void et_xnnpack_weights_facts(et_xnnpack_weights *weights, et_xnnpack_facts *facts);

typedef struct et_xnnpack_options {
  et_xnnpack_workspace *workspace;  // NULL: each delegate has its own
  et_xnnpack_weights *weights;      // NULL: likewise
  // Told of bytes that a load has read and no run will read, because XNNPACK has packed the weights
  // that lay there: bytes of the program, of its data or of a payload, and padding between them. A
  // caller whose bytes come back by themselves, as the pages of a mapped file do, may let go of
  // their memory; they must still be what they were, for delegates that are made anew. Each range
  // may come several times. Called in a load or a run, by the thread that is in it, a few times for
  // each megabyte at most; must not call the library. NULL: nobody wants to know.
  void (*on_spent)(void *ctx, const void *data, size_t bytes);
  void *on_spent_ctx;
} et_xnnpack_options;

// An entry for a caller's table of backends. In the caller's storage, which must not move while
// methods are loaded with it; what the options name is borrowed as long. Fields private but
// `backend`. Nothing to deinit.
typedef struct et_xnnpack {
  et_backend backend;
  et_xnnpack_options options;
} et_xnnpack;
ET_API void et_xnnpack_init(et_xnnpack *xnnpack, const et_xnnpack_options *options);

// What packed weights depend on beside themselves: XNNPACK's version and the CPU's features.
#define ET_XNNPACK_IDENTITY_BYTES 256
ET_API void et_xnnpack_identity(char text[ET_XNNPACK_IDENTITY_BYTES]);

#ifdef __cplusplus
}
#endif

#endif  // ET_XNNPACK_H
