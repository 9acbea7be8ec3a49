// et_run.c — runs a program from the command line; USAGE below is its manual. Inputs are raw
// little-endian bytes in the planned dim order; inputs without an option are ones. Outputs are
// printed, and written as PREFIX0.bin, PREFIX1.bin … when a prefix is given. Also the longest
// example of the C API: unlike the library it uses stdio and malloc.
#define _XOPEN_SOURCE 700  // declares mkstemp, fchmod and realpath

#include "runtime/et.h"
#include "runtime/half.h"
#include "runtime/signature/et_names.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LIST 64

static const char USAGE[] =
    "et_run model.pte [--method M] [--data X.ptd]... [--threads N] [--repeat N]\n"
    "                 [--input I=FILE|ones|zeros|random]... [--shape I=2x3x4]...\n"
    "                 [--output PREFIX] [--print none|summary|all]\n";

typedef enum print_mode { PRINT_NONE, PRINT_SUMMARY, PRINT_ALL } print_mode;

typedef struct options {
  const char *model, *method, *output;
  const char *data[MAX_LIST], *inputs[MAX_LIST], *shapes[MAX_LIST];
  size_t n_data, n_threads, n_repeat;
  print_mode print;
} options;

// The value of an input, set before every run: a method may overwrite planned inputs.
typedef struct given_input {
  et_tensor_info info;
  ptrdiff_t strides[ET_MAX_RANK];
  et_tensor tensor;
  et_value value;
} given_input;

// The program, the method and all memory of a run; closed at the end of main.
typedef struct session {
  et_error err;
  et_file_map model_map, data_maps[MAX_LIST];
  et_data_map data[MAX_LIST];
  const et_data_map *data_list[MAX_LIST];
  et_program program;
  et_method *method;
  et_thread_pool *pool;
  et_pool pool_handle;
  et_method_info info;
  given_input *inputs;
  void *blocks[4 * MAX_LIST];  // freed last
  size_t n_blocks;
} session;

// ---- Text of the file, which may hold anything

// The bytes of the UTF-8 character at `at`, stored in *c; 0 if there is none.
static size_t read_character(const char *at, uint32_t *c) {
  const uint8_t *const b = (const uint8_t *)at;
  const size_t n = b[0] < 0x80 ? 1 : b[0] < 0xC2 ? 0 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
  *c = n <= 1 ? b[0] : b[0] & (0x7Fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((b[i] & 0xC0) != 0x80) return 0;
    *c = *c << 6 | (b[i] & 0x3F);
  }
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = *c >= 0xD800 && *c <= 0xDFFF;
  return *c < smallest[n] || *c > 0x10FFFF || is_surrogate ? 0 : n;
}

// Controls, marks of direction and separators of lines: characters that a terminal may obey.
static bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

static void print_escaped(FILE *to, const char *text, const char *end) {
  uint32_t c;
  while (text < end) {
    const size_t n = read_character(text, &c);
    if (n == 0 || is_control(c)) {
      fprintf(to, c < 0x100 || n == 0 ? "\\x%02x" : "\\u%04x",
              n == 0 ? (unsigned)(uint8_t)*text : (unsigned)c);
    } else {
      fwrite(text, 1, n, to);
    }
    text += n == 0 ? 1 : n;
  }
}

// A name of the program; the middle of a long one is replaced by its length.
static void print_name(FILE *to, const char *name) {
  enum { LONGEST = 160, HEAD = 80, TAIL = 50 };
  const size_t n = strlen(name);
  print_escaped(to, name, name + (n <= LONGEST ? n : HEAD));
  if (n <= LONGEST) return;
  fprintf(to, "\xe2\x80\xa6 (%zu bytes) \xe2\x80\xa6", n);
  print_escaped(to, name + n - TAIL, name + n);
}

static void die(const char *what, const et_error *err) {
  fprintf(stderr, "et_run: %s: %s: ", what, et_status_name(err->status));
  print_escaped(stderr, err->message, err->message + strlen(err->message));
  fprintf(stderr, "\n");
  exit(1);
}

static void refuse(const char *what, const char *found) {
  fprintf(stderr, "et_run: %s%s\n", what, found);
  exit(2);
}

