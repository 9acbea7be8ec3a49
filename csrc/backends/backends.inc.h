// backends.inc.h — the delegates of a build, one a line: ET_BACKEND(name of the const et_backend).
// One that not every build has stands between #if and #endif.
ET_BACKEND(et_backend_reference)
#if defined(ET_HAVE_COMPILER_DEMO)
ET_BACKEND(et_backend_with_compiler_demo)
#endif
#if defined(ET_HAVE_XNNPACK)
ET_BACKEND(et_backend_xnnpack)
#endif
