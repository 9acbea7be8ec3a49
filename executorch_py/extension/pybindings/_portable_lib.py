"""Upstream's second name of the module `portable_lib`."""

from executorch_py.extension.pybindings.portable_lib import *  # noqa: F403
from executorch_py.extension.pybindings.portable_lib import (  # noqa: F401
    _create_profile_block,
    _dump_profile_results,
    _get_operator_names,
    _get_registered_backend_names,
    _is_available,
    _load_bundled_program_from_buffer,
    _load_for_executorch,
    _load_for_executorch_from_buffer,
    _load_for_executorch_from_bundled_program,
    _load_for_executorch_from_data_loader,
    _load_program,
    _load_program_from_buffer,
    _reset_profile_results,
    _threadpool_get_thread_count,
    _unsafe_reset_threadpool,
)
