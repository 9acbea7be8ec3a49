// special_bessel.h — modified Bessel functions of the first kind, plain and times exp(-|x|), of f32
// and f64 as straight-line arithmetic that vectorises: powers of |x| / 4 - 1 up to 8, and beyond
// powers of 16 / |x| - 1 over the root of |x|. Those of f32 work in f64, round once and have powers
// for 1e-10; those of f64 for 2^-56. Operands for which eti_<name>_is_rare_… holds belong to
// special_functions.h. Knows no tensor.
#ifndef ET_SPECIAL_BESSEL_H
#define ET_SPECIAL_BESSEL_H

#include "kernels/micro/math/special_f32.h"
#include "kernels/micro/math/special_f64.h"

// ---- f32

ETI_INLINE double eti_i0e_d(double x) {
  const double a = fabs(x), b = a > 8.0 ? a : 8.0, r = 1.0 / b;
  const double near = ETI_POWERS(
      a * 0.25 - 1.0, 0x1.a7f09f8f074acp-3, -0x1.cedd9fec5a165p-4, 0x1.8322d1a8fa1bbp-4,
      -0x1.6cb8d7ab095e7p-4, 0x1.65c23d2763687p-4, -0x1.5c01fc52dedecp-4, 0x1.44b5a6b97cf70p-4,
      -0x1.1cdce2ef6e9d7p-4, 0x1.d1252becdb66fp-5, -0x1.5fe72e8838301p-5, 0x1.ee2dc3d60d855p-6,
      -0x1.44036b943aa8ep-6, 0x1.89603d69c5da6p-7, -0x1.b0d720be2894ep-8, 0x1.cf5c47c60fc72p-9,
      -0x1.0c5980528c40fp-9, 0x1.f2f00f73bf782p-11, -0x1.af82352af7d52p-13, 0x1.8e631923096a9p-14,
      -0x1.1d4fe13ae9556p-13, 0x1.a98becc743c10p-15);
  const double far =
      ETI_POWERS(16.0 * r - 1.0, 0x1.9bd428ace770bp-2, 0x1.b8796bf30abf3p-9, 0x1.1daad435a127cp-13,
                 0x1.75ca49b223711p-17, 0x1.8cc09f987e159p-20, 0x1.49fedb6a15d0cp-22,
                 0x1.c5b3cb3c31b84p-24, 0x1.0f9ccc0f46f75p-25, 0x1.a24feabe8004fp-30);
  return a > 8.0 ? far * sqrt(r) : near;
}
ETI_INLINE bool eti_i0e_is_rare_f32(float x) {
  return !(fabsf(x) < INFINITY);
}
ETI_INLINE float eti_i0e_common_f32(float x) {
  return (float)eti_i0e_d((double)x);
}
ETI_INLINE bool eti_i0_is_rare_f32(float x) {
  return !(fabsf(x) <= 700.0f);
}
ETI_INLINE float eti_i0_common_f32(float x) {
  return (float)(eti_i0e_d((double)x) * eti_exp_d(fabs((double)x)));
}

