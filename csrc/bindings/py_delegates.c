// py_delegates.c — see py_delegates.h. A build without XNNPACK shares nothing and uses the
// library's own table.
#include "bindings/py_delegates.h"

#include <string.h>

#include "bindings/py_errors.h"
#include "bindings/py_text.h"

#if defined(ET_HAVE_XNNPACK)

#include "backends/xnnpack/et_xnnpack.h"

enum { MAX_BACKENDS = 16, SHARING_NONE = 0, SHARING_PROGRAM = 1, SHARING_GLOBAL = 2 };

// Open programs from the same files, by et_file_map.identity: the program's, then its data's.
typedef struct py_domain {
  struct py_domain *next;
  size_t n_programs, n_files;
  uint64_t identities[][4];
} py_domain;

typedef struct py_delegates {
  et_xnnpack xnnpack;
  py_domain *domain;                // NULL: the program's bytes are its own
  et_xnnpack_workspace *workspace;  // of the program, or NULL
  et_xnnpack_weights *weights;      // likewise, with a file
  PyObject *path;                   // of the file, as bytes; NULL without one
  bool saves;
  size_t n_damaged;                   // damaged weights of the file that a warning counted
  size_t n_unproven;                  // likewise, weights that are not saved
  char note[ET_ERROR_MESSAGE_BYTES];  // the reason for which the file was not used
  const et_backend *backends[MAX_BACKENDS];
  et_backend_table table;
} py_delegates;

static int warn(const char *message) {
  PyObject *text = py_text_from_message(message);
  const int result = text == NULL ? -1 : PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%U", text);
  Py_XDECREF(text);
  return result;
}

static et_status open_workspace(py_program *program, int sharing, et_error *err) {
  py_delegates *const d = program->delegates;
  et_xnnpack_workspace **const at =
      sharing == SHARING_GLOBAL ? &program->state->xnnpack_workspace : &d->workspace;
  et_status status = ET_OK;
  if (sharing == SHARING_NONE) return ET_OK;
  if (*at == NULL) status = et_xnnpack_workspace_open(at, err);
  d->xnnpack.options.workspace = *at;
  return status;
}

static et_status open_weights(py_program *program, bool shares, et_error *err) {
  py_delegates *const d = program->delegates;
  et_xnnpack_weights **const at = d->path != NULL ? &d->weights : &program->state->xnnpack_weights;
  et_status status = ET_OK;
  if (!shares) return ET_OK;
  if (*at == NULL) {
    const char *const path = d->path == NULL ? NULL : PyBytes_AsString(d->path);
    status = et_xnnpack_weights_open(at, path, err);
    if (status == ET_OK) memcpy(d->note, err->message, sizeof d->note);
  }
  d->xnnpack.options.weights = *at;
  return status;
}

static const py_memory *memory_of(const py_program *program, size_t i_file) {
  return i_file == 0 ? program->memory : program->data[i_file - 1].memory;
}

static bool has_files(const py_domain *domain, const py_program *program) {
  bool is_equal = domain->n_files == 1 + program->n_data;
  for (size_t i = 0; is_equal && i < domain->n_files; i++)
    is_equal = memcmp(domain->identities[i], memory_of(program, i)->map.identity,
                      sizeof domain->identities[i]) == 0;
  return is_equal;
}

// Joins the open programs from the same files, if all of its files have an identity. -1 with an
// exception set.
static int join_domain(py_program *program) {
  static const uint64_t unknown[4];
  const size_t n_files = 1 + program->n_data;
  for (size_t i = 0; i < n_files; i++) {
    const py_memory *const memory = memory_of(program, i);
    if (memory->kind != PY_MEMORY_MAPPED ||
        memcmp(memory->map.identity, unknown, sizeof unknown) == 0)
      return 0;
  }
  py_domain *domain = program->state->domains;
  while (domain != NULL && !has_files(domain, program)) domain = domain->next;
  if (domain == NULL) {
    domain = PyMem_Calloc(1, sizeof *domain + n_files * sizeof *domain->identities);
    if (domain == NULL) {
      PyErr_NoMemory();
      return -1;
    }
    domain->n_files = n_files;
    for (size_t i = 0; i < n_files; i++)
      memcpy(domain->identities[i], memory_of(program, i)->map.identity,
             sizeof domain->identities[i]);
    domain->next = program->state->domains;
    program->state->domains = domain;
  }
  domain->n_programs++;
  program->delegates->domain = domain;
  return 0;
}

static void leave_domain(py_state *state, py_domain *domain) {
  if (domain == NULL || --domain->n_programs > 0) return;
  py_domain **at = &state->domains;
  while (*at != domain) at = &(*at)->next;
  *at = domain->next;
  PyMem_Free(domain);
}

// Discards the pages of constants once their packed copies exist. The calling thread holds the
// program's lock.
static void discard_constants(void *ctx, const void *data, size_t bytes) {
  const py_program *const program = ctx;
  py_memory_discard(program->memory, data, bytes);
  for (size_t i = 0; i < program->n_data; i++)
    py_memory_discard(program->data[i].memory, data, bytes);
}

static void fill_table(py_delegates *d) {
  size_t n = 0;
  for (size_t i = 0; i < et_backends_builtin.n_backends && n < MAX_BACKENDS; i++) {
    const et_backend *const backend = et_backends_builtin.backends[i];
    d->backends[n++] = backend == &et_backend_xnnpack ? &d->xnnpack.backend : backend;
  }
  d->table = (et_backend_table){d->backends, n};
}

