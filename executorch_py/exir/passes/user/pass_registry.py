"""PassRegistry: passes by name, for tools that build pipelines from text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from executorch_py.exir.error import ExportError, ExportErrorType


class PassRegistry:
    """A process-wide table of lists of passes."""

    registry: ClassVar[dict[str, list[Any]]] = {}

    @classmethod
    def register(cls, pass_name: str | None = None) -> Callable[[Any], Any]:
        """Decorator for a function, class or instance; without a name its own, in snake_case, is
        used, or that of the instance's class.
        """

        def add(one_pass: Any) -> Any:
            own = getattr(one_pass, "__name__", type(one_pass).__name__)
            own_name = re.sub(r"(?<=.)(?=[A-Z])", "_", own).lower()
            cls.register_list(pass_name or own_name, [one_pass])
            return one_pass

        return add

    @classmethod
    def register_list(cls, pass_name: str, pass_list: Sequence[Any]) -> None:
        """Register several passes under one name; warns and does nothing if the name is taken."""
        if pass_name in cls.registry:
            warnings.warn(f"the pass {pass_name} is registered already; ignored", stacklevel=2)
            return
        cls.registry[pass_name] = list(pass_list)

    @classmethod
    def get(cls, key: str) -> list[Any]:
        """The passes of a name; ExportError when there are none."""
        if key not in cls.registry:
            raise ExportError(
                ExportErrorType.MISSING_PROPERTY,
                f"pass name: expected one of {sorted(cls.registry)}, got {key!r}",
            )
        return cls.registry[key]
