// hadamard.body.h — the transform of one row of elements of type T, in place. The including file
// sets, and this file undefines: T, SUFFIX.

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)

// Sums and differences of neighbours, of pairs, of fours and so on.
static void CAT(mix_width, SUFFIX)(T *x, size_t width) {
  for (size_t half = 1; half < width; half *= 2) {
    for (size_t i = 0; i < width; i += 2 * half) {
      for (size_t j = i; j < i + half; j++) {
        const T a = x[j], b = x[j + half];
        x[j] = a + b;
        x[j + half] = a - b;
      }
    }
  }
  const T scale = (T)(1.0 / sqrt((double)width));
  for (size_t i = 0; i < width; i++) x[i] *= scale;
}

static void CAT(transform, SUFFIX)(void *row, size_t n, size_t width) {
  T *const x = row;
  for (size_t i = 0; i < n; i += width) CAT(mix_width, SUFFIX)(x + i, width);
  if (n == width) return;
  for (size_t i = 0; i < width; i++) {
    T in[BLOCK];
    for (size_t k = 0; k < BLOCK; k++) in[k] = x[k * width + i];
    for (size_t c = 0; c < BLOCK; c++) {
      T sum = 0;
      for (size_t k = 0; k < BLOCK; k++) sum += is_plus(k, c) ? in[k] : -in[k];
      x[c * width + i] = sum;
    }
  }
}

#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
