// et_xnnpack.h — the XNNPACK delegate with options, beyond the entry of et_backends_builtin: memory
// for intermediate values that delegates share, weights that are packed once for all methods and
// programs, and a file of packed weights.
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
// All functions may be used from several threads at once, except opening and closing.
#ifndef ET_XNNPACK_H
#define ET_XNNPACK_H

#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// The delegate without options: every delegate has a workspace and packed weights of its own.
extern ET_API const et_backend et_backend_xnnpack;

// Memory for intermediate values, as large as the largest need of the delegates that share it.
// Their runs wait for each other.
typedef struct et_xnnpack_workspace et_xnnpack_workspace;
ET_API et_status et_xnnpack_workspace_open(et_xnnpack_workspace **workspace, et_error *err);
// Closes a workspace, after all methods that were loaded with it; NULL allowed.
ET_API void et_xnnpack_workspace_close(et_xnnpack_workspace *workspace);

// Packed weights, by the key of the constant in the program's named data and by everything that
// packing depends on. Methods loaded with one et_xnnpack, or with several of one domain, use the
// weights of a key that one of them has packed. Other methods pack their own and share those with
// equal bytes, because a file may claim any key. Weights stay as long as a method uses them.
typedef struct et_xnnpack_weights et_xnnpack_weights;
// With a path, weights that an earlier et_xnnpack_weights_save wrote there are mapped and used in
// place. The file is a cache: one that is missing, damaged, or written by another XNNPACK or for
// another CPU is ignored and its weights are packed again; note->message (NULL allowed) then has
// the reason, with the status ET_OK. Write access to the file is write access to the results of
// all programs that are loaded with it. The file and its index are verified when it is opened; each
// weights when a run first needs them, before anything reads them. Like a program, the file must
// not change while it is in use.
ET_API et_status et_xnnpack_weights_open(et_xnnpack_weights **weights, const char *path,
                                         et_error *note);
ET_API void et_xnnpack_weights_close(et_xnnpack_weights *weights);  // as above
// Writes all weights in use now whose keys are the SHA-256 hashes of their constants, as exporters
// make them, and those of the file that was opened, to a new file, which then replaces `path`; does
// nothing when the opened file has them all. On ET_ACCESS_FAILED `path` is as before.
// ET_INVALID_STATE: the store was opened without a path and has not compared keys with hashes.
ET_API et_status et_xnnpack_weights_save(et_xnnpack_weights *weights, const char *path,
                                         et_error *err);

typedef struct et_xnnpack_facts {
  size_t n_weights, bytes;        // with a key, in memory or in the file
  size_t n_mapped, mapped_bytes;  // of these, in the file that was opened
  size_t n_packed;                // so far
  size_t n_shared;                // so far: hits
  size_t n_repacked;              // so far, of the hits: found by packing, so that none was saved
  size_t n_damaged;               // so far, of those in the file: packed again
  size_t n_unproven;              // so far, packed under keys that are no hashes: never saved
} et_xnnpack_facts;
ET_API void et_xnnpack_weights_facts(et_xnnpack_weights *weights, et_xnnpack_facts *facts);

typedef struct et_xnnpack_options {
  et_xnnpack_workspace *workspace;  // NULL: each delegate has its own
  et_xnnpack_weights *weights;      // NULL: each delegate has its own
  // Called with ranges of bytes that a load has read and no run will read, because XNNPACK has
  // packed the weights in them: bytes of the program, of its data or of a payload, and padding
  // between them. If these bytes can be read again, as the pages of a mapped file, the caller may
  // free their memory. Their contents must not change, as delegates may be made again. A range may
  // come several times. Called in a load or a run, by its thread, at most a few times per megabyte;
  // must not call the library. NULL: no calls.
  void (*on_spent)(void *ctx, const void *data, size_t bytes);
  void *on_spent_ctx;
  // An address that entries share if their methods have the same bytes under one key, as programs
  // from one file do (et_file_map.identity). NULL: no other entry has them.
  const void *domain;
} et_xnnpack_options;

// An entry for a caller's table of backends, in the caller's storage, which must not move while
// methods are loaded with it. Under one key these methods must have the same bytes, as those of one
// program and its data do: keep an entry for each program that you do not trust. the workspace and
// the weights of the options are borrowed as long. Fields are private but for `backend`. Nothing to
// deinit.
typedef struct et_xnnpack {
  et_backend backend;
  et_xnnpack_options options;
} et_xnnpack;
ET_API void et_xnnpack_init(et_xnnpack *xnnpack, const et_xnnpack_options *options);

// The identity of packed weights: XNNPACK's version and the CPU's features, on which packing
// depends.
#define ET_XNNPACK_IDENTITY_BYTES 256
ET_API void et_xnnpack_identity(char text[ET_XNNPACK_IDENTITY_BYTES]);

#ifdef __cplusplus
}
#endif

#endif  // ET_XNNPACK_H
