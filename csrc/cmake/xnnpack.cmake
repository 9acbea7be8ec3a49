# Finds XNNPACK, or builds it in a cache outside this tree; get_xnnpack.py lists the places and their variables.
#   ET_XNNPACK=AUTO  with XNNPACK if it is available; otherwise without it, with one message
#   ET_XNNPACK=ON    with it, or an error    ET_XNNPACK=OFF  without
# Sets ET_XNNPACK_FOUND and makes the target xnnpack: headers and static archives. Its pthreadpool_* functions are
# csrc/backends/xnnpack/pthreadpool_shim.c, so et_backends and xnnpack link each other.
set(ET_XNNPACK AUTO CACHE STRING "Build the XNNPACK delegate: AUTO, ON or OFF")
set_property(CACHE ET_XNNPACK PROPERTY STRINGS AUTO ON OFF)

set(ET_XNNPACK_NAMES XNNPACK_DIR XNNPACK_SOURCE_DIR PTHREADPOOL_SOURCE_DIR CPUINFO_SOURCE_DIR FXDIV_SOURCE_DIR
  XNNPACK_TARBALLS XNNPACK_CACHE_DIR XNNPACK_OFFLINE XNNPACK_APT_SUITES XNNPACK_APT_KEYRING XNNPACK_SANITIZE)

# Programs with an instrumented XNNPACK link the libraries of its sanitizers.
set(ET_XNNPACK_LINK_FLAGS)
if(DEFINED XNNPACK_SANITIZE)
  set(ET_XNNPACK_LINK_FLAGS -fsanitize=${XNNPACK_SANITIZE})
elseif(NOT "$ENV{XNNPACK_SANITIZE}" STREQUAL "")
  set(ET_XNNPACK_LINK_FLAGS -fsanitize=$ENV{XNNPACK_SANITIZE})
endif()

# Runs get_xnnpack.py; its answer goes to `out`, its exit code to `code`.
function(et_run_get_xnnpack out code)
  foreach(name IN LISTS ET_XNNPACK_NAMES)
    if(DEFINED ${name})
      set(ENV{${name}} "${${name}}")
    endif()
  endforeach()
  set(python ${Python_EXECUTABLE})
  if(NOT python)
    find_package(Python3 3.10 COMPONENTS Interpreter)
    set(python ${Python3_EXECUTABLE})
  endif()
  if(NOT python)
    set(${out} "{\"reason\": \"Python 3.10 or newer was not found; it fetches and builds XNNPACK\"}" PARENT_SCOPE)
    set(${code} 3 PARENT_SCOPE)
    return()
  endif()
  set(ninja)
  if(CMAKE_GENERATOR MATCHES Ninja)
    set(ninja --ninja ${CMAKE_MAKE_PROGRAM})
  endif()
  execute_process(
    COMMAND ${python} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/get_xnnpack.py --cmake ${CMAKE_COMMAND} ${ninja}
    OUTPUT_VARIABLE answer RESULT_VARIABLE result OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${out} "${answer}" PARENT_SCOPE)
  set(${code} "${result}" PARENT_SCOPE)
endfunction()

# The request for XNNPACK as one string. A request that failed is not repeated by each configure of a tree, but on
# another day, and by `pip install`, which passes -UET_XNNPACK_REFUSED.
function(et_xnnpack_request out)
  string(TIMESTAMP day "%Y-%m-%d")
  set(request " ${day}")
  foreach(name IN LISTS ET_XNNPACK_NAMES)
    if(DEFINED ${name})
      string(APPEND request " ${name}=${${name}}")
    elseif(DEFINED ENV{${name}})
      string(APPEND request " ${name}=$ENV{${name}}")
    endif()
  endforeach()
  set(${out} "asked:${request}" PARENT_SCOPE)
endfunction()

