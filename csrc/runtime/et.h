// et.h — the whole public C API of the runtime, in reading order:
//   1 status and errors   2 element types   3 tensors   4 values   5 memory
//   6 data sources   7 threads   8 operators   9 backends   10 programs
//   11 methods   12 events   13 hosted helpers
//
// A program (.pte) is opened over bytes that the caller provides, with tables of operators and
// backends that the caller chooses; a method of it is measured, then loaded into memory that the
// caller provides, then run as often as wanted. Nothing here allocates, prints, starts a thread or
// keeps global state. Compiles as C11 and C++17.
#ifndef ET_H
#define ET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ET_VERSION_MAJOR 0
#define ET_VERSION_MINOR 1
#define ET_VERSION_PATCH 0

#if defined(__GNUC__)
#define ET_API __attribute__((visibility("default")))
#else
#define ET_API
#endif
// Marks a type whose values must be used, by every caller of a function that returns one, calls
// through pointers included. gcc has warn_unused_result for functions only, but accepts nodiscard
// (C23, C++17) for types in every mode; ET_EXTENSION silences -Wpedantic about it.
#if defined(__cplusplus) && __cplusplus >= 201703L
#define ET_MUST_USE [[nodiscard]]
#elif defined(__clang__)
#define ET_MUST_USE __attribute__((warn_unused_result))
#elif defined(__GNUC__) && __GNUC__ >= 10 && !defined(__cplusplus)
#define ET_MUST_USE [[nodiscard]]
#else
#define ET_MUST_USE
#endif
#if defined(__GNUC__)
#define ET_EXTENSION __extension__
#else
#define ET_EXTENSION
#endif

// ---- 1 · Status and errors

// X(enumerator, number, name). The numbers and names are upstream's, so a code means the same in
// both runtimes.
#define ET_STATUS_LIST(X)                                              \
  X(ET_OK, 0x00, "Ok")                                                 \
  X(ET_INTERNAL, 0x01, "Internal")                                     \
  X(ET_INVALID_STATE, 0x02, "InvalidState")                            \
  X(ET_END_OF_METHOD, 0x03, "EndOfMethod")                             \
  X(ET_ALREADY_LOADED, 0x04, "AlreadyLoaded")                          \
  X(ET_NOT_SUPPORTED, 0x10, "NotSupported")                            \
  X(ET_NOT_IMPLEMENTED, 0x11, "NotImplemented")                        \
  X(ET_INVALID_ARGUMENT, 0x12, "InvalidArgument")                      \
  X(ET_INVALID_TYPE, 0x13, "InvalidType")                              \
  X(ET_OPERATOR_MISSING, 0x14, "OperatorMissing")                      \
  X(ET_NOT_FOUND, 0x20, "NotFound")                                    \
  X(ET_OUT_OF_MEMORY, 0x21, "MemoryAllocationFailed")                  \
  X(ET_ACCESS_FAILED, 0x22, "AccessFailed")                            \
  X(ET_INVALID_PROGRAM, 0x23, "InvalidProgram")                        \
  X(ET_INVALID_EXTERNAL_DATA, 0x24, "InvalidExternalData")             \
  X(ET_OUT_OF_RESOURCES, 0x25, "OutOfResources")                       \
  X(ET_DELEGATE_INCOMPATIBLE, 0x30, "DelegateInvalidCompatibility")    \
  X(ET_DELEGATE_OUT_OF_MEMORY, 0x31, "DelegateMemoryAllocationFailed") \
  X(ET_DELEGATE_INVALID_HANDLE, 0x32, "DelegateInvalidHandle")         \
  X(ET_INTERRUPTED, 0x40, "Interrupted")

ET_EXTENSION enum ET_MUST_USE et_status {
#define ET_STATUS_ENUM(id, number, name) id = number,
  ET_STATUS_LIST(ET_STATUS_ENUM)
#undef ET_STATUS_ENUM
};
typedef enum et_status et_status;

// "InvalidProgram" for ET_INVALID_PROGRAM; "Unknown" for a number that is not in the list.
ET_API const char *et_status_name(et_status status);

#define ET_ERROR_MESSAGE_BYTES 512