static void *claim(session *s, size_t bytes) {
  void *block = NULL;
  const size_t rounded = (bytes + ET_MEMORY_ALIGN) & ~(size_t)(ET_MEMORY_ALIGN - 1);
  if (s->n_blocks < sizeof s->blocks / sizeof s->blocks[0])
    block = aligned_alloc(ET_MEMORY_ALIGN, rounded);
  if (block == NULL) refuse("out of memory", "");
  memset(block, 0, rounded);
  s->blocks[s->n_blocks++] = block;
  return block;
}

// ---- Options

static size_t parse_count(const char *text, const char *what) {
  char *end;
  const unsigned long v = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || v == 0 || v > 100000000) refuse(what, text);
  return v;
}

// "2=path" → slot 2 of the list; plain text → slot 0.
static void parse_indexed(const char *text, const char **list) {
  char *end;
  size_t i = strtoul(text, &end, 10);
  if (end == text || *end != '=') {
    i = 0;
  } else {
    text = end + 1;
  }
  if (i >= MAX_LIST) refuse("input index too large: ", text);
  list[i] = text;
}

static options parse_options(int argc, char **argv) {
  options o = {.method = "forward", .n_threads = 1, .n_repeat = 1, .print = PRINT_SUMMARY};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i];
    if (name[0] != '-') {
      if (o.model != NULL) refuse("expected one model, got a second one: ", name);
      o.model = name;
      continue;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
      printf("usage: %s", USAGE);
      exit(0);
    }
    if (i + 1 == argc) refuse("option: expected a value after it, got none: ", name);
    const char *value = argv[++i];
    if (strcmp(name, "--method") == 0) {
      o.method = value;
    } else if (strcmp(name, "--data") == 0) {
      if (o.n_data == MAX_LIST) refuse("too many data files: ", value);
      o.data[o.n_data++] = value;
    } else if (strcmp(name, "--threads") == 0) {
      o.n_threads = parse_count(value, "--threads: expected a number of 1 or more, got ");
    } else if (strcmp(name, "--repeat") == 0) {
      o.n_repeat = parse_count(value, "--repeat: expected a number of 1 or more, got ");
    } else if (strcmp(name, "--input") == 0) {
      parse_indexed(value, o.inputs);
    } else if (strcmp(name, "--shape") == 0) {
      parse_indexed(value, o.shapes);
    } else if (strcmp(name, "--output") == 0) {
      o.output = value;
    } else if (strcmp(name, "--print") == 0) {
      o.print = strcmp(value, "none") == 0  ? PRINT_NONE
                : strcmp(value, "all") == 0 ? PRINT_ALL
                                            : PRINT_SUMMARY;
    } else {
      refuse("unknown option: ", name);
    }
  }
  if (o.model == NULL) refuse("no model; usage: ", USAGE);
  return o;
}

// ---- Loading

static double milliseconds_since(uint64_t start) {
  return (double)(et_clock_ns() - start) / 1e6;
}

static void open_files(session *s, const options *o) {
  if (et_file_map_open(&s->model_map, o->model, &s->err) != ET_OK) die("file", &s->err);
  const et_source source = et_source_from_memory(s->model_map.data, s->model_map.size);
  if (et_program_open(&s->program, &source, ET_VERIFY_FULL, &s->err) != ET_OK)
    die(o->model, &s->err);
  for (size_t i = 0; i < o->n_data; i++) {
    if (et_file_map_open(&s->data_maps[i], o->data[i], &s->err) != ET_OK) die("file", &s->err);
    const et_source data = et_source_from_memory(s->data_maps[i].data, s->data_maps[i].size);
    if (et_data_map_open(&s->data[i], &data, &s->err) != ET_OK) die(o->data[i], &s->err);
    s->data_list[i] = &s->data[i];
  }
}

