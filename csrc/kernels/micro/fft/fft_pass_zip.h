// fft_pass_zip.h — zip instructions for the tiles of fft_pass.body.h: FFT_VECTOR_BYTES, 0 if the
// compiler has no shuffles, and FFT_LOW and FFT_HIGH for T, which is double if FFT_IS_F64, else
// float. Included once for each T.
#ifndef FFT_VECTOR_BYTES
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#if defined(__AVX512F__)
#define FFT_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define FFT_VECTOR_BYTES 32
#elif defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__) || defined(__VSX__)
#define FFT_VECTOR_BYTES 16
#endif
#endif
#endif
#ifndef FFT_VECTOR_BYTES
#define FFT_VECTOR_BYTES 0
#endif
#define FFT_LOW_2 0, 2
#define FFT_HIGH_2 1, 3
#define FFT_LOW_4 0, 4, 1, 5
#define FFT_HIGH_4 2, 6, 3, 7
#define FFT_LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define FFT_HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define FFT_LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FFT_HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#endif

#if FFT_IS_F64
#if FFT_VECTOR_BYTES == 64
#define FFT_LOW FFT_LOW_8
#define FFT_HIGH FFT_HIGH_8
#elif FFT_VECTOR_BYTES == 32
#define FFT_LOW FFT_LOW_4
#define FFT_HIGH FFT_HIGH_4
#else
#define FFT_LOW FFT_LOW_2
#define FFT_HIGH FFT_HIGH_2
#endif
#elif FFT_VECTOR_BYTES == 64
#define FFT_LOW FFT_LOW_16
#define FFT_HIGH FFT_HIGH_16
#elif FFT_VECTOR_BYTES == 32
#define FFT_LOW FFT_LOW_8
#define FFT_HIGH FFT_HIGH_8
#else
#define FFT_LOW FFT_LOW_4
#define FFT_HIGH FFT_HIGH_4
#endif