// An error, owned by the caller: the first failure of a call fills it, success leaves it alone.
// Every function that has one accepts NULL. Builds with ET_MESSAGES=0 (config.h) do not write it:
// there the returned status is the whole error, and the names of statuses and dtypes are "?".
typedef struct et_error {
  et_status status;
  char message[ET_ERROR_MESSAGE_BYTES];  // NUL-terminated: "thing: expected X, got Y"
} et_error;

// ---- 2 · Element types

// X(enumerator, ScalarType number of the file format, short name, bytes).
#define ET_DTYPE_LIST(X)          \
  X(ET_U8, 0, "u8", 1)            \
  X(ET_I8, 1, "i8", 1)            \
  X(ET_I16, 2, "i16", 2)          \
  X(ET_I32, 3, "i32", 4)          \
  X(ET_I64, 4, "i64", 8)          \
  X(ET_F16, 5, "f16", 2)          \
  X(ET_F32, 6, "f32", 4)          \
  X(ET_F64, 7, "f64", 8)          \
  X(ET_C32, 8, "c32", 4)          \
  X(ET_C64, 9, "c64", 8)          \
  X(ET_C128, 10, "c128", 16)      \
  X(ET_B8, 11, "b8", 1)           \
  X(ET_QI8, 12, "qi8", 1)         \
  X(ET_QU8, 13, "qu8", 1)         \
  X(ET_QI32, 14, "qi32", 4)       \
  X(ET_BF16, 15, "bf16", 2)       \
  X(ET_QU4X2, 16, "qu4x2", 1)     \
  X(ET_QU2X4, 17, "qu2x4", 1)     \
  X(ET_BITS1X8, 18, "bits1x8", 1) \
  X(ET_BITS2X4, 19, "bits2x4", 1) \
  X(ET_BITS4X2, 20, "bits4x2", 1) \
  X(ET_BITS8, 21, "bits8", 1)     \
  X(ET_BITS16, 22, "bits16", 2)   \
  X(ET_F8E5M2, 23, "f8e5m2", 1)   \
  X(ET_F8E4M3, 24, "f8e4m3", 1)   \
  X(ET_F8E5M2Z, 25, "f8e5m2z", 1) \
  X(ET_F8E4M3Z, 26, "f8e4m3z", 1) \
  X(ET_U16, 27, "u16", 2)         \
  X(ET_U32, 28, "u32", 4)         \
  X(ET_U64, 29, "u64", 8)

typedef enum et_dtype {
#define ET_DTYPE_ENUM(id, number, name, bytes) id = number,
  ET_DTYPE_LIST(ET_DTYPE_ENUM)
#undef ET_DTYPE_ENUM
      ET_DTYPE_COUNT = 30
} et_dtype;

typedef uint32_t et_dtype_set;  // bit d stands for the et_dtype with number d
#define ET_DTYPE_BIT(d) ((et_dtype_set)1 << (d))

ET_API size_t et_dtype_bytes(et_dtype dtype);      // 0 for a number that is no dtype
ET_API const char *et_dtype_name(et_dtype dtype);  // short name; "?" for a number that is no dtype

// ---- 3 · Tensors

#define ET_MAX_RANK 16

enum {
  ET_TENSOR_CONSTANT = 1u << 0,    // data belongs to the file; never written
  ET_TENSOR_DYNAMIC = 1u << 1,     // sizes may change between runs, up to `capacity` elements
  ET_TENSOR_PLANNED = 1u << 2,     // data is in a planned buffer for the method's life
  ET_TENSOR_CONTIGUOUS = 1u << 3,  // dim order is 0, 1, 2, …
  ET_TENSOR_NAMED = 1u << 4,       // has a fully qualified name (an attribute)
};

// A view of a dense strided array. Kernels read every field; `data` may be NULL when numel is 0.
// Strides are in elements, follow from sizes and dim order (innermost 1, a size of 0 counting as 1)
// and are kept up to date by et_tensor_resize, which is the only writer of sizes, strides and numel
// after load.
typedef struct et_tensor {
  void *data;
  int32_t *sizes;            // [rank]
  ptrdiff_t *strides;        // [rank], in elements
  const uint8_t *dim_order;  // [rank], dimension numbers from outermost to innermost
  size_t numel;              // product of sizes
  size_t capacity;           // most elements that `data` can hold
  uint8_t dtype;             // et_dtype
  uint8_t rank;
  uint16_t flags;  // ET_TENSOR_…
} et_tensor;

