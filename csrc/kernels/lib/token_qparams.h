// token_qparams.h — scale and zero point of a row that becomes int8, as
// quantized_decomposed::choose_qparams_per_token_asymmetric defines them. Knows no tensor.
#ifndef ET_TOKEN_QPARAMS_H
#define ET_TOKEN_QPARAMS_H

#include <math.h>

// From the least and greatest element: zero is always inside of the range, and NaN gives NaN. The
// zero point comes from the end of the range with the smaller error.
static inline void eti_token_qparams(float least, float greatest, float *scale, float *zero) {
  const float low = least >= 0.0f ? 0.0f : least, high = greatest <= 0.0f ? 0.0f : greatest;
  float step = (high - low) / 255.0f;
  if (step < 0x1p-23f) step = 0x1p-23f;
  const float from = low / step, to = high / step;
  float z = (-128.0f + from) + (127.0f + to) > 0.0f ? -128.0f - from : 127.0f - to;
  z = z < -128.0f ? -128.0f : z > 127.0f ? 127.0f : z;
  *scale = step;
  *zero = nearbyintf(z);
}

#endif  // ET_TOKEN_QPARAMS_H
