"""An LlmConfig from a YAML file and `group.key=value` texts, which win over the file.

Unknown keys are refused with the nearest known one, values of another type with the type. A text
is read as the type of its key says: numbers, true and false, null, [a, b] or "quoted". As in files
of upstream, ${oc.env:NAME} stands for an environment variable.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from executorch_py.extension.llm.export.config.llm_config import LlmConfig
from executorch_py.terminal_text import quoted

_ENVIRONMENT = re.compile(r"\$\{oc\.env:([A-Za-z_][A-Za-z0-9_]*)(?:,([^}]*))?\}")
_NULL = ("null", "none", "~", "")


class ConfigError(ValueError):
    """A configuration that is not one: the message names the key and what was expected."""


class _Text(str):
    """A value from the command line, whose type is the key's."""


def read_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> LlmConfig:
    """The configuration of a YAML file, if any, changed by texts `[+]group.key=value`."""
    entries: dict[str, Any] = {} if path is None else _read_yaml(Path(path))
    for text in overrides:
        _place(entries, text)
    return config_of(entries)


def config_of(entries: Mapping[str, Any]) -> LlmConfig:
    """The configuration of nested dictionaries."""
    config: LlmConfig = _made(LlmConfig, entries, "")
    return config


def checked(config: LlmConfig) -> LlmConfig:
    """The same configuration with every field of its type and all relations checked, since fields
    can be set to anything after a group was made."""
    return config_of(dataclasses.asdict(config))


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise ConfigError(
            f"{path}: expected PyYAML to be installed for YAML files, got none: pip install pyyaml"
        ) from None
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: expected a YAML file, got {error}") from None
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise ConfigError(f"{path}: expected groups of keys, got a {type(entries).__name__}")
    return entries


def _place(entries: dict[str, Any], text: str) -> None:
    """Sets the key of one `[+]group.key=value` in nested dictionaries."""
    key, equals, value = text.partition("=")
    names = key.strip().removeprefix("++").removeprefix("+").split(".")
    if not equals or not all(names):
        raise ConfigError(f"expected group.key=value, got {quoted(text)}")
    at = entries
    for name in names[:-1]:
        inner = at.get(name)
        at[name] = dict(inner) if isinstance(inner, Mapping) else {}
        at = at[name]
    at[names[-1]] = _Text(value.strip())


# ---- values of a type


def _made(kind: Any, entries: Any, where: str) -> Any:
    """A dataclass from a dictionary of its fields; nothing stands for none of them."""
    entries = {} if entries is None else entries
    if not isinstance(entries, Mapping):
        raise _unexpected(where, "a group of keys", entries)
    hints = typing.get_type_hints(kind)
    for key in entries:
        if key not in hints:
            raise _unknown(where, str(key), list(hints))
    prefix = f"{where}." if where else ""
    values = {key: _value(hints[key], entries[key], prefix + key) for key in entries}
    missing = [
        f.name
        for f in dataclasses.fields(kind)
        if f.name not in values
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: expected the key {missing[0]}, got none")
    try:
        return kind(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _unknown(where: str, key: str, known: list[str]) -> ConfigError:
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {quoted(near[0])}?" if near else f"known are {', '.join(known)}"
    place = f"key of {where}" if where else "group"
    return ConfigError(f"expected a {place}, got {quoted(key)}: {hint}")


def _unexpected(where: str, expected: str, value: Any) -> ConfigError:
    got = quoted(str(value)) if isinstance(value, _Text) else quoted(repr(value))
    return ConfigError(f"{where}: expected {expected}, got {got}")


def _value(hint: Any, value: Any, where: str) -> Any:
    """A value of a type, from YAML or from text."""
    if isinstance(value, str):
        value = _with_environment(value, where)
    options = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        is_null = value is None or (isinstance(value, _Text) and value.lower() in _NULL)
        if is_null:
            return None
        return _value(options[0], value, where)
    if dataclasses.is_dataclass(hint):
        return _made(hint, _parsed(value), where)
    if typing.get_origin(hint) is list:
        return _list(options[0], value, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice(hint, value, where)
    return _plain(hint, value, where)


def _with_environment(value: str, where: str) -> str:
    def found(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name not in os.environ and default is None:
            raise ConfigError(f"{where}: expected the environment variable {name}, got none")
        return os.environ.get(name, default or "")

    return type(value)(_ENVIRONMENT.sub(found, value))


def _parsed(value: Any) -> Any:
    """The JSON of a text from the command line; other values as they are."""
    if not isinstance(value, _Text):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _list(kind: Any, value: Any, where: str) -> list[Any]:
    if isinstance(value, _Text):
        parsed = _parsed(value)
        if isinstance(parsed, _Text) and value.startswith("[") and value.endswith("]"):
            inner = value[1:-1].strip()
            parsed = [_Text(part.strip()) for part in inner.split(",")] if inner else []
        value = parsed
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _unexpected(where, "a list", value)
    return [_value(kind, entry, f"{where}[{i}]") for i, entry in enumerate(value)]


def _choice(kind: type[Enum], value: Any, where: str) -> Enum:
    """A member of an enumeration, by its name or value."""
    for member in kind:
        if value == member.value or value == member.name:
            return member
    names = [member.name for member in kind]
    near = difflib.get_close_matches(str(value), names, 1)
    hint = f"; {near[0]} is near" if near else ""
    raise _unexpected(where, f"one of {', '.join(names)}{hint}", value)


def _plain(hint: Any, value: Any, where: str) -> Any:
    """A bool, int, float or str."""
    if isinstance(value, _Text):
        return _from_text(hint, value, where)
    if hint is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is hint:
        return value
    raise _unexpected(where, f"a {hint.__name__}", value)


def _from_text(hint: Any, text: _Text, where: str) -> Any:
    if hint is str:
        is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
        if not is_quoted:
            return str(text)
        return re.sub(r"\\([\"'\\])", r"\1", text[1:-1])
    if hint is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if hint in (int, float):
            return hint(text)
    except ValueError:
        pass
    expected = "true or false" if hint is bool else f"a {hint.__name__}"
    raise _unexpected(where, expected, text)