ET_API size_t et_tensor_bytes(const et_tensor *t);  // numel × element size

// Changes the sizes, keeping rank and dim order, and recomputes strides and numel. ET_NOT_SUPPORTED
// when the rank differs, a static tensor's sizes would change, or the element count exceeds the
// capacity. sizes may alias t->sizes.
ET_API et_status et_tensor_resize(et_tensor *t, const int32_t *sizes, size_t rank, et_error *err);

// ---- 4 · Values

// Tag numbers are upstream's EValue tags.
typedef enum et_tag {
  ET_NONE = 0,
  ET_TENSOR = 1,
  ET_STRING = 2,
  ET_DOUBLE = 3,
  ET_INT = 4,
  ET_BOOL = 5,
  ET_BOOL_LIST = 6,
  ET_DOUBLE_LIST = 7,
  ET_INT_LIST = 8,
  ET_TENSOR_LIST = 9,
  ET_OPTIONAL_TENSOR_LIST = 11,
} et_tag;

// A value: 16 bytes on 64-bit machines. Integer lists hold pointers to Int values, because an
// earlier instruction may compute an element. In an optional tensor list NULL or a None value means
// "absent".
typedef struct et_value et_value;
struct et_value {
  uint8_t tag;    // et_tag
  uint8_t flags;  // private
  uint32_t n;     // strings: bytes without the NUL; lists: elements
  union {
    int64_t i;
    double d;
    bool b;
    et_tensor *tensor;
    const char *string;      // NUL-terminated, in the file
    const uint8_t *bools;    // n bytes, 0 or 1
    const uint8_t *doubles;  // n IEEE binary64, little-endian, unaligned: see et_value_double_at
    et_value *const *list;   // Int lists, tensor lists, optional tensor lists
  } as;
};

// Element i < list->n of a DOUBLE_LIST.
ET_API double et_value_double_at(const et_value *list, size_t i);

// ---- 5 · Memory

// Memory of the caller, borrowed for the life of the object that uses it.
typedef struct et_span {
  void *data;
  size_t size;
} et_span;

// Alignment that every span passed to the runtime should have; a smaller one wastes up to 63 bytes.
#define ET_MEMORY_ALIGN 64

// ---- 6 · Data sources

// Bytes loaded from a source. `data` is aligned to 16 at least.
typedef struct et_blob {
  const void *data;
  size_t size;
  void *token;                     // the source's own, for release
  const struct et_source *source;  // private: the source that loaded it
} et_blob;

// Random access to a file's bytes. load() makes [offset, offset + size) readable until release(),
// at an address that is a multiple of 16. The range is inside the file and size is not 0. load()
// sets data, size and optionally token; on failure it returns a status and fills err if that is not
// NULL. Every successful load is released exactly once. Both are called on the thread that called
// the runtime: on several at once when several threads load methods of one program. A source over
// memory returns pointers into it and releases nothing.
typedef struct et_source {
  void *ctx;
  uint64_t size;
  et_status (*load)(void *ctx, uint64_t offset, size_t size, et_blob *out, et_error *err);
  void (*release)(void *ctx, et_blob *blob);  // may be NULL
} et_source;

// Source over bytes in memory, borrowed. data must be 16-aligned (a mapped file is).
ET_API et_source et_source_from_memory(const void *data, size_t size);

// An opened file of either kind. Fields private.
typedef struct et_file {
  et_source source;
  et_blob head;  // the flatbuffer
  uint64_t segment_base;
  uint64_t segment_bytes;
  const uint8_t *root;
  const struct eti_format *format;
} et_file;

// External named data: one opened .ptd file. Fields private.
typedef struct et_data_map {
  et_file file;
} et_data_map;