static void load_method(session *s, const options *o) {
  const uint64_t start = et_clock_ns();
  open_files(s, o);
  if (o->n_threads > 1) {
    const et_span room = {claim(s, et_thread_pool_bytes(o->n_threads)),
                          et_thread_pool_bytes(o->n_threads)};
    if (et_thread_pool_init(&s->pool, room, o->n_threads, &s->err) != ET_OK)
      die("threads", &s->err);
    s->pool_handle = et_thread_pool_handle(s->pool);
  }
  const et_method_config config = {.ops = &et_ops_portable,
                                   .backends = &et_backends_builtin,
                                   .pool = s->pool == NULL ? NULL : &s->pool_handle,
                                   .data_maps = s->data_list,
                                   .n_data_maps = o->n_data};
  et_method_needs needs;
  if (et_program_method_info(&s->program, o->method, &s->info, &s->err) != ET_OK)
    die("method", &s->err);
  if (et_method_measure(&s->program, o->method, &config, &needs, &s->err) != ET_OK)
    die("measure", &s->err);
  et_span *planned = claim(s, (needs.n_planned + 1) * sizeof *planned);
  size_t planned_bytes = 0;
  for (size_t i = 0; i < needs.n_planned; i++) {
    if (et_program_planned_bytes(&s->program, o->method, i, &planned[i].size, &s->err) != ET_OK)
      die("plan", &s->err);
    planned[i].data = claim(s, planned[i].size);
    planned_bytes += planned[i].size;
  }
  const et_method_memory memory = {.method = {claim(s, needs.method_bytes), needs.method_bytes},
                                   .scratch = {claim(s, needs.scratch_bytes), needs.scratch_bytes},
                                   .planned = planned,
                                   .n_planned = needs.n_planned};
  if (et_method_load(&s->program, o->method, &config, &memory, &s->method, &s->err) != ET_OK)
    die("load", &s->err);
  if (o->print != PRINT_NONE) {
    printf("%s: method ", o->model);
    print_name(stdout, s->info.name);
    printf(", %zu instructions, %zu inputs, %zu outputs\n", s->info.n_instructions,
           s->info.n_inputs, s->info.n_outputs);
    printf("memory: file %zu bytes, planned %zu, method %zu, scratch %zu; loaded in %.2f ms\n",
           s->model_map.size, planned_bytes, needs.method_bytes, needs.scratch_bytes,
           milliseconds_since(start));
  }
}

// ---- Inputs

static void read_file(const char *path, void *data, size_t bytes) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) refuse("cannot open ", path);
  const size_t n = fread(data, 1, bytes, file);
  const bool has_more = n == bytes && fgetc(file) != EOF;
  fclose(file);
  if (n != bytes || has_more) {
    fprintf(stderr, "et_run: %s: expected exactly %zu bytes, got %zu%s\n", path, bytes,
            n + has_more, has_more ? " or more" : "");
    exit(2);
  }
}

static void fill_element(void *data, size_t i, et_dtype dtype, double v) {
  switch (dtype) {
    case ET_F32:
      ((float *)data)[i] = (float)v;
      break;
    case ET_F64:
      ((double *)data)[i] = v;
      break;
    case ET_I64:
      ((int64_t *)data)[i] = (int64_t)v;
      break;
    case ET_I32:
      ((int32_t *)data)[i] = (int32_t)v;
      break;
    case ET_I16:
      ((int16_t *)data)[i] = (int16_t)v;
      break;
    case ET_F16:
      ((uint16_t *)data)[i] = eti_f32_to_f16((float)v);
      break;
    case ET_BF16:
      ((uint16_t *)data)[i] = eti_f32_to_bf16((float)v);
      break;
    default:
      if (et_dtype_bytes(dtype) == 1) ((uint8_t *)data)[i] = (uint8_t)v;
  }
}

static void fill_tensor(const char *how, et_tensor *t) {
  uint32_t state = 1;
  if (strcmp(how, "ones") != 0 && strcmp(how, "zeros") != 0 && strcmp(how, "random") != 0) {
    read_file(how, t->data, et_tensor_bytes(t));
    return;
  }
  for (size_t i = 0; i < t->numel; i++) {
    state = state * 1664525u + 1013904223u;
    const double v = how[0] == 'o' ? 1 : how[0] == 'z' ? 0 : (double)(state >> 8) / (1 << 24);
    fill_element(t->data, i, (et_dtype)t->dtype, v);
  }
}

static void parse_shape(const char *text, et_tensor_info *info) {
  size_t d = 0;
  for (const char *at = text; d < info->rank; d++) {
    char *end;
    info->sizes[d] = (int32_t)strtol(at, &end, 10);
    if (end == at) break;
    at = *end == 'x' ? end + 1 : end;
  }
  if (d != info->rank) refuse("a shape with too few sizes: ", text);
}

