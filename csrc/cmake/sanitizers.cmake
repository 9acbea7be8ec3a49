# Sanitizer and coverage instrumentation, switched by ET_SANITIZE and ET_COVERAGE.
function(et_instrument target)
  if(ET_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${ET_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all -g1)
    target_link_options(${target} PRIVATE -fsanitize=${ET_SANITIZE})
  endif()
  if(ET_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage -O0 -g)
    target_link_options(${target} PRIVATE --coverage)
  endif()
endfunction()