// Opens and verifies a .ptd. The source is copied; what its ctx points at must outlive the map, and
// the map every method loaded with it. An open map must not be moved or copied.
// ET_INVALID_EXTERNAL_DATA when it is damaged, ET_INVALID_ARGUMENT when it has less than 64 bytes
// or is not aligned to 16; then there is nothing to close.
ET_API et_status et_data_map_open(et_data_map *map, const et_source *source, et_error *err);
ET_API void et_data_map_close(et_data_map *map);
ET_API size_t et_data_map_count(const et_data_map *map);
ET_API const char *et_data_map_key(const et_data_map *map, size_t i);  // NULL past the end

// ---- 7 · Threads

// A caller's thread pool. run() calls task(ctx, i) once for every i < n, on any threads, and
// returns when all are done.
typedef void (*et_task)(void *ctx, size_t i);
typedef struct et_pool {
  void *ctx;
  size_t n_threads;  // ≥ 1, the calling thread included
  void (*run)(void *ctx, et_task task, void *task_ctx, size_t n);
} et_pool;

// Calls fn(ctx, begin, end) over disjoint ranges that cover [0, n), each of at least `grain` items
// but the last; inline when pool is NULL, has one thread, or n < 2 · grain. Choose the grain by the
// time of an item, so that a range takes some 5 microseconds or more: entering a job and reading
// another core's cache cost that much. 1 if each item does. Results of a kernel must not depend on
// the borders of the ranges.
typedef void (*et_range_fn)(void *ctx, size_t begin, size_t end);
ET_API void et_parallel_for(const et_pool *pool, et_range_fn fn, void *ctx, size_t n, size_t grain);

// ---- 8 · Operators

// State of a method's counter-based random number generator. Each kernel that draws numbers uses
// the next value of `calls`. Resetting both fields repeats a run exactly (et_method_seed), with any
// number of threads.
typedef struct et_random {
  uint64_t seed;
  uint64_t calls;  // draws so far: kernel calls, not numbers
} et_random;

// Context of one kernel call. Its arguments are boxed: the schema's arguments in order, out
// arguments included, then the result again, as in the program file. Their number was checked at
// load.
typedef struct et_kernel_ctx {
  et_error *err;         // NULL allowed
  const et_pool *pool;   // NULL = serial
  void *state;           // what prepare stored for this instruction, or NULL
  void *scratch;         // 64-aligned, contents undefined
  size_t scratch_bytes;  // at least as many as prepare requested
  et_random *random;     // of the method; NULL outside a method
} et_kernel_ctx;

typedef et_status (*et_kernel_fn)(et_kernel_ctx *ctx, et_value *const *args);

// Context of a kernel's prepare step, which runs while the method is measured and again while it is
// loaded. Arguments are complete with three exceptions: tensors without ET_TENSOR_CONSTANT have
// data == NULL, dynamic tensors have their largest sizes, and scalars that an instruction writes
// are None. Pointers into args must not be kept: the objects are temporary (constant data is not).
typedef struct et_prepare_ctx {
  et_error *err;
  size_t n_threads;        // threads of the pool that will run the method
  bool measuring;          // true: count only; et_prepare_alloc returns NULL
  bool is_minimal;         // of et_op.needs_prepare: some arguments are not known before the run.
                           // Unknown values are None, in lists NULL; claim only what run needs
  void *state;             // set to memory from et_prepare_alloc, or left NULL
  size_t scratch_bytes;    // raise to the bytes that run needs in ctx->scratch
  struct et_arena *arena;  // private
  et_status status;        // private
} et_prepare_ctx;

typedef et_status (*et_prepare_fn)(et_prepare_ctx *ctx, et_value *const *args);

// Claims memory that lives as long as the method; align is a power of two ≤ 64. NULL while
// measuring or when memory ran out: then `return et_prepare_status(ctx);`, which is ET_OK in the
// first case and the error in the second. Both calls of prepare must make the same claims in the
// same order.
ET_API void *et_prepare_alloc(et_prepare_ctx *ctx, size_t bytes, size_t align);
ET_API et_status et_prepare_status(const et_prepare_ctx *ctx);

// A call of a loaded method.
typedef struct et_call {
  const struct et_op *op;  // NULL: calls no kernel
  et_value *const *args;   // the same in every run
  void *state;             // what prepare stored for it, or NULL
} et_call;