ETI_INLINE double eti_i1e_d(double x) {
  const double a = fabs(x), b = a > 8.0 ? a : 8.0, r = 1.0 / b;
  const double near = ETI_POWERS(
      a * 0.25 - 1.0, 0x1.6e14eb8ccb580p-5, -0x1.f4bb0714e5456p-5, 0x1.16c39179c6ba7p-4,
      -0x1.1881386b1f27dp-4, 0x1.0530e41c8b1f4p-4, -0x1.c4da8305d4740p-5, 0x1.6dfb59b7278cbp-5,
      -0x1.13d741d7a15c5p-5, 0x1.83f8e2047a7bfp-6, -0x1.fe217466fadc9p-7, 0x1.3ac78a0611987p-7,
      -0x1.6b6c57abdfbedp-8, 0x1.837308bad3f21p-9, -0x1.8db249c9c9721p-10, 0x1.a9eef2d2ab0c2p-11,
      -0x1.8279cb4b2f7b4p-12, 0x1.887417355898cp-14, -0x1.558041adb6ce6p-15, 0x1.8ea34b43fdf6cp-15,
      -0x1.2510397eb07dep-16);
  const double far = ETI_POWERS(
      16.0 * r - 1.0, 0x1.8ebe783ac527dp-2, -0x1.3f79622a3e433p-7, -0x1.cbc5b59f3813dp-13,
      -0x1.f87ff80ce5584p-17, -0x1.eae524c5960bep-20, -0x1.80dc752536e4dp-22,
      -0x1.fa4479865658fp-24, -0x1.334ca5423dd80p-25, -0x1.4dcf9d4504c0cp-29);
  return a > 8.0 ? copysign(far * sqrt(r), x) : x * near;
}
ETI_INLINE bool eti_i1e_is_rare_f32(float x) {
  return !(fabsf(x) < INFINITY);
}
ETI_INLINE float eti_i1e_common_f32(float x) {
  return (float)eti_i1e_d((double)x);
}
ETI_INLINE bool eti_i1_is_rare_f32(float x) {
  return !(fabsf(x) <= 700.0f);
}
ETI_INLINE float eti_i1_common_f32(float x) {
  return (float)(eti_i1e_d((double)x) * eti_exp_d(fabs((double)x)));
}

// ---- f64

