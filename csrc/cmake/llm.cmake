# et_llm: tokenizers and samplers of language models (llm/). Its Unicode tables are made by Python, from unicodedata.
find_package(Python3 3.10 COMPONENTS Interpreter)
set(ET_LLM_FOUND FALSE)
if(NOT Python3_Interpreter_FOUND)
  message(STATUS "llm/ is left out: Python 3.10 or newer was not found; it makes the Unicode tables")
  return()
endif()
set(ET_LLM_FOUND TRUE)
set(tables ${CMAKE_CURRENT_BINARY_DIR}/generated/unicode_tables.inc.h)
add_custom_command(
  OUTPUT ${tables}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/generated
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/make_unicode.py ${tables}
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/make_unicode.py)
file(GLOB_RECURSE ET_LLM_SOURCES CONFIGURE_DEPENDS llm/*.c)
add_library(et_llm STATIC ${ET_LLM_SOURCES} ${tables})
target_include_directories(et_llm PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
target_link_libraries(et_llm PUBLIC et_runtime)
et_house_flags(et_llm)