// Absorption of a follower, such as the relu after a convolution. Called when all calls of a method
// are resolved, with the call in the next instruction. True: each run of `call` now does both, and
// the loop skips `next`; a jump to it still runs it. Events and profiles then name the first call
// only. All tensors of `next` have proven memory; its numbers may still change between runs.
// call->state, which may be NULL, may keep pointers to the arguments of both.
typedef bool (*et_absorb_fn)(const et_call *call, const et_call *next);

// An operator overload. The dtype sets are necessary conditions checked at load: in_dtypes for
// every tensor argument that is only read, out_dtypes for every tensor that is written. run checks
// the finer rules.
typedef struct et_op {
  const char *name;  // "aten::add.out"; without overload "aten::relu"
  et_kernel_fn run;
  et_prepare_fn prepare;  // or NULL
  uint16_t n_args;        // entries of an instruction, the repeated result included
  uint16_t max_rank;      // of any tensor argument; 0 = ET_MAX_RANK
  // Bit i: argument i is written. 0: the argument before the repeated result is, which is the
  // schema's out argument (none when the result is a number).
  uint32_t writes;
  et_dtype_set in_dtypes;
  et_dtype_set out_dtypes;
  // The result owns no memory: its data is that of argument 0. The runtime sets the pointer before
  // run, with the capacity and constness of argument 0 (executorch_prim::et_view).
  bool is_view;
  // A call has no entry for a result: its last entry is the schema's last argument, written only if
  // `writes` says so.
  bool returns_nothing;
  et_absorb_fn absorb;  // or NULL
  // run needs the state: each call is prepared, with whatever is known of its arguments. A method
  // is not loaded when a call's prepare step fails.
  bool needs_prepare;
} et_op;

// Operators sorted by name (strcmp order). `next` links a further table, searched when this one
// lacks a name: put a user's own table first to add or override operators.
typedef struct et_op_table {
  const et_op *ops;
  size_t n_ops;
  const struct et_op_table *next;
} et_op_table;

ET_API const et_op *et_op_find(const et_op_table *table, const char *name);  // NULL when absent

// Every operator this library implements.
extern ET_API const et_op_table et_ops_portable;

// ---- 9 · Backends

typedef struct et_compile_spec {
  const char *key;
  const uint8_t *value;
  size_t value_bytes;
} et_compile_spec;

// Bytes by key for delegates: from the external maps first, then from the program's named data.
// Blobs come from the file's source and must be released, when the delegate is destroyed at the
// latest.
typedef struct et_named_data {
  const void *ctx;  // private
  et_status (*get)(const void *ctx, const char *key, et_blob *out, et_error *err);
  void (*release)(const void *ctx, et_blob *blob);
} et_named_data;

// One delegate while it is measured or loaded. Same memory contract as et_prepare_ctx.
typedef struct et_delegate_init {
  et_prepare_ctx *prepare;
  const char *method_name;
  const uint8_t *payload;  // valid during init only, unless keep_payload is set to true
  size_t payload_bytes;
  size_t n_specs;
  const et_compile_spec *specs;
  const et_named_data *named_data;
  const et_pool *pool;
  bool keep_payload;  // out: true keeps the payload's segment loaded until destroy
  // The table's entry whose init is called. A backend can be the first member of a caller's object,
  // which this pointer then finds.
  const struct et_backend *backend;
} et_delegate_init;

typedef struct et_delegate_call {
  et_error *err;
  const et_pool *pool;
  void *scratch;
  size_t scratch_bytes;
  size_t n_args;
  et_value *const *args;         // the delegate's inputs, then its outputs
  const struct et_hooks *hooks;  // for node events of a traced run; else NULL
} et_delegate_call;

typedef struct et_backend {
  const char *id;              // "XnnpackBackend"
  bool (*is_available)(void);  // NULL = always
  // *handle is prepare memory or memory of the backend.
  et_status (*init)(et_delegate_init *init, void **handle);
  et_status (*execute)(void *handle, const et_delegate_call *call);
  void (*destroy)(void *handle);  // NULL when there is nothing to release
} et_backend;

