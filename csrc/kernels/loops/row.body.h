// row.body.h — one entry of a loop table, used inside braces by each_dtype.inc.h.
[DTYPE] = ETI_BUILT(DTYPE, ETI_LOOP_NAME(LOOP_NAME, SUFFIX)),
