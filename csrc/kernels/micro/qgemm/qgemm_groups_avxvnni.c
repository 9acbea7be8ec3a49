// qgemm_groups_avxvnni.c — the products of qgemm_groups.h with VPDPBUSD on 256-bit vectors: a panel
// is two vectors, and a tile has 4 rows of one panel. Needs AVX2 and AVX-VNNI.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include "kernels/micro/qgemm/qgemm_vectors_256.h"

#define ISA(name) name##__avxvnni
#define TV 2
#define MR 4
#define FEW 1

// Adds products to a sum. The asm keeps it in one register: for the intrinsic gcc 12 copies it
// twice.
static inline vi add_products(vi sum, vi codes, vi terms) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(codes), "x"(terms));
  return sum;
}
#define VI_DOT(sum, codes, terms) add_products(sum, codes, terms)

// The first 1 ≤ n ≤ 32 bytes, and zeros.
static inline vi load_bytes(const int8_t *p, size_t n) {
  int8_t bytes[BYTES] = {0};
  return VI_LOAD(memcpy(bytes, p, n));
}

#include "kernels/micro/qgemm/qgemm_groups_dot.body.h"

const eti_qgroups_micro eti_qgroups_avxvnni = {
    .tile = ISA(tile), .begins = ISA(begins), .rows_of_a_tile = MR};
