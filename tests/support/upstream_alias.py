"""Pytest plugin: modules of `executorch` are those of executorch_py, tests come from the wheel.

    UPSTREAM_WHEEL=.../site-packages/executorch pytest -p upstream_alias FILE...

An import of `executorch.X` gives `executorch_py.X`. Modules of tests, and those beside them in
folders `test` and `tests`, are read from the wheel; nothing else of it is. A name that
executorch_py does not have fails the tests that use it, not the file that imports it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from torchvision_path import add_torchvision

_WHEEL = Path(os.environ["UPSTREAM_WHEEL"])
_UPSTREAM, _OURS = "executorch", "executorch_py"


class NotHere(Exception):
    """A test used a name of upstream's that executorch_py does not have."""


class _Missing:
    """Stands for a missing name, so that the other tests of a file run; using it raises NotHere."""

    def __init__(self, name: str, reason: object) -> None:
        self._text = f"executorch_py has no {name}: {reason}"

    def __call__(self, *_: object, **__: object) -> None:
        raise NotHere(self._text)

    __getitem__ = __setitem__ = __iter__ = __contains__ = __call__
    __instancecheck__ = __subclasscheck__ = __call__

    def __repr__(self) -> str:
        return self._text

    def _same(self, _: object = None) -> _Missing:
        """The result of arithmetic, which files of tests do where they define constants."""
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _same
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _same
    __neg__ = _same

    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(name, self._text)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type]:
        def refuse(*_: object, **__: object) -> None:
            raise NotHere(self._text)

        return (type("MissingBase", (), {"__init__": refuse}),)


class _Alias(types.ModuleType):
    """A module of executorch_py under upstream's name; all names of None are missing."""

    def __init__(self, name: str, module: types.ModuleType | None, reason: object = None) -> None:
        super().__init__(name)
        self.__dict__.update(_module=module, _reason=reason)

    def __getattr__(self, name: str) -> object:
        module = self.__dict__["_module"]
        if name.startswith("__"):
            return getattr(module, name)
        try:
            return getattr(module, name)
        except (AttributeError, ImportError) as error:
            if isinstance(error, AttributeError) and hasattr(self, "__path__"):
                try:
                    return importlib.import_module(f"{self.__name__}.{name}")
                except ModuleNotFoundError:
                    pass
            reason = self.__dict__["_reason"] or (
                error if isinstance(error, ImportError) else "no such name"
            )
            return _Missing(f"{self.__name__}.{name}", reason)

    def __setattr__(self, name: str, value: object) -> None:
        module = self.__dict__["_module"]
        if name.startswith("__") or module is None:
            self.__dict__[name] = value
        elif not isinstance(value, types.ModuleType):
            setattr(module, name, value)  # by a mock
        elif not callable(getattr(module, name, None)):  # modules of passes may be called
            self.__dict__[name] = value  # by the import system

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_module"], name)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_module"])


class _AliasLoader:
    def __init__(self, module: types.ModuleType | None, reason: object = None) -> None:
        self._module, self._reason = module, reason

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Alias(spec.name, self._module, self._reason)

    def exec_module(self, module: types.ModuleType) -> None:
        """The module of executorch_py has been executed."""


class AliasFinder:
    def __init__(self, wheel: Path) -> None:
        self._wheel = wheel

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        first, _, below = fullname.partition(".")
        if first != _UPSTREAM:
            return None
        if spec := self._of_wheel(fullname, below):
            return spec
        ours = f"{_OURS}.{below}" if below else _OURS
        try:
            module = importlib.import_module(ours)
        except ImportError as error:
            name = error.name or ours
            if isinstance(error, ModuleNotFoundError) and not f"{ours}.".startswith(f"{name}."):
                raise  # a requirement of the module
            return self._missing(fullname, below, error)
        loader = _AliasLoader(module)
        is_package = hasattr(module, "__path__")
        return ModuleSpec(fullname, loader, is_package=is_package)  # type: ignore[arg-type]

    def _missing(self, fullname: str, below: str, error: ImportError) -> ModuleSpec | None:
        """A module that the wheel has and executorch_py has not."""
        place = self._wheel.joinpath(*below.split("."))
        files = (place.with_suffix(".py"), *place.parent.glob(f"{place.name}.*.so"))
        if not place.is_dir() and not any(file.is_file() for file in files):
            return None
        loader = _AliasLoader(None, error)
        return ModuleSpec(fullname, loader, is_package=place.is_dir())  # type: ignore[arg-type]

    def _of_wheel(self, fullname: str, below: str) -> ModuleSpec | None:
        parts = below.split(".")
        place = self._wheel.joinpath(*parts)
        if not {"test", "tests"} & set(parts) and not parts[-1].startswith("test_"):
            return None
        if place.with_suffix(".py").is_file():
            return importlib.util.spec_from_file_location(fullname, place.with_suffix(".py"))
        if (place / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(
                fullname, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        if place.is_dir():
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(place)]
            return spec
        return None


# ---- collection


class _WheelModule(pytest.Module):
    """A test file of the wheel, imported by its name, so that its helpers find each other."""

    def _getobj(self) -> types.ModuleType:
        below = self.path.relative_to(_WHEEL).with_suffix("")
        return importlib.import_module(".".join((_UPSTREAM, *below.parts)))


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if not module_path.is_relative_to(_WHEEL):
        return None
    module: pytest.Module = _WheelModule.from_parent(parent, path=module_path)
    return module


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A folder of the wheel, whose `__init__.py` stays unread."""
    if not path.is_relative_to(_WHEEL):
        return None
    folder: pytest.Collector = pytest.Dir.from_parent(parent, path=path)
    return folder


add_torchvision()
sys.meta_path.insert(0, AliasFinder(_WHEEL))
