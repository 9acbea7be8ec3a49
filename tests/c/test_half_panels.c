// test_half_panels.c — compares every variant of half_panels.h with its contract by equality of
// bits: all heights, counts of panels and lengths of chunks, and nothing outside of C written.
#include "et_test.h"

#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/gemm/half_panels.h"
#include "kernels/micro/isa_select.h"
#include "random_elements.h"
#include "runtime/half.h"

#include <math.h>

// Finite elements of f16 of both signs: normal numbers, every eighth subnormal or zero.
static uint16_t *random_halves(size_t n) {
  uint16_t *const halves = malloc(n * sizeof *halves + 1);
  for (size_t i = 0; i < n; i++) {
    const uint32_t bits = next_random();
    halves[i] = (uint16_t)(i % 8 == 7 ? bits & 0x83FFu : (bits & 0x83FFu) | 0x3000u);
  }
  return halves;
}

static void specify(const eti_half_panels *p, size_t m, float *c) {
  for (size_t i = 0; i < m; i++) {
    for (size_t j = 0; j < p->n_panels * ETI_GEMM_STORED; j++) {
      const uint16_t *const column =
          p->b + j / ETI_GEMM_STORED * p->b_panel_step + j % ETI_GEMM_STORED;
      float sum = p->keeps ? c[i * p->c_step + j] : 0.0f;
      for (size_t k = 0; k < p->k; k++)
        sum = fmaf(p->a[i * p->a_step + k], eti_f16_to_f32(column[k * ETI_GEMM_STORED]), sum);
      c[i * p->c_step + j] = sum;
    }
  }
}

static bool is_as_specified(eti_half_panels_fn tile, size_t m, size_t k, size_t n_panels,
                            bool keeps) {
  const size_t a_step = k + 3, panel = k * ETI_GEMM_STORED + 16,
               c_step = n_panels * ETI_GEMM_STORED + 5, size = m * c_step;
  float *const a = random_elements(ET_F32, m * a_step), *const c = random_elements(ET_F32, size),
               *const expected = copy_of(c, size * sizeof *c);
  uint16_t *const b = random_halves(n_panels * panel);
  eti_half_panels p = {.a = a,
                       .a_step = a_step,
                       .k = k,
                       .b = b,
                       .b_panel_step = panel,
                       .n_panels = n_panels,
                       .c = expected,
                       .c_step = c_step,
                       .keeps = keeps,
                       .next = (uintptr_t)b,
                       .next_step = panel};
  specify(&p, m, expected);
  p.c = c;
  tile(&p, m);
  const bool same = memcmp(c, expected, size * sizeof *c) == 0;
  free(a), free(b), free(c), free(expected);
  return same;
}

static void tiles_of_every_size_are_as_specified(void) {
  const size_t lengths[] = {0, 1, 2, 15, 64, 129, ETI_GEMM_CHUNK};
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_half_panels_fn tile = eti_half_panels_of_isa(isa);
    for (size_t m = 1; tile != NULL && m <= ETI_HALF_PANELS_ROWS; m++) {
      for (size_t n = 1; n <= 17; n++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
          EXPECT(is_as_specified(tile, m, lengths[i], n, false));
          EXPECT(is_as_specified(tile, m, lengths[i], n, true));
        }
      }
    }
  }
}

static void unknown_instruction_sets_have_no_tile(void) {
  EXPECT(eti_half_panels_of_isa(-1) == NULL && eti_half_panels_of_isa(ETI_ISA_COUNT) == NULL);
  EXPECT(eti_half_panels_of_isa(ETI_ISA_SCALAR) == NULL);
}

static const et_test tests[] = {
    ET_CASE(tiles_of_every_size_are_as_specified),
    ET_CASE(unknown_instruction_sets_have_no_tile),
};
ET_TEST_MAIN(tests)