# Links check_xnnpack.c with XNNPACK and pthreadpool_shim.c, once for each XNNPACK; an error if that fails. Sets
# ET_XNNPACK_TUNED if the tuned kernels compile with it, which is tried once for each text of their files.
function(et_check_xnnpack include archives)
  set(csrc ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..)
  string(MD5 id "${include};${archives}")
  if(NOT ET_XNNPACK_LINKS_${id})  # try_compile tries again whatever the cache says
    try_compile(ET_XNNPACK_LINKS_${id} ${CMAKE_BINARY_DIR}/check_xnnpack
      SOURCES ${csrc}/cmake/check_xnnpack.c ${csrc}/backends/xnnpack/pthreadpool_shim.c
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${include};${csrc}"
      LINK_LIBRARIES ${archives} ${archives} Threads::Threads m ${ET_XNNPACK_LINK_FLAGS}
      OUTPUT_VARIABLE output)
  endif()
  if(NOT ET_XNNPACK_LINKS_${id})
    string(REGEX MATCHALL "[^\n]*(error:|undefined reference|undefined symbol)[^\n]*" errors "${output}")
    list(SUBLIST errors 0 8 errors)
    list(JOIN errors "\n  " errors)
    unset(ET_XNNPACK_LINKS_${id} CACHE)
    message(FATAL_ERROR "The XNNPACK of ${include} cannot be used: expected the interface of 2024-11 and all "
      "of its functions.\n  ${errors}\nET_XNNPACK=OFF builds without it.")
  endif()
  # Tuned kernels include XNNPACK's internal headers, of the release that get_xnnpack.py builds.
  if(ET_MACHINE STREQUAL x86_64)
    set(flags ${ET_ISA_ROWS})
    list(FILTER flags INCLUDE REGEX "^amx ")  # with those of all other files
    string(REGEX MATCHALL "-m[^ ]+" flags "${flags}")
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${csrc}/backends/xnnpack/tuned/*.c)
    list(FILTER kernels EXCLUDE REGEX "/tuned_absent\\.c$")
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${csrc}/backends/xnnpack/*.h ${csrc}/kernels/micro/*.h)
    set(texts ${flags})
    foreach(path IN LISTS kernels headers)
      file(MD5 ${path} text)
      list(APPEND texts ${text})
    endforeach()
    string(MD5 id "${id};${texts}")
    if(NOT DEFINED ET_XNNPACK_TAKES_TUNED_${id})
      try_compile(ET_XNNPACK_TAKES_TUNED_${id} ${CMAKE_BINARY_DIR}/check_xnnpack_kernels
        SOURCES ${csrc}/cmake/check_xnnpack.c ${csrc}/backends/xnnpack/pthreadpool_shim.c ${kernels}
          ${csrc}/kernels/micro/isa_select.c ${csrc}/kernels/micro/qgemm/qgemm_scalar.c
        COMPILE_DEFINITIONS ${flags} -DET_NO_SIMD
        CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${include};${csrc}"
        LINK_LIBRARIES ${archives} ${archives} Threads::Threads m ${ET_XNNPACK_LINK_FLAGS})
    endif()
    if(NOT ET_XNNPACK_TAKES_TUNED_${id})
      message(STATUS "XNNPACK's own kernels are used throughout: the tuned kernels are for another release")
    endif()
    set(ET_XNNPACK_TUNED ${ET_XNNPACK_TAKES_TUNED_${id}} PARENT_SCOPE)
  endif()
endfunction()

function(et_import_xnnpack answer)
  string(JSON include GET "${answer}" include)
  string(JSON version GET "${answer}" version)
  string(JSON licenses GET "${answer}" licenses)
  string(JSON n_archives LENGTH "${answer}" archives)
  set(archives)
  math(EXPR last "${n_archives} - 1")
  foreach(i RANGE ${last})
    string(JSON archive GET "${answer}" archives ${i})
    list(APPEND archives ${archive})
  endforeach()
  et_check_xnnpack("${include}" "${archives}")
  list(POP_FRONT archives first)
  add_library(xnnpack STATIC IMPORTED GLOBAL)
  set_target_properties(xnnpack PROPERTIES IMPORTED_LOCATION ${first} INTERFACE_INCLUDE_DIRECTORIES ${include})
  target_link_libraries(xnnpack INTERFACE ${archives} Threads::Threads m et_backends ${ET_XNNPACK_LINK_FLAGS})
  target_compile_definitions(xnnpack INTERFACE ET_XNNPACK_VERSION="${version}")
  set(ET_XNNPACK_VERSION "${version}" PARENT_SCOPE)
  set(ET_XNNPACK_TUNED "${ET_XNNPACK_TUNED}" PARENT_SCOPE)
  if(licenses)
    file(COPY ${licenses}/ DESTINATION ${CMAKE_BINARY_DIR}/licenses)
  endif()
endfunction()

set(ET_XNNPACK_FOUND OFF)
file(REMOVE_RECURSE ${CMAKE_BINARY_DIR}/licenses)  # of linked libraries, for those who distribute them
if(NOT ET_XNNPACK MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ET_XNNPACK: expected AUTO, ON or OFF, got ${ET_XNNPACK}")
elseif(ET_XNNPACK STREQUAL ON AND ET_BARE)
  message(FATAL_ERROR "ET_XNNPACK=ON: ET_BARE=ON leaves out everything that requires an operating system")
elseif(ET_XNNPACK STREQUAL OFF OR ET_BARE)
elseif(CMAKE_CROSSCOMPILING AND NOT XNNPACK_DIR AND NOT DEFINED ENV{XNNPACK_DIR})
  if(ET_XNNPACK STREQUAL ON)
    message(FATAL_ERROR "ET_XNNPACK=ON: a build for another machine requires XNNPACK_DIR with an XNNPACK for it")
  endif()
else()
  et_xnnpack_request(request)
  if(ET_XNNPACK STREQUAL ON OR NOT ET_XNNPACK_REFUSED STREQUAL request)
    et_run_get_xnnpack(answer code)
    if(code EQUAL 0)
      set(ET_XNNPACK_FOUND ON)
      et_import_xnnpack("${answer}")
      unset(ET_XNNPACK_REFUSED CACHE)
      message(STATUS "XNNPACK ${ET_XNNPACK_VERSION}")
    else()
      string(JSON reason ERROR_VARIABLE no_reason GET "${answer}" reason)
      if(no_reason)
        set(reason "get_xnnpack.py ended with ${code}; what it printed is above")
      endif()
      if(code EQUAL 3 AND ET_XNNPACK STREQUAL AUTO)
        set(ET_XNNPACK_REFUSED "${request}" CACHE INTERNAL "The last request for XNNPACK that failed")
        message(STATUS "Building without the XNNPACK delegate: ${reason}")
      else()
        message(FATAL_ERROR "XNNPACK: ${reason}\nET_XNNPACK=OFF builds without it.")
      endif()
    endif()
  endif()
endif()
