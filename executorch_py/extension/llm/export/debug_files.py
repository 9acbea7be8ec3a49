"""Files that export_llm writes beside a program, or in its place, when the configuration says so.

    export.export_only       NAME.pt2, or NAME.METHOD.pt2 of each method: the captured graphs
    debug.generate_etrecord  etrecord.bin
    debug.profile_memory     memory_profile.json, or memory_profile.METHOD.json of each method: a
                             trace for Chrome
    debug.profile_path       a page of HTML with the time of each function

A file of `debug` that cannot be written costs no program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch.export import ExportedProgram

from executorch_py.atomic_file import replacing
from executorch_py.exir import ExecutorchProgramManager
from executorch_py.extension.llm.export.config.llm_config import LlmConfig
from executorch_py.extension.llm.export.config.read_config import ConfigError
from executorch_py.terminal_text import quoted
from executorch_py.util.activation_memory_profiler import generate_memory_trace
from executorch_py.util.python_profiler import CProfilerFlameGraph

_RECORD, _MEMORY_TRACE = "etrecord.bin", Path("memory_profile.json")


@contextmanager
def profiled(config: LlmConfig) -> Iterator[list[str]]:
    """A context that writes the page of debug.profile_path, with a line about it at the end.

    ConfigError for a path that is none.
    """
    lines: list[str] = []
    path = config.debug.profile_path
    if path is None:
        yield lines
        return
    if not Path(path).suffix or not Path(path).parent.is_dir():
        raise ConfigError(
            "debug.profile_path: expected a file such as profile.html in a folder that exists, got "
            f"{quoted(path)}"
        )
    profile = CProfilerFlameGraph(path)
    profile.__enter__()
    try:
        yield lines
    finally:
        lines.append(_saved(Path(path), lambda: profile.__exit__(None, None, None)))


def save_graphs(exported: dict[str, ExportedProgram], program_path: Path) -> list[Path]:
    """Save captured graphs; their paths."""
    paths = _paths_of_methods(program_path.with_suffix(".pt2"), exported)
    for name, path in paths.items():
        with replacing(path) as file:
            torch.export.save(exported[name], file)
    return list(paths.values())


def save_debug_files(
    program: ExecutorchProgramManager, config: LlmConfig, folder: Path
) -> list[str]:
    """Write what the configuration asks for beside a program; lines that say what was done."""
    wanted: dict[Path, Callable[[], None]] = {}
    if config.debug.generate_etrecord:
        wanted[folder / _RECORD] = lambda: program.get_etrecord().save(folder / _RECORD)
    if config.debug.profile_memory:
        for name, path in _paths_of_methods(folder / _MEMORY_TRACE, program.methods).items():
            wanted[path] = partial(generate_memory_trace, program, path, method_name=name)
    return [_saved(path, save) for path, save in wanted.items()]


def _saved(path: Path, save: Callable[[], None]) -> str:
    """A line that says whether a file was saved."""
    try:
        save()
    except OSError as error:
        return f"could not write {path}: {error.strerror or error}"
    return f"saved {path}"


def _paths_of_methods(path: Path, names: Iterable[str]) -> dict[str, Path]:
    methods = sorted(names)
    if len(methods) == 1:
        return {methods[0]: path}
    return {name: path.with_suffix(f".{name}{path.suffix}") for name in methods}
