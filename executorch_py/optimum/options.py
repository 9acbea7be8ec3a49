"""Options of an export by the names of optimum-executorch, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from executorch_py.errors import InvalidArgument, NotSupported

OWN, UPSTREAM = "executorch_py", "executorch-1.5"
_DEFAULT_LENGTH = 2048
# Least length of a context: that of the range of lengths that tracing needs.
_LEAST_LENGTH = 4
DEFAULT_GROUP = 32
_LINEAR = ("8da4w", "8da8w", "4w", "8w")
_DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class LinearMode:
    """Weights of linear layers in few bits. A group is of weights that share a scale; 0: a row."""

    bits: int
    group: int
    is_dynamic: bool  # activations become int8; else they stay float

    @classmethod
    def of(cls, name: str, group: int) -> LinearMode:
        """The mode of a name such as "8da4w"."""
        return cls(4 if name.endswith("4w") else 8, group, name.startswith("8da"))


@dataclass(frozen=True)
class ExportOptions:
    """How a decoder becomes a program.

    `target` is this project's runtime, "executorch_py", or "executorch-1.5": a file for upstream's,
    in the convention of optimum-executorch. Options without a meaning for the first are accepted:
    its attention and caches are always fused. `qlinear` is a mode of linear layers, or "a,b": b for
    those whose number of inputs is no multiple of the group of a, which is of whole rows with 0.
    """

    target: str = OWN
    task: str = "text-generation"
    recipe: str = "xnnpack"
    attn_implementation: str | None = None
    use_custom_sdpa: bool = False
    use_custom_kv_cache: bool = False
    disable_dynamic_shapes: bool = False
    qlinear: str | None = None
    qlinear_group_size: int | None = None
    qembedding: str | None = None
    qembedding_group_size: int | None = None
    max_seq_len: int | None = None
    dtype: Any = "float32"
    device: str = "cpu"
    gguf_file: str | None = None

    def __post_init__(self) -> None:
        _one_of("target", self.target, OWN, UPSTREAM)
        _one_of("task", self.task, "text-generation")
        _one_of("recipe", self.recipe, "xnnpack", "portable")
        _one_of("attn_implementation", self.attn_implementation, None, "custom_sdpa", "sdpa")
        self._check_linear()
        _one_of("qembedding", self.qembedding, None, "4w", "8w")
        _one_of("device", self.device, "cpu")
        self._check_dtype()
        for name, least in (
            ("max_seq_len", _LEAST_LENGTH),
            ("qlinear_group_size", 0),
            ("qembedding_group_size", 0),
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise InvalidArgument(
                    f"{name}: expected {least} or more, got {value!r} "
                    "[InvalidArgument, error: 0x12]"
                )
        if self.disable_dynamic_shapes and self.target == OWN:
            raise _unsupported("disable_dynamic_shapes", f'False with target="{OWN}"', True)

    def _check_linear(self) -> None:
        names = self._linear_names
        if len(names) > 2 or not set(names) <= set(_LINEAR):
            expected = f'None or {_quoted(_LINEAR)}, or two of them as "a,b"'
            raise _unsupported("qlinear", expected, self.qlinear)
        group = self.qlinear_group_size
        if names[:1] == ["8da8w"] and self.target == UPSTREAM and group:
            # The delegate has 8-bit weights with a scale for each row only.
            expected = f'0 with qlinear="{self.qlinear}" and target="{UPSTREAM}"'
            raise _unsupported("qlinear_group_size", expected, group)

    def _check_dtype(self) -> None:
        name = self.dtype_name
        _one_of("dtype", name, *_DTYPES)
        if name == "float32":
            return
        for other in ("qlinear", "qembedding"):
            if getattr(self, other) is not None:
                raise _unsupported("dtype", f'"float32" beside {other}', name)
        if self.target == OWN:
            raise _unsupported("dtype", f'"float32", or target="{UPSTREAM}"', name)

    @classmethod
    def of(cls, options: dict[str, Any]) -> ExportOptions:
        """TypeError for an unknown name, with the names that there are."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise TypeError(f"expected options of the names {', '.join(names)}, got {name!r}")
        return cls(**options)

    @property
    def dtype_name(self) -> str:
        """The dtype of float weights, caches and logits by torch's name."""
        name = str(self.dtype).removeprefix("torch.")
        return "float32" if name == "None" else name

    @property
    def _linear_names(self) -> list[str]:
        return [] if self.qlinear is None else [n.strip() for n in str(self.qlinear).split(",")]

    @property
    def linear_modes(self) -> list[LinearMode]:
        """The mode of linear layers, and that of those whose inputs its group does not divide."""
        names, group = self._linear_names, self.qlinear_group_size
        if not names:
            return []
        if group is None:
            by_row = self.target == UPSTREAM and names[0] == "8da8w"
            group = 0 if by_row else DEFAULT_GROUP
        modes = [LinearMode.of(name, size) for name, size in zip(names, (group, 0), strict=False)]
        return modes if group else modes[:1]

    @property
    def uses_custom_sdpa(self) -> bool:
        return (
            self.use_custom_sdpa
            or self.use_custom_kv_cache
            or self.attn_implementation == "custom_sdpa"
        )

    def source(self, folder: Path) -> Path:
        """The folder of the model, or its GGUF file."""
        return folder if self.gguf_file is None else folder / self.gguf_file

    def length(self, config: Any) -> int:
        """Positions of the caches: as asked, else what the model was trained for, at most 2,048."""
        if self.max_seq_len is not None:
            return self.max_seq_len
        trained = getattr(config, "max_position_embeddings", None) or _DEFAULT_LENGTH
        return min(int(trained), _DEFAULT_LENGTH)


def _quoted(choices: Iterable[Any]) -> str:
    return " or ".join(f'"{c}"' if isinstance(c, str) else str(c) for c in choices)


def _one_of(name: str, value: Any, *choices: Any) -> None:
    if value not in choices:
        raise _unsupported(name, _quoted(choices), value)


def _unsupported(name: str, expected: str, value: Any) -> NotSupported:
    return NotSupported(f"{name}: expected {expected}, got {value!r} [NotSupported, error: 0x10]")