typedef struct et_backend_table {
  const et_backend *const *backends;
  size_t n_backends;
} et_backend_table;

extern ET_API const et_backend_table et_backends_builtin;

// ---- 10 · Programs

typedef enum et_verification {
  ET_VERIFY_FULL = 0,     // the default: the whole file's structure is proven safe before use
  ET_VERIFY_MINIMAL = 1,  // trusts the file's structure: only for bytes whose integrity is known
} et_verification;

// An opened program: immutable and shareable between threads until closed. Fields private.
typedef struct et_program {
  et_file file;
  et_blob constants;  // the constant segment, when there is one
} et_program;

// Opens a program over a source, which is copied; what its ctx points at must outlive the program.
// An open program must not be moved or copied. On failure there is nothing to close.
// ET_INVALID_PROGRAM when the file is damaged, ET_INVALID_ARGUMENT when it has less than 64 bytes
// or is not aligned to 16, else the status of the source. Each method's plan is verified when it is
// measured or loaded, with either verification.
ET_API et_status et_program_open(et_program *program, const et_source *source,
                                 et_verification verification, et_error *err);
ET_API void et_program_close(et_program *program);  // all its methods must have been closed

ET_API size_t et_program_method_count(const et_program *program);
// Name of method i; NULL past the end.
ET_API const char *et_program_method_name(const et_program *program, size_t i);

typedef struct et_tensor_info {
  et_dtype dtype;
  size_t rank;
  int32_t sizes[ET_MAX_RANK];  // upper bounds where dynamic
  uint8_t dim_order[ET_MAX_RANK];
  size_t bytes;
  bool is_dynamic;
  bool is_planned;   // has memory in the plan: an input is copied, an output cannot be re-pointed
  bool has_data;     // its first values come from the program or its data files
  const char *name;  // fully qualified name of an attribute, else NULL
} et_tensor_info;

typedef struct et_method_info {
  const char *name;
  size_t n_inputs, n_outputs, n_attributes;
  size_t n_values, n_instructions, n_operators, n_delegates;
  size_t n_planned;             // planned buffers that the caller provides
  const char *input_structure;  // pytree description, opaque text; "" when absent
  const char *output_structure;
} et_method_info;

// Facts of a method, read from the file without loading it. ET_INVALID_ARGUMENT for an unknown
// name.
ET_API et_status et_program_method_info(const et_program *program, const char *name,
                                        et_method_info *info, et_error *err);

typedef enum et_slot_kind { ET_SLOT_INPUT, ET_SLOT_OUTPUT, ET_SLOT_ATTRIBUTE } et_slot_kind;

// Tag of the i-th input, output or attribute; also its facts when it is a tensor (info may be
// NULL).
ET_API et_status et_program_slot_info(const et_program *program, const char *name,
                                      et_slot_kind kind, size_t i, et_tag *tag,
                                      et_tensor_info *info, et_error *err);
// Bytes of planned buffer i < n_planned, the size that et_method_load needs. ET_INVALID_ARGUMENT
// past the end.
ET_API et_status et_program_planned_bytes(const et_program *program, const char *name, size_t i,
                                          size_t *bytes, et_error *err);

// Calls visit once per distinct operator (is_delegate false: name is "aten::add.out") and per
// delegate (name is the backend id, bytes its payload) of a method, with the number of instructions
// that call it. ET_NOT_SUPPORTED when there are too many to count (ET_MAX_PLAN_WORK).
typedef void (*et_visit_op)(void *ctx, const char *name, const char *overload, bool is_delegate,
                            size_t n_calls, size_t bytes);
ET_API et_status et_program_visit_operators(const et_program *program, const char *name,
                                            et_visit_op visit, void *ctx, et_error *err);

// ---- 11 · Methods

// Parameters of measuring and loading. Zero-initialise, then fill. The method borrows everything
// until it is closed.
typedef struct et_method_config {
  const et_op_table *ops;
  const et_backend_table *backends;     // NULL = none
  const et_pool *pool;                  // NULL = serial
  const et_data_map *const *data_maps;  // external data; a key may be in only one
  size_t n_data_maps;
  bool no_prepare;  // skip the prepare step of kernels that can run without it (smaller, slower;
                    // for tests)
} et_method_config;

