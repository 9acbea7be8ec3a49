// stack.h — sizes of the buffers that kernels keep on the stack. A function of a small build
// (ET_NO_SIMD: no vectors, as on a microcontroller) holds at most 2 KiB, but for those that
// tests/c/test_stack.py lists. Other machines have stacks of megabytes: there longer blocks save
// calls. Neither results nor the limits of operators depend on the choice.
#ifndef ET_KERNELS_STACK_H
#define ET_KERNELS_STACK_H

#ifdef ET_NO_SIMD
#define ETI_ON_STACK(usual, small) (small)
#else
#define ETI_ON_STACK(usual, small) (usual)
#endif

#endif  // ET_KERNELS_STACK_H
