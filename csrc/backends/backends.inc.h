// backends.inc.h — every delegate that a build contains, one a line: ET_BACKEND(the const
// et_backend's name). One that needs a library of its own goes between #if and #endif.
ET_BACKEND(et_backend_reference)
#if defined(ET_HAVE_XNNPACK)
ET_BACKEND(et_backend_xnnpack)
#endif