typedef struct et_method_needs {
  size_t method_bytes;   // tables, values, prepared kernel state
  size_t scratch_bytes;  // of all instructions; methods that never run at once may share it
  size_t n_planned;      // planned buffers; sizes from et_program_planned_bytes
} et_method_needs;

// Computes the exact memory needs of loading and keeps nothing. Verifies the method's plan, and
// reports every missing operator and backend at once. With the same config, loading into memory of
// these sizes then fails only for reasons that measuring cannot see: a backend's init that checks
// more once it has memory, a source that fails, external data that is not aligned to its element
// type. ET_INVALID_STATE without data_maps: a tensor is in external data.
ET_API et_status et_method_measure(const et_program *program, const char *name,
                                   const et_method_config *config, et_method_needs *needs,
                                   et_error *err);

typedef struct et_method et_method;

// Memory of a method. The caller must zero planned buffers when the program has mutable buffers
// without saved initial values.
typedef struct et_method_memory {
  et_span method;          // ≥ needs.method_bytes (+63 when the base is not 64-aligned)
  et_span scratch;         // ≥ needs.scratch_bytes, likewise
  const et_span *planned;  // each ≥ its planned bytes, 16-aligned or better
  size_t n_planned;        // ≥ needs.n_planned
} et_method_memory;

// Loads a method into the caller's memory: *method is inside memory->method. On failure *method is
// untouched and nothing is kept. memory and config are read during the call only; the objects they
// point to are borrowed until et_method_close. A method runs on one thread at a time; two methods
// of one program may run at the same time when they share no planned buffer and no scratch. Methods
// with the same planned buffer share its state; loading writes the state saved in the file, so load
// all of them before running one. ET_OUT_OF_MEMORY when a span is too small.
ET_API et_status et_method_load(const et_program *program, const char *name,
                                const et_method_config *config, const et_method_memory *memory,
                                et_method **method, et_error *err);
// Destroys delegates and releases segments; NULL allowed.
ET_API void et_method_close(et_method *method);

// Sets input i. A tensor must have the input's dtype and rank, sizes within its bounds and the
// input's dim order (data is never converted to another layout: ET_INVALID_ARGUMENT). Planned
// inputs are copied, and a run may reuse that memory: set them before each run. Others borrow
// src->data, aligned to the element type, until the next set or close. Int, Bool, String must equal
// the traced value, Double nearly (1e-4 + 1e-5·|v|). ET_NOT_SUPPORTED when rank or sizes do not
// fit, ET_INVALID_STATE during a run; an interrupted run is abandoned.
ET_API et_status et_method_set_input(et_method *method, size_t i, const et_value *src,
                                     et_error *err);
// Sets the memory of an unplanned output: at least capacity × element size bytes, aligned to the
// element type, borrowed until the next call or close. ET_INVALID_STATE when the output is planned,
// and during a run; an interrupted run is abandoned.
ET_API et_status et_method_set_output_data(et_method *method, size_t i, et_span memory,
                                           et_error *err);

ET_API et_value *et_method_input(const et_method *method, size_t i);  // NULL past the end
// Output i, valid until the next run; NULL past the end.
ET_API et_value *et_method_output(const et_method *method, size_t i);
// Attribute of a name; NULL when absent.
ET_API et_tensor *et_method_attribute(const et_method *method, const char *name);

// Runs all instructions. ET_INVALID_ARGUMENT when an input was never set, ET_INVALID_STATE when the
// method runs in another thread, is in the middle of a stepped run, or uses a tensor without
// memory; else what a kernel or delegate returned. After an error the method can be run again.
ET_API et_status et_method_execute(et_method *method, et_error *err);

// Runs one instruction; ET_END_OF_METHOD after the last, then et_method_reset before the next run.
ET_API et_status et_method_step(et_method *method, et_error *err);
ET_API void et_method_reset(et_method *method);

// Restarts the method's random operators: the same seed gives the same numbers in the same order of
// calls, on every machine. A method is loaded with seed 0. Must not be called while it runs.
ET_API void et_method_seed(et_method *method, uint64_t seed);

// ---- 12 · Events

