// test_xnnpack_processors.c — tests that payloads of every family compute the same on every
// processor, up to the rounding of their types, with XNNPACK's kernels and with tuned ones. Packed
// weights of one processor are not used on another.
#define _GNU_SOURCE  // mmap's flags
#include "rig.h"

#if !defined(ET_HAVE_XNNPACK) || !defined(__x86_64__)

static void processors_are_not_limited_here(void) {
  EXPECT(et_backends_builtin.n_backends > 0);
}

static const et_test tests[] = {ET_CASE(processors_are_not_limited_here)};
ET_TEST_MAIN(tests)

#else

#include "processor.h"
#include "runtime/half.h"
#include "xnn_subject.h"

#include <cpuinfo.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_NUMBERS = 1 << 20 };

typedef struct outputs {
  size_t n;
  bool is_refused;  // there are no kernels
  float numbers[MAX_NUMBERS];
} outputs;

static outputs *shared;  // one for this processor, one for another

static float number_of(const et_tensor *t, size_t i) {
  switch (t->dtype) {
    case ET_F32:
      return ((const float *)t->data)[i];
    case ET_F16:
      return eti_f16_to_f32(((const uint16_t *)t->data)[i]);
    case ET_I8:
      return ((const int8_t *)t->data)[i];
    case ET_I64:
      return (float)((const int64_t *)t->data)[i];
    default:
      return NAN;
  }
}

static void run_payload(const char *name, outputs *to) {
  subject s;
  to->n = 0;
  to->is_refused = subject_lacks_halves(name);
  if (to->is_refused || !subject_begin(&s, rig_read(name), &(et_xnnpack_options){.weights = NULL}))
    return;
  subject_fill(&s);
  if (subject_call(&s, s.shapes, false) != ET_OK) return;
  for (size_t k = 0; k < s.n_args; k++) {
    const et_tensor *const t = &s.tensors[k].t;
    for (size_t i = 0; !s.is_input[k] && i < t->numel && to->n < MAX_NUMBERS; i++)
      to->numbers[to->n++] = number_of(t, i);
  }
  subject_end(&s);
}

// Runs in a separate process, where XNNPACK has not started.
static bool run_on(const char *processor, const char *name, outputs *to) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const bool is_known = strcmp(processor, "this") == 0 || processor_limit(processor);
    run_payload(name, to);
    _exit(is_known && (to->n > 0 || to->is_refused) ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool is_near(const outputs *a, const outputs *b, float tolerance) {
  float most = 0;
  for (size_t i = 0; i < a->n; i++)
    if (isfinite(a->numbers[i])) most = fmaxf(most, fabsf(a->numbers[i]));
  for (size_t i = 0; i < a->n; i++) {
    const float x = a->numbers[i], y = b->numbers[i];
    if (x == y || (isnan(x) && isnan(y)) || fabsf(x - y) <= tolerance * most) continue;
    printf("  number %zu of %zu: %g on this processor, %g on the other\n", i, a->n, (double)x,
           (double)y);
    return false;
  }
  return a->n == b->n;
}

static bool is_same_everywhere(const char *name, float tolerance) {
  static const char *const processors[] = {"sse2",    "zen",    "avx2",
                                           "avxvnni", "avx512", "avx512vnni"};
  const size_t bytes = 2 * sizeof *shared;
  shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || !run_on("this", name, &shared[0])) return false;
  bool is_good = true;
  for (size_t i = 0; is_good && i < sizeof processors / sizeof processors[0]; i++) {
    is_good = run_on(processors[i], name, &shared[1]) &&
              (shared[1].is_refused || is_near(&shared[0], &shared[1], tolerance));
    if (!is_good) printf("  %s on %s\n", name, processors[i]);
  }
  (void)munmap(shared, bytes);
  return is_good;
}

static void payloads_of_floats_compute_the_same(void) {
  // A batched product of 5 terms and 6 columns, in memory that held infinities.
  EXPECT(is_same_everywhere("xnnpack/batched.payload", 1e-5f));
  EXPECT(is_same_everywhere("xnnpack/convolutions.payload", 1e-5f));
  EXPECT(is_same_everywhere("xnnpack/images.payload", 1e-5f));
  EXPECT(is_same_everywhere("xnnpack/moves.payload", 0));
  EXPECT(is_same_everywhere("xnnpack/normalised.payload", 1e-5f));
  EXPECT(is_same_everywhere("xnnpack/products.payload", 1e-5f));
}

static void payloads_of_halves_compute_the_same(void) {
  EXPECT(is_same_everywhere("xnnpack/linears_f16.payload", 2e-3f));
  EXPECT(is_same_everywhere("xnnpack/unary_f16.payload", 2e-3f));
}

static void payloads_of_integers_compute_the_same(void) {
  EXPECT(is_same_everywhere("xnnpack/static_channel.payload", 1e-5f));
  EXPECT(is_same_everywhere("xnnpack/dynamic_linears.payload", 1e-5f));
  EXPECT(is_same_everywhere("xnnpack/group_linears.payload", 1e-5f));
}

static void packed_weights_are_of_one_processor(void) {
  char here[ET_XNNPACK_IDENTITY_BYTES], there[ET_XNNPACK_IDENTITY_BYTES];
  EXPECT(cpuinfo_initialize());
  et_xnnpack_identity(here);
  cpuinfo_isa.avx512vnni = !cpuinfo_isa.avx512vnni;
  et_xnnpack_identity(there);
  EXPECT(strcmp(here, there) != 0);
  cpuinfo_isa.avx512vnni = !cpuinfo_isa.avx512vnni;
  et_xnnpack_identity(there);
  EXPECT(strcmp(here, there) == 0);
}

static const et_test tests[] = {
    ET_CASE(payloads_of_floats_compute_the_same),
    ET_CASE(payloads_of_halves_compute_the_same),
    ET_CASE(payloads_of_integers_compute_the_same),
    ET_CASE(packed_weights_are_of_one_processor),
};
ET_TEST_MAIN(tests)

#endif