ETI_INLINE double eti_i0e_common_f64(double x) {
  const double a = fabs(x), b = a > 8.0 ? a : 8.0, r = 1.0 / b;
  const double near = ETI_SPLIT_POWERS(
      a > 8.0 ? 1.0 : a * 0.25 - 1.0, 0x1.a7f09f8eedf5ap-3, -0x1.cedda0048620cp-4,
      0x1.8322d1d8a3bbbp-4, -0x1.6cb8d0c91588fp-4, 0x1.65c235bfeaa72p-4, -0x1.5c028fe647844p-4,
      0x1.44b6196a78062p-4, -0x1.1cd73a8e6cd6ep-4, 0x1.d11e10f60db14p-5, -0x1.602411e2b84cbp-5,
      0x1.ee6f564cfa915p-6, -0x1.427b099142586p-6, 0x1.87e867ba41db8p-7, -0x1.bd258ef81b1b7p-8,
      0x1.da1a9fb31a327p-9, -0x1.daf9ae8ac58f3p-10, 0x1.c0f4afe538061p-11, -0x1.918057560fb5p-12,
      0x1.5496c575b16e4p-13, -0x1.12c45b18c205dp-14, 0x1.a6d2ef17e0495p-16, -0x1.3666062a15f5fp-17,
      0x1.b170d36b55864p-19, -0x1.246102354dd25p-20, 0x1.8aa9ed99d4de8p-22, -0x1.e70761a76cf5bp-24,
      0x1.c35f7ef8ecfc7p-26, -0x1.0e148b0af9254p-27, 0x1.332208b1b904p-28, -0x1.409665a03765ap-30);
  const double far = ETI_SPLIT_POWERS(
      16.0 * r - 1.0, 0x1.9bd428ad249a5p-2, 0x1.b87969bb93bd2p-9, 0x1.1daa72b5e22b2p-13,
      0x1.75e5ee6fabb85p-17, 0x1.8e513a7ddffecp-20, 0x1.3f49af1ca6576p-22, 0x1.7d0f0727d6a9dp-24,
      0x1.51cb3832a6046p-25, 0x1.723509510cd4ap-26, 0x1.03fa571f405c2p-27, -0x1.cfe4f8bebe7e4p-28,
      -0x1.ceb2c3f3c2085p-27, -0x1.72b4495699537p-28, 0x1.09d8aa3fc68bp-27, 0x1.fcf3dd682ab36p-28,
      -0x1.0c5d8b2e86f47p-28, -0x1.9683a45b51615p-28, 0x1.2159f0c508719p-29, 0x1.ee943d682b9f4p-29,
      -0x1.3ab3b1c19a518p-30, -0x1.b5e3e7f99d058p-30, 0x1.1998ba2c8ef47p-31, 0x1.ec7656d43152ap-32,
      -0x1.4b4eae130efc2p-33, -0x1.03b4aa8a9e407p-34, 0x1.6e48b56608f9p-36);
  return a > 8.0 ? far * sqrt(r) : near;
}
ETI_INLINE double eti_i1e_common_f64(double x) {
  const double a = fabs(x), b = a > 8.0 ? a : 8.0, r = 1.0 / b;
  const double near = ETI_SPLIT_POWERS(
      a > 8.0 ? 1.0 : a * 0.25 - 1.0, 0x1.6e14eb8e5d319p-5, -0x1.f4bb071a7752bp-5,
      0x1.16c390ddb08ecp-4, -0x1.1881379ffb5c2p-4, 0x1.0530f817ffa4ap-4, -0x1.c4daa51341c6dp-5,
      0x1.6df95e8bdfc8fp-5, -0x1.13d5f358a4edap-5, 0x1.84125b0d2de85p-6, -0x1.fe3d9c01a6736p-7,
      0x1.3a0c1a007877fp-7, -0x1.6ab6a3876ed57p-8, 0x1.89f8a69545405p-9, -0x1.93682690e9b9ap-10,
      0x1.8656c1654765cp-11, -0x1.65bf65dd72f08p-12, 0x1.37430c18eefeap-13, -0x1.01a43775d9f1cp-14,
      0x1.969330fb70d0ep-16, -0x1.3269f669d578fp-17, 0x1.ba196041625d2p-19, -0x1.317ffb356f636p-20,
      0x1.93a99c550319ep-22, -0x1.01b4b419a1fcbp-23, 0x1.46a890c79f1e3p-25, -0x1.80875810a1429p-27,
      0x1.65dc717d1511p-29, -0x1.95ae4a3a5ec82p-31, 0x1.99db77e00f02dp-32, -0x1.9be8fdf579908p-34);
  const double far = ETI_SPLIT_POWERS(
      16.0 * r - 1.0, 0x1.8ebe783a8403p-2, -0x1.3f796198ee63fp-7, -0x1.cbc54df1e894cp-13,
      -0x1.f89c230446f74p-17, -0x1.ec8e107bd7eaap-20, -0x1.7613865ea6e9ap-22,
      -0x1.ad8d43e5d60bep-24, -0x1.727702ec186d3p-25, -0x1.9191ff33370adp-26,
      -0x1.21f47a4eb566bp-27, 0x1.ceff3cea7c3a4p-28, 0x1.e413f0678e137p-27, 0x1.99d190fe908dap-28,
      -0x1.0c96c7afcb02cp-27, -0x1.0e2bb88351649p-27, 0x1.05656ba38c1b6p-28, 0x1.aa440cf09ce3p-28,
      -0x1.11c9f66d690fcp-29, -0x1.01ef463d9c576p-28, 0x1.268bd450a314cp-30, 0x1.c7aed1ee533f7p-30,
      -0x1.07d06c81c1d24p-31, -0x1.fff33f3b3e75ap-32, 0x1.37bea5c8dbcccp-33, 0x1.0ddc7620a9205p-34,
      -0x1.5a29b473f1663p-36);
  return a > 8.0 ? copysign(far * sqrt(r), x) : x * near;
}
ETI_INLINE bool eti_i0e_is_rare_f64(double x) {
  return !(fabs(x) < 1e300);
}
ETI_INLINE bool eti_i1e_is_rare_f64(double x) {
  return !(fabs(x) < 1e300);
}

ETI_INLINE bool eti_i0_is_rare_f64(double x) {
  return !(fabs(x) <= 700.0);
}
ETI_INLINE double eti_i0_common_f64(double x) {
  return eti_i0e_common_f64(x) * eti_exp_f64(fabs(x));
}
ETI_INLINE bool eti_i1_is_rare_f64(double x) {
  return !(fabs(x) <= 700.0);
}
ETI_INLINE double eti_i1_common_f64(double x) {
  return eti_i1e_common_f64(x) * eti_exp_f64(fabs(x));
}

#endif  // ET_SPECIAL_BESSEL_H
