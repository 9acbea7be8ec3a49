// stack.h — sizes of the buffers that kernels keep on the stack. A function of a small build
// (ET_NO_SIMD: no vectors, as on a microcontroller) holds at most 2 KiB; tests/c/test_stack.py
// proves it. Other machines have stacks of megabytes: there longer blocks save calls. A function
// whose buffers must not join those of its callers has a frame of its own (ETI_OWN_FRAME). Neither
// results nor the limits of operators depend on the choice.
#ifndef ET_KERNELS_STACK_H
#define ET_KERNELS_STACK_H

#ifdef ET_NO_SIMD
#define ETI_ON_STACK(usual, small) (small)
#define ETI_OWN_FRAME __attribute__((noinline))
#else
#define ETI_ON_STACK(usual, small) (usual)
#define ETI_OWN_FRAME
#endif

#endif  // ET_KERNELS_STACK_H
