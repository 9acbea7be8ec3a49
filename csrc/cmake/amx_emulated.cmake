# Programs of tests/bits/test_emulated_amx.py: <name>_amx is the C test <name>, or same_bits, with tiles of AMX in C
# (tests/c/amx_emulated.h). Few files see tiles. Their objects, compiled once more, stand before the libraries, so that
# the linker takes none of the libraries' own.
set(sources ${ET_KERNEL_SOURCES})
if(ET_XNNPACK_FOUND)
  list(APPEND sources ${ET_XNNPACK_SOURCES})
endif()
list(FILTER sources INCLUDE REGEX "_amx\\.c$|/isa_select\\.c$")
add_library(amx_emulated OBJECT EXCLUDE_FROM_ALL ${sources})
target_compile_definitions(amx_emulated PRIVATE ET_AMX_EMULATED=1)
target_compile_options(amx_emulated PRIVATE -include ${ET_TESTS_DIR}/c/amx_emulated.h)
target_link_libraries(amx_emulated PRIVATE ${ET_LIBRARIES})
et_house_flags(amx_emulated)
foreach(name same_bits test_bgemm test_qgemm_groups test_xnnpack_conv_stem test_xnnpack_gemm_amx
    test_xnnpack_memory_bound)
  if(TARGET ${name})
    get_target_property(files ${name} SOURCES)
    add_executable(${name}_amx EXCLUDE_FROM_ALL ${files} $<TARGET_OBJECTS:amx_emulated>)
    target_link_libraries(${name}_amx PRIVATE ${ET_LIBRARIES})
    et_house_flags(${name}_amx)
  endif()
endforeach()