int py_delegates_open(py_program *program, PyObject *options) {
  int sharing = SHARING_PROGRAM, shares = 1, saves = 1;
  PyObject *path = Py_None;
  if (options != NULL && options != Py_None &&
      !PyArg_ParseTuple(options, "ipOp:backend options", &sharing, &shares, &path, &saves))
    return -1;
  py_delegates *const d = PyMem_Calloc(1, sizeof *d);
  program->delegates = d;
  if (d == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  d->saves = saves != 0;
  if (path != Py_None && PyUnicode_FSConverter(path, &d->path) == 0) return -1;
  if (join_domain(program) < 0) return -1;
  et_xnnpack_init(&d->xnnpack,
                  &(et_xnnpack_options){
                      .on_spent = discard_constants, .on_spent_ctx = program, .domain = d->domain});
  fill_table(d);
  et_error err = {.status = ET_OK};
  if (open_workspace(program, sharing, &err) != ET_OK ||
      open_weights(program, shares != 0, &err) != ET_OK) {
    py_raise_error(program->state, &err);
    return -1;
  }
  return d->note[0] == '\0' ? 0 : warn(d->note);
}

const et_backend_table *py_delegates_table(const py_program *program) {
  return &program->delegates->table;
}

static int warn_of_damage(py_delegates *d, const char *path) {
  et_xnnpack_facts facts;
  et_xnnpack_weights_facts(d->weights, &facts);
  if (facts.n_damaged == d->n_damaged) return 0;
  d->n_damaged = facts.n_damaged;
  (void)PyOS_snprintf(d->note, sizeof d->note,
                      "packed weights '%.160s': %zu of them are damaged and were packed anew", path,
                      facts.n_damaged);
  return warn(d->note);
}

static int warn_of_unproven(py_delegates *d, const char *path) {
  et_xnnpack_facts facts;
  et_xnnpack_weights_facts(d->weights, &facts);
  if (facts.n_unproven == d->n_unproven) return 0;
  d->n_unproven = facts.n_unproven;
  (void)PyOS_snprintf(d->note, sizeof d->note,
                      "packed weights '%.160s': expected the SHA-256 of a constant's bytes as its "
                      "name, got other names for %zu in the program: these are not saved",
                      path, facts.n_unproven);
  return warn(d->note);
}

int py_delegates_save_weights(py_program *program) {
  py_delegates *const d = program->delegates;
  if (d->weights == NULL || d->path == NULL) return 0;
  et_error err = {.status = ET_OK};
  et_status status;
  const char *const path = PyBytes_AsString(d->path);
  if (warn_of_damage(d, path) < 0) return -1;
  if (!d->saves) return 0;
  if (warn_of_unproven(d, path) < 0) return -1;
  Py_BEGIN_ALLOW_THREADS;
  status = et_xnnpack_weights_save(d->weights, path, &err);
  Py_END_ALLOW_THREADS;
  return status == ET_OK ? 0 : warn(err.message);
}

void py_delegates_close(py_program *program) {
  py_delegates *const d = program->delegates;
  if (d == NULL) return;
  program->delegates = NULL;
  et_xnnpack_workspace_close(d->workspace);
  et_xnnpack_weights_close(d->weights);
  leave_domain(program->state, d->domain);
  Py_XDECREF(d->path);
  PyMem_Free(d);
}

void py_delegates_free(py_state *state) {
  et_xnnpack_workspace_close(state->xnnpack_workspace);
  et_xnnpack_weights_close(state->xnnpack_weights);
  state->xnnpack_workspace = NULL;
  state->xnnpack_weights = NULL;
}

PyObject *py_delegates_facts(PyObject *object, PyObject *unused) {
  (void)unused;
  const py_delegates *const d = ((py_program *)object)->delegates;
  et_xnnpack_facts facts = {.n_weights = 0};
  if (d == NULL || d->xnnpack.options.weights == NULL) return PyDict_New();
  et_xnnpack_weights_facts(d->xnnpack.options.weights, &facts);
  return Py_BuildValue(
      "{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:s}", "weights", (Py_ssize_t)facts.n_weights, "bytes",
      (Py_ssize_t)facts.bytes, "mapped", (Py_ssize_t)facts.n_mapped, "mapped_bytes",
      (Py_ssize_t)facts.mapped_bytes, "packed", (Py_ssize_t)facts.n_packed, "shared",
      (Py_ssize_t)facts.n_shared, "damaged", (Py_ssize_t)facts.n_damaged, "unproven",
      (Py_ssize_t)facts.n_unproven, "repacked", (Py_ssize_t)facts.n_repacked, "note", d->note);
}

#else

int py_delegates_open(py_program *program, PyObject *options) {
  if (options == NULL || options == Py_None) return 0;
  py_raise(program->state, ET_NOT_SUPPORTED,
           "options for XnnpackBackend: this build is without XNNPACK; `executorch_py doctor` says "
           "how to have it");
  return -1;
}

const et_backend_table *py_delegates_table(const py_program *program) {
  (void)program;
  return &et_backends_builtin;
}

int py_delegates_save_weights(py_program *program) {
  (void)program;
  return 0;
}

void py_delegates_close(py_program *program) {
  (void)program;
}

void py_delegates_free(py_state *state) {
  (void)state;
}

PyObject *py_delegates_facts(PyObject *program, PyObject *unused) {
  (void)program;
  (void)unused;
  return PyDict_New();
}

#endif