typedef enum et_event_kind { ET_EVENT_BEGIN, ET_EVENT_END, ET_EVENT_NODE } et_event_kind;

// Kinds of instructions. Of an operator's arguments the last one is its result again, unless its
// et_op says otherwise; a delegate's are its inputs and outputs; a move's are from and to.
typedef enum et_instruction_kind {
  ET_INSTRUCTION_NONE,  // of NODE events
  ET_INSTRUCTION_OPERATOR,
  ET_INSTRUCTION_DELEGATE,
  ET_INSTRUCTION_MOVE,
  ET_INSTRUCTION_JUMP,
  ET_INSTRUCTION_FREE,
} et_instruction_kind;

// NODE events come between BEGIN and END of a delegate's call, from backends that measure their
// nodes: one per node, in the order in which they ran, after all of them ran. They have no
// arguments, and their instruction is that of the BEGIN before.
typedef struct et_event {
  et_event_kind kind;
  et_instruction_kind instruction_kind;
  size_t instruction;  // counted through all chains of the method
  // "aten::add.out", a backend id, or "move", "jump", "free". NODE: the backend's name of the node,
  // readable during the event only.
  const char *operator_name;
  size_t n_args;
  et_value *const *args;  // readable in END events: intermediate values
  et_status status;       // END events
  uint64_t ns;            // NODE events: duration
  size_t debug_handle;    // NODE events: of the graph's node, from the payload
} et_event;

// Hooks of a traced run: called before every instruction and, on the same thread, after it, also
// when it failed. A status other than ET_OK stops the run with that status (ET_INTERRUPTED is meant
// for this), unless the instruction itself failed. Runs without hooks cost nothing: tracing is a
// second loop.
typedef struct et_hooks {
  void *ctx;
  et_status (*on_event)(void *ctx, const et_event *event);
} et_hooks;

ET_API et_status et_method_execute_traced(et_method *method, const et_hooks *hooks, et_error *err);

// Makes a running execute or step stop before its next instruction with ET_INTERRUPTED; safe from
// any thread or signal handler while the method is loaded. Ignored when no run is in progress.
ET_API void et_method_interrupt(et_method *method);
// Continues an execute (not a traced one) that ended with ET_INTERRUPTED, at the instruction before
// which it stopped. ET_INVALID_STATE when there is none: any other call that runs or resets the
// method abandons the interrupted run.
ET_API et_status et_method_resume(et_method *method, et_error *err);

// ---- 13 · Hosted helpers (platform_posix.c; absent from bare builds)

typedef struct et_file_map {
  void *data;  // NULL when the file is empty
  size_t size;
  // Device, inode, size and time of the last change (st_ctime, ns): maps with equal ones have the
  // same bytes. All zero if the file changed less than 3 seconds ago, as a second change may then
  // leave the time as it is. Two kinds of changes may not show: writes through a shared mapping
  // that stays open, and those of other machines on a network file system.
  uint64_t identity[4];
} et_file_map;

// Maps a file read-only.
ET_API et_status et_file_map_open(et_file_map *map, const char *path, et_error *err);
ET_API void et_file_map_close(et_file_map *map);

// A small pool of POSIX threads in caller storage. Workers sleep soon after a job, and are woken
// when the time of jobs is worth it. On Linux they are kept off the CPU of the thread that calls
// run(). One run() at a time; a second one, from another thread, is executed inline by its caller.
typedef struct et_thread_pool et_thread_pool;
ET_API size_t et_thread_pool_bytes(size_t n_threads);
// n_threads ≥ 1, the caller counted; memory 64-aligned, et_thread_pool_bytes(n_threads) bytes.
ET_API et_status et_thread_pool_init(et_thread_pool **pool, et_span memory, size_t n_threads,
                                     et_error *err);
ET_API void et_thread_pool_deinit(et_thread_pool *pool);
ET_API et_pool et_thread_pool_handle(et_thread_pool *pool);
// CPUs available to this process by affinity and cgroup quota, at most the largest pool size.
ET_API size_t et_cpu_count(void);
ET_API uint64_t et_clock_ns(void);  // monotonic

#ifdef __cplusplus
}
#endif

#endif  // ET_H
