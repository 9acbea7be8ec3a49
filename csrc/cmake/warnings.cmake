# The project's warnings and code-generation flags, for gcc and clang.
function(et_house_flags target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wconversion -Wdouble-promotion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef
    -Wwrite-strings
    # An undeclared function would return int, and lose half of a pointer.
    -Werror=implicit-function-declaration -Werror=int-conversion -Werror=incompatible-pointer-types
    -ffp-contract=off        # an explicit fma is the only fma: results do not depend on the compiler
    -fno-math-errno -fno-trapping-math
    # A .su file beside each object lists the stack of its functions (tests/c/test_stack.py).
    $<$<C_COMPILER_ID:GNU>:-fstack-usage>
    # For clang, a loop left scalar is slower, not wrong.
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>
    $<$<CONFIG:Debug>:-DET_DEBUG=1>)
  if(ET_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  et_instrument(${target})
endfunction()
