"""Known failures of torch.export: messages by pattern, and for each the cause and a rewrite.

Rewrites are code that tests export and run. Relies on the messages of torch, on the frames of the
traceback, and on the guards of the shape environment found in them; changes nothing in torch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import linecache
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

_HIDDEN = (
    str(Path(torch.__file__).parent) + "/",
    str(Path(__file__).parents[1]) + "/",
    sysconfig.get_path("stdlib") + "/",
    "<string>",
    "<frozen",
    "<eval_with_key>",
)
_PACKAGES = sysconfig.get_path("purelib") + "/"
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str
    code: str


class Advice(NamedTuple):
    """Cause of a failure, its place in the user's code, and lines about the rewrite."""

    cause: str
    place: Place | None
    remedy: list[str]


def advice_for(error: Exception) -> Advice | None:
    """Advice on an error that torch.export raised; None for an unknown one."""
    text = str(error)
    place = _place(error, text)
    if _uses_packed_sequences(error, text):
        return Advice(_PACKED, place, _PACKED_REMEDY)
    for pattern, make in _KNOWN:
        match = re.search(pattern, text, re.DOTALL)
        if match:
            return make(error, match, place)
    return None


# ---- places


def _is_users(file: str) -> bool:
    in_packages = file.startswith(_PACKAGES) and not file.startswith(_HIDDEN[:2])
    return in_packages or not file.startswith(_HIDDEN)


def _at(file: str, line: int, function: str) -> Place:
    return Place(file, line, function, linecache.getline(file, line).strip())


def _frames(error: BaseException | None) -> Iterator[tuple[FrameType, int]]:
    if error is not None:
        yield from traceback.walk_tb(error.__traceback__)


def _place(error: Exception, text: str) -> Place | None:
    """The innermost line of the model, from the message or from the traceback below export()."""
    named = [(f, int(n), name) for f, n, name in _FRAME.findall(text) if _is_users(f)]
    if named:
        return _at(*named[-1])
    found = None
    inside = False
    for frame, line in _frames(error):
        file = frame.f_code.co_filename
        if file.startswith(_HIDDEN[0]):
            inside = True
        elif inside and _is_users(file):
            found = _at(file, line, frame.f_code.co_name)
    return found


def _guarded_place(error: Exception) -> Place | None:
    """The line of the model that narrowed a size, from the guards of the shape environment."""
    for frame, _ in _frames(error):
        env = getattr(frame.f_locals.get("fake_mode"), "shape_env", None)
        for guard in reversed(getattr(env, "guards", ())):
            where = guard.sloc.framework_loc
            if isinstance(where, traceback.FrameSummary) and _is_users(where.filename):
                return _at(where.filename, where.lineno or 0, where.name)
    return None


def _export_call(error: Exception) -> dict[str, Any]:
    """The arguments of the call of torch.export.export that failed."""
    for frame, _ in _frames(error):
        if frame.f_code.co_name == "export" and "mod" in frame.f_locals:
            return dict(frame.f_locals)
    return {}


def _place_by_strict_mode(error: Exception) -> Place | None:
    """The line that strict mode names: a second trace, since the usual mode names none."""
    call = _export_call(error)
    if not call or call.get("strict", True):
        return None
    quiet = io.StringIO()
    try:
        with contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
            torch.export.export(
                call["mod"],
                call["args"],
                call.get("kwargs"),
                dynamic_shapes=call.get("dynamic_shapes"),
                strict=True,
            )
    except Exception as again:
        return _place(again, str(again))
    return None


# ---- values that are known at run time only

_INVERSE = {"==": "!=", "!=": "==", ">": "<=", "<=": ">", "<": ">=", ">=": "<"}
_BRANCH = re.compile(r"(if|elif|while|assert)\b\s*(.+?)\s*(?::\s*(?:#.*)?|,\s*f?['\"].*)?$")

_TERNARY = re.compile(r"\bif\s+(.+?)\s+else\b")