// The caller owns the bytes of an input: unplanned inputs borrow them.
static void make_tensor_input(session *s, const options *o, size_t i) {
  given_input *given = &s->inputs[i];
  et_tensor_info *info = &given->info;
  et_tensor *t = &given->tensor;
  *t = (et_tensor){.sizes = info->sizes,
                   .strides = given->strides,
                   .dim_order = info->dim_order,
                   .numel = 1,
                   .dtype = (uint8_t)info->dtype,
                   .rank = (uint8_t)info->rank};
  if (i < MAX_LIST && o->shapes[i] != NULL) parse_shape(o->shapes[i], info);
  for (size_t d = 0; d < info->rank; d++) {
    const size_t size = (size_t)info->sizes[d];
    if (size > 0 && t->numel > SIZE_MAX / 64 / size) refuse("an input too large for this tool", "");
    t->numel *= size;
  }
  t->capacity = t->numel;
  t->data = claim(s, et_tensor_bytes(t));
  fill_tensor(i < MAX_LIST && o->inputs[i] != NULL ? o->inputs[i] : "ones", t);
  given->value = (et_value){.tag = ET_TENSOR, .as.tensor = t};
}

static void make_inputs(session *s, const options *o) {
  s->inputs = claim(s, s->info.n_inputs * sizeof *s->inputs);
  for (size_t i = 0; i < s->info.n_inputs; i++) {
    et_tag tag;
    if (et_program_slot_info(&s->program, o->method, ET_SLOT_INPUT, i, &tag, &s->inputs[i].info,
                             &s->err) != ET_OK)
      die("input", &s->err);
    if (tag == ET_TENSOR) {
      make_tensor_input(s, o, i);
    } else {  // only the traced value is accepted, which is what the method holds
      s->inputs[i].value = *et_method_input(s->method, i);
    }
  }
}

static void set_inputs(session *s) {
  for (size_t i = 0; i < s->info.n_inputs; i++) {
    if (et_method_set_input(s->method, i, &s->inputs[i].value, &s->err) != ET_OK)
      die("input", &s->err);
  }
}

static void make_outputs(session *s, const options *o) {
  for (size_t i = 0; i < s->info.n_outputs; i++) {
    et_tag tag;
    et_tensor_info info;
    if (et_program_slot_info(&s->program, o->method, ET_SLOT_OUTPUT, i, &tag, &info, &s->err) !=
        ET_OK)
      die("output", &s->err);
    if (tag != ET_TENSOR || info.is_planned) continue;
    const et_span memory = {claim(s, info.bytes), info.bytes};
    if (et_method_set_output_data(s->method, i, memory, &s->err) != ET_OK) die("output", &s->err);
  }
}

// ---- Outputs

static double element(const et_tensor *t, size_t i) {
  switch (t->dtype) {
    case ET_F32:
      return (double)((const float *)t->data)[i];
    case ET_F16:
      return (double)eti_f16_to_f32(((const uint16_t *)t->data)[i]);
    case ET_BF16:
      return (double)eti_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case ET_F64:
      return ((const double *)t->data)[i];
    case ET_I64:
      return (double)((const int64_t *)t->data)[i];
    case ET_I32:
      return ((const int32_t *)t->data)[i];
    case ET_I16:
      return ((const int16_t *)t->data)[i];
    case ET_I8:
      return ((const int8_t *)t->data)[i];
    case ET_U8:
    case ET_B8:
      return ((const uint8_t *)t->data)[i];
    default:
      return 0;
  }
}

static void print_tensor(const et_tensor *t, print_mode mode) {
  const bool is_readable = t->dtype <= ET_F64 || t->dtype == ET_B8 || t->dtype == ET_BF16;
  printf("%s [", et_dtype_name((et_dtype)t->dtype));
  for (size_t d = 0; d < t->rank; d++) printf("%s%ld", d == 0 ? "" : ", ", (long)t->sizes[d]);
  printf("]%s", is_readable ? " =" : "");
  const size_t n = mode == PRINT_ALL || t->numel < 8 ? t->numel : 8;
  for (size_t i = 0; is_readable && i < n; i++) printf(" %.7g", element(t, i));
  printf("%s\n", is_readable && n < t->numel ? " …" : "");
}

static bool write_and_close(FILE *file, const et_tensor *t, bool syncs) {
  const size_t bytes = et_tensor_bytes(t);
  bool is_done = file != NULL && (bytes == 0 || fwrite(t->data, 1, bytes, file) == bytes);
  is_done = is_done && fflush(file) == 0 && (!syncs || fsync(fileno(file)) == 0);
  if (file != NULL) is_done = fclose(file) == 0 && is_done;
  return is_done;
}