def _control_flow(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    """Branches, loops and assertions on values of tensors."""
    code = place.code if place is not None else ""
    found = _BRANCH.match(code)
    chosen = _TERNARY.search(code)
    word, condition = (found[1], found[2]) if found else ("if", "condition")
    condition = chosen[1] if chosen and not found else condition
    sized = re.search(r"Size-like symbols: (u[^)]*)\)", str(error))
    if re.search(r"\.shape\b|\.size\(|\blen\(|\.numel\(", condition) or (
        sized and any(symbol in match.group(0) for symbol in sized[1].split(", "))
    ):
        return _size_decision(condition, place)
    if word == "assert":
        return Advice(
            "torch.export cannot trace an assertion on values of a tensor.",
            place,
            ["Assert in eager mode only:", f"    if not torch.compiler.is_exporting(): {code}"],
        )
    if word == "while":
        return Advice(
            "torch.export cannot trace a loop whose end depends on values of a tensor.",
            place,
            [
                "Write it as torch's loop; the body returns the operands of the next round:",
                "    from torch._higher_order_ops import while_loop",
                f"    (x,) = while_loop(lambda x: {condition}, lambda x: (body(x),), (x,))",
            ],
        )
    return Advice(
        "torch.export cannot trace a branch on values of a tensor: they are known only at run "
        "time.",
        place,
        [
            "Compute both results and choose:",
            f"    torch.where({condition}, result_if_true, result_if_false)",
            "Or keep both branches, which return tensors of equal shapes and types:",
            f"    torch.cond({condition}, lambda x: result_if_true, lambda x: result_if_false, "
            "(x,))",
        ],
    )


def _size_decision(condition: str, place: Place | None) -> Advice:
    """Branches on a size that depends on values."""
    parts = re.match(r"([^<>=!]+?)\s*([<>=!]=|[<>])\s*([^<>=!]+)$", condition)
    promises = [condition if parts else "rows.shape[0] != 0"]
    if parts:
        promises = [f"{parts[1]} {_INVERSE[parts[2]]} {parts[3]}", condition]
    return Advice(
        "torch.export cannot decide on a size that depends on values of a tensor: it is known "
        "only at run time.",
        place,
        [
            "Leave the decision out: kernels take empty tensors. Or promise its answer before:",
            "    " + "   or   ".join(f"torch._check({promise})" for promise in promises),
        ],
    )


def _number_from_tensor(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    code = place.code if place is not None else ""
    if ".tolist()" in code:
        return _list_from_tensor(error, match, place)
    value = _argument_of(code, "int") or _argument_of(code, "range") or "x.max()"
    remedy = []
    if not code.startswith(("for ", "while ")):
        remedy += [
            "For a size, keep it symbolic (no int()), with bounds, from which memory is planned:",
            f"    n = {value.removesuffix('.item()')}.item()",
            "    torch._check(n >= 0); torch._check(n <= 128)",
        ]
    return Advice(
        "torch.export cannot make a Python number of a tensor's value: it is known only at run "
        "time.",
        place,
        [
            *remedy,
            "For a number of rounds, always run the most rounds and keep what is wanted:",
            "    for i in range(128): x = torch.where(i < limit, step(x), x)   # limit: a tensor",
            "A number that never changes may be an attribute of the module or a Python argument.",
        ],
    )


def _argument_of(code: str, function: str) -> str | None:
    """The argument of the first call of a function in a line of code."""
    start = re.search(rf"(?<![\w.]){function}\(", code)
    if start is None:
        return None
    depth = 1
    for end in range(start.end(), len(code)):
        depth += {"(": 1, ")": -1}.get(code[end], 0)
        if depth == 0:
            return code[start.end() : end]
    return None


def _list_from_tensor(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    return Advice(
        "torch.export cannot make Python numbers of a tensor's values: they are known only at run "
        "time.",
        place,
        ["Compute with the tensor itself: leave .tolist() and torch.tensor(…) out."],
    )


def _formatted(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    return Advice(
        "torch.export cannot format a tensor's value as text: it is known only at run time.",
        place,
        ["Print in eager mode only:", "    if not torch.compiler.is_exporting(): print(…)"],
    )


def _numpy(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    return Advice(
        "torch.export cannot trace NumPy in its default mode.",
        place,
        [
            "Call torch's function of the same name instead, or trace NumPy's as torch's:",
            "    torch.export.export(model, inputs, strict=True)",
        ],
    )


# ---- sizes


def _constraints(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    """A dynamic dimension that the model fixes, or accepts in a narrower range only."""
    text = str(error)
    name = _dim_name(match["dims"])
    fixed = re.search(r"specialized it to be a constant \((\d+)\)|inferred to be.*?\((\d+)\)", text)
    if fixed is None:
        fixes = re.search(r"Suggested fixes:\n((?:  .+\n?)+)", text)
        lines = [line.strip() for line in fixes[1].splitlines()] if fixes else []
        return Advice(
            f"The model does not work alike for all sizes of dynamic dimension {name}.",
            place or _guarded_place(error),
            [
                "Declare the sizes that this path of the code takes:",
                *(f"    {_with_torch(line)}" for line in lines[:5]),
            ],
        )
    size = next(group for group in fixed.groups() if group)
    if size in "01":
        return Advice(
            f"Dynamic dimension {name} has size {size} in the example inputs, and torch.export "
            "takes sizes 0 and 1 for constants.",
            None,
            ["Export with an example of size 2 or more; the file also takes size 1 then."],
        )
    return Advice(
        f"Dynamic dimension {name} is fixed by the model: it takes size {size} only.",
        place or _place_by_strict_mode(error),
        [
            "Take sizes from the input in that line, and let no weight or constant have them:",
            "    x.reshape(x.shape[0], -1)   instead of   x.reshape(" + size + ", -1)",
            "Or, if no other size is needed, leave the dimension out of dynamic_shapes.",
        ],
    )


def _dim_name(dims: str) -> str:
    """The dimension by the name of its Dim, or by its input."""
    inside = re.match(r"L\['(\w+)'\](?:\[(\d+)\])?.*\.size\(\)\[(\d+)\]", dims)
    if inside is None:
        return f"'{dims}'"
    return f"{inside[3]} of input '{inside[1]}'"


def _with_torch(line: str) -> str:
    return re.sub(r"(?<![.\w])Dim\(", "torch.export.Dim(", line)


def _out_of_range(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    return Advice(
        f"An example input has size {match[1]} in a dynamic dimension of {match[2]} to {match[3]}.",
        None,
        [f"Give an example within the bounds, or declare max={match[1]} or more in its Dim."],
    )


# ---- inputs and outputs


def _input_type(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    kind = match["type"].rpartition(".")[2]
    if kind.endswith("Cache"):
        return Advice(f"torch.export takes tensors, not a {kind}, as an input.", None, _CACHE)
    return Advice(
        f"torch.export takes tensors, numbers and containers of them, not a {kind}, as an input.",
        None,
        _registration(match["type"])
        or ["Pass its tensors as arguments of their own, or in a tuple, list or dict."],
    )


def _registration(qualified: str) -> list[str]:
    """Advice to register a class if it is a dataclass: torch refuses others."""
    module, _, name = qualified.rpartition(".")
    kind = getattr(sys.modules.get(module), name, None)
    if not dataclasses.is_dataclass(kind):
        return []
    return [
        "It is a dataclass: tell torch its fields, once, before the export:",
        f"    torch.export.register_dataclass({name})",
    ]


def _output_type(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
    kind = match["type"].rpartition(".")[2]
    if kind.endswith("Cache"):
        return Advice(f"The model returns a {kind}, which is no tensor.", None, _CACHE)
    return Advice(
        f"torch.export returns tensors, numbers and containers of them, not a {kind}.",
        None,
        _registration(match["type"]) or ["Return a tuple, a list or a dict of tensors."],
    )


_CACHE = [
    "Leave the cache out:",
    '    torch.export.export(model, inputs, {"use_cache": False})',
    "Or keep it in buffers of a module of your own, which the file keeps from call to call:",
    '    self.register_buffer("keys", torch.zeros(1, n_heads, 128, head_size))   # __init__',
    "    self.keys[:, :, position] = key   # forward, position being a tensor of integers",
]
_PACKED = (
    "torch.export cannot trace packed sequences: their layout depends on the lengths, which are "
    "known only at run time."
)
_PACKED_REMEDY = [
    "Run the layer on the padded batch; in one direction no step depends on later padding:",
    "    output, _ = lstm(padded)   # with batch_first=True",
    "    output = output * (torch.arange(padded.shape[1]) < lengths[:, None])[..., None]",
    "    last = output[torch.arange(padded.shape[0]), lengths - 1]",
    "For two directions, run a second layer on each sequence reversed, found by torch.gather().",
]


def _uses_packed_sequences(error: Exception, text: str) -> bool:
    if "pack_padded_sequence" in text or "PackedSequence" in text:
        return True
    for frame, _ in _frames(error):
        file, values = frame.f_code.co_filename, frame.f_locals
        if file.endswith("torch/nn/utils/rnn.py"):
            return True
        if file.endswith("torch/nn/modules/rnn.py") and values.get("batch_sizes") is not None:
            return True
    packed = torch.nn.utils.rnn.PackedSequence
    values = tree_leaves(_export_call(error).get("args"), lambda v: isinstance(v, packed))
    return any(isinstance(value, packed) for value in values)


# ---- the call


def _call(cause: str, *remedy: str) -> Callable[[Exception, re.Match[str], Any], Advice]:
    """Advice on wrong arguments; {1} is the first group of the pattern."""

    def make(error: Exception, match: re.Match[str], place: Place | None) -> Advice:
        groups = ("", *match.groups())
        return Advice(cause.format(*groups), None, [line.format(*groups) for line in remedy])

    return make


_KNOWN: list[tuple[str, Callable[[Exception, re.Match[str], Place | None], Advice]]] = [
    (r"Unsupported input type <class '(?P<type>[^']+)'>", _input_type),
    (r"inputs with type `<class '(?P<type>[^']+)'>` is not supported", _input_type),
    (r"Found <class '(?P<type>[^']+)'> in output", _output_type),
    (r"unrecognized type UserDefinedObjectVariable\((?P<type>\w+)\) at output", _output_type),
    (r"Could not extract specialized integer from data-dependent", _number_from_tensor),
    (r"Tensor\.tolist\(\) with non-integer tensor", _list_from_tensor),
    (r"(Could not guard on data-dependent expression [^\n]*|Data-dependent bran)", _control_flow),
    (r"Constraints violated \((?P<dims>[^\n]+?)\)!", _constraints),
    (r"^(\d+) not in range \[(\d+), (\d+)\]", _out_of_range),
    (r"unsupported format string passed to Sym", _formatted),
    (r"\.numpy\(\) is not supported for tensor subclasses", _numpy),
    (
        r"Expecting `args` to be a tuple of example positional inputs, got <class '([\w.]+)'>",
        _call(
            "args of torch.export.export: expected a tuple of example inputs, got a {1}.",
            "Write (x,) for one input:",
            "    torch.export.export(model, (x,))",
        ),
    ),
    (
        r"Expected `mod` to be an instance of `torch.nn.Module`, got <class '([\w.]+)'>",
        _call(
            "model of torch.export.export: expected a torch.nn.Module, got a {1}.",
            "Call the function in the forward of a class derived from torch.nn.Module.",
        ),
    ),
    (
        r"top-level keys must be the arg names \[([^\]]*)\][^\[]*\[([^\]]*)\]",
        _call(
            "dynamic_shapes: expected the model's arguments {1} as keys, got {2}.",
            "Write a dict with all of them, None for those of fixed sizes; or a tuple in order.",
        ),
    ),
    (
        r"`inputs` has (\d+) elements, but `dynamic_shapes` has (\d+) elements",
        _call(
            "dynamic_shapes: expected {1} items, one for each input, got {2}.",
            "Write None for inputs of fixed sizes:",
            "    dynamic_shapes=({{0: torch.export.Dim('batch', max=64)}}, None)",
        ),
    ),
    (
        r"^list assignment index out of range$",
        _call(
            "dynamic_shapes: expected dimensions below the rank of each input, got a larger one."
        ),
    ),
    (
        r"^(too many positional arguments|missing a required (?:keyword-only )?argument: .*)$",
        _call(
            "example inputs of torch.export.export: {1}.",
            "Pass what the model's forward takes: torch.export.export(model, args, kwargs)",
        ),
    ),
]