// Writes a temporary file beside `path` and renames it: after a failure the old file is whole.
static bool replace_file(const char *path, mode_t mode, const et_tensor *t) {
  char temporary[4096 + 8];
  snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
  const int file = mkstemp(temporary);
  if (file < 0) return false;
  const bool is_done = write_and_close(fdopen(file, "wb"), t, true) &&
                       chmod(temporary, mode) == 0 && rename(temporary, path) == 0;
  if (!is_done) (void)unlink(temporary);
  return is_done;
}

// A link is followed, and pipes and devices are written directly, as by fopen().
static void write_output(const char *prefix, size_t i, const et_tensor *t) {
  char path[4096];
  struct stat old;
  snprintf(path, sizeof path, "%s%zu.bin", prefix, i);
  const mode_t mask = umask(0);
  (void)umask(mask);
  bool is_done;
  if (stat(path, &old) == 0) {
    char *const end = S_ISREG(old.st_mode) && access(path, W_OK) == 0 ? realpath(path, NULL) : NULL;
    is_done = end != NULL && strlen(end) < sizeof path
                  ? replace_file(end, old.st_mode & 0777, t)
                  : write_and_close(fopen(path, "wb"), t, false);
    free(end);
  } else {
    is_done = lstat(path, &old) == 0 ? write_and_close(fopen(path, "wb"), t, false)
                                     : replace_file(path, 0666 & ~mask, t);
  }
  if (!is_done) refuse("cannot write ", path);
}

// Prints the index of an output, and its name where the file has one.
static void print_output_label(const session *s, size_t i) {
  char name[256];
  printf("output %zu", i);
  if (et_method_slot_name(&s->info, ET_SLOT_OUTPUT, i, name, sizeof name, NULL) == ET_OK) {
    printf(" ");
    print_name(stdout, name);
  }
  printf(": ");
}

static void show_outputs(const session *s, const options *o) {
  for (size_t i = 0; i < s->info.n_outputs; i++) {
    const et_value *v = et_method_output(s->method, i);
    if (v->tag == ET_TENSOR && o->output != NULL) write_output(o->output, i, v->as.tensor);
    if (o->print == PRINT_NONE) continue;
    print_output_label(s, i);
    if (v->tag == ET_TENSOR) {
      print_tensor(v->as.tensor, o->print);
    } else if (v->tag == ET_INT) {
      printf("Int %lld\n", (long long)v->as.i);
    } else if (v->tag == ET_DOUBLE) {
      printf("Double %.17g\n", v->as.d);
    } else if (v->tag == ET_BOOL) {
      printf("Bool %s\n", v->as.b ? "true" : "false");
    } else if (v->tag == ET_STRING) {
      printf("String ");
      print_name(stdout, v->as.string);
      printf("\n");
    } else {
      printf("%s\n", v->tag == ET_NONE ? "None" : "a list");
    }
  }
}

static int compare_times(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void run_method(session *s, const options *o) {
  double *times = claim(s, o->n_repeat * sizeof *times);
  for (size_t i = 0; i < o->n_repeat; i++) {
    set_inputs(s);
    const uint64_t start = et_clock_ns();
    if (et_method_execute(s->method, &s->err) != ET_OK) die("run", &s->err);
    times[i] = milliseconds_since(start);
  }
  if (o->print == PRINT_NONE) return;
  const double first = times[0];
  qsort(times, o->n_repeat, sizeof *times, compare_times);
  printf("ran %zu times: first %.4f ms, median %.4f ms, minimum %.4f ms\n", o->n_repeat, first,
         times[o->n_repeat / 2], times[0]);
}

int main(int argc, char **argv) {
  const options o = parse_options(argc, argv);
  session s = {0};
  (void)signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is then an error of its write
  load_method(&s, &o);
  make_inputs(&s, &o);
  make_outputs(&s, &o);
  run_method(&s, &o);
  show_outputs(&s, &o);
  et_method_close(s.method);
  et_thread_pool_deinit(s.pool);
  et_program_close(&s.program);
  for (size_t i = 0; i < o.n_data; i++) {
    et_data_map_close(&s.data[i]);
    et_file_map_close(&s.data_maps[i]);
  }
  et_file_map_close(&s.model_map);
  for (size_t i = 0; i < s.n_blocks; i++) free(s.blocks[i]);
  return 0;
}
