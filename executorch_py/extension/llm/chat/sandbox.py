"""Jinja as chat templates use it, in a sandbox that bounds time and memory.

Templates have the language that transformers gives them: blocks are trimmed, loops have break and
continue, there are `raise_exception`, `strftime_now`, `tojson` and the tag `generation`. Beyond
Jinja's own sandbox, each round of a loop, call, filter and operator is counted, and only the
filters and methods that are listed here exist. The counting is put into the parsed template.
Imported when a template is rendered.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer

from executorch_py.extension.llm.chat.limits import Budget, LimitReached, TrackedText

_FILTERS = """abs batch capitalize center count d default dictsort e escape first float format
groupby indent int items join last length list lower map max min reject rejectattr replace reverse
round safe select selectattr slice sort string sum title trim truncate unique upper wordcount"""
# Filters that put a text nowhere but in a list, or take blanks from around it.
_OPAQUE = {"count", "d", "default", "first", "items", "last", "length", "list", "map", "reject"}
_OPAQUE |= {"rejectattr", "reverse", "select", "selectattr", "slice", "batch", "trim"}
_TEXT_METHODS = """capitalize casefold center count endswith expandtabs find format index isalnum
isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper
join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition
rsplit rstrip split splitlines startswith strip swapcase title upper zfill"""
_METHODS: tuple[tuple[type | tuple[type, ...], frozenset[str]], ...] = (
    (str, frozenset(_TEXT_METHODS.split())),
    (dict, frozenset({"copy", "get", "items", "keys", "values"})),
    ((list, tuple), frozenset({"copy", "count", "index"})),
    ((int, float, complex, type(None)), frozenset()),
)
# Names of filters that no template can write.
_STEP, _COUNTED, _MEASURED, _JOINED = "a step", "counted items", "a measured value", "joined text"
_INNER = "text in a block"
_BUDGET: ContextVar[Budget] = ContextVar("chat_budget")


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Templates that are compiled or rendered inside take of this budget."""
    token = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(token)


class _Namespace(Namespace):
    """A namespace without names that begin with an underscore."""

    def __init__(self, /, *values: Any, **named: Any) -> None:
        attributes = dict(*values, **named)
        for name in attributes:
            _check_name(name)
        super().__init__(attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)

    @staticmethod
    def held(namespace: Namespace) -> Iterable[Any]:
        """The values in a namespace."""
        values: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
        return values.values()


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or name.startswith("_"):
        raise SecurityError(f"names in a namespace begin with a letter: {name!r}")


class _GenerationTag(Extension):
    """`{% generation %} … {% endgeneration %}` around the text of an answer."""

    tags: set[str] = {"generation"}  # noqa: RUF012 Jinja's own declaration

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Counting(NodeTransformer):
    """Puts steps into loops and macros, and measures into what makes values without a call."""

    _inner = 0  # macros and blocks around a node, whose text is a value

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _step(node))
        if node.test is not None:
            node.iter = _filter(node.iter, _COUNTED)
        return node

    def visit_Block(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body.insert(0, _step(node))
        return node

    def visit_Macro(self, node: Any) -> Any:
        self._inner += 1
        self.visit_Block(node)
        self._inner -= 1
        return node

    visit_AssignBlock = visit_CallBlock = visit_FilterBlock = visit_Macro

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        self.generic_visit(node)
        if self._inner:
            texts = (nodes.TemplateData, nodes.Const)
            node.nodes = [n if isinstance(n, texts) else _filter(n, _INNER) for n in node.nodes]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filter(nodes.Tuple(node.nodes, "load", lineno=node.lineno), _JOINED)

    def visit_List(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node, _MEASURED)

    visit_Dict = visit_List

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node, _MEASURED) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node, _MEASURED) if isinstance(node.arg, nodes.Slice) else node


def _filter(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _step(node: nodes.Node) -> nodes.Node:
    """A step that counts the text between tags inside of a loop or macro."""
    size = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
    return nodes.ExprStmt(_filter(nodes.Const(size, lineno=node.lineno), _STEP), lineno=node.lineno)


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox; one for all templates."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def _generate(self, source: nodes.Template, *args: Any, **named: Any) -> str:
        code: str = super()._generate(_Counting().visit(source), *args, **named)
        return code

    def getattr(self, obj: Any, attribute: str) -> Any:
        for kind, names in _METHODS:
            if isinstance(obj, kind):
                if attribute in names:
                    return _method(attribute, obj, super().getattr(obj, attribute))
                if isinstance(obj, dict) and attribute in obj:
                    return obj[attribute]
                if attribute in getattr(type(obj), "_fields", ()):  # groups of groupby
                    return getattr(obj, attribute)
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (TypeError, LookupError):
            if isinstance(argument, str):
                return self.getattr(obj, str(argument))
            return self.undefined(obj=obj, name=argument)

    def call(self, context: Any, obj: Any, /, *values: Any, **named: Any) -> Any:
        budget = _BUDGET.get()
        budget.step()
        return budget.made(super().call(context, obj, *values, **named))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        budget = _BUDGET.get()
        budget.check_operator(operator, left, right)
        if operator != "+":
            _look((left, right), f"operator {operator}")
        return budget.made(super().call_binop(context, operator, left, right))


def _look(values: Any, how: str) -> None:
    _BUDGET.get().measure(values, lambda text: text.look(how))


def _method(name: str, obj: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a value, which counts what it makes."""

    def call(*values: Any, **named: Any) -> Any:
        budget = _BUDGET.get()
        if name == "join" and values:
            values = (list(budget.counted(values[0])), *values[1:])
            budget.expect(budget.measure(values[0]) + len(values[0]) * len(obj))
        budget.check_call(name, (obj, *values), named)
        if isinstance(obj, str):  # a text's own methods note what they are asked
            _look((values, named), f"method {name}")
        return method(*values, **named)

    return call


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that counts what it makes."""
    first = 0 if getattr(function, "jinja_pass_arg", None) is None else 1

    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        budget = _BUDGET.get()
        given = values[first:]
        if name == "join":
            items = list(budget.counted(given[0]))
            given = (items, *given[1:])
            values = (*values[:first], *given)
            between = max([0, *(len(str(x)) for x in (*given[1:], *named.values()))])
            budget.expect(budget.measure(items) + len(items) * between)
        budget.measure(given)
        budget.check_call(name, given, named)
        if name not in _OPAQUE:
            _look((given, named), f"filter {name}")
        return budget.made(function(*values, **named))

    return call


# ---- functions and filters that templates see


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    budget = _BUDGET.get()
    step = indent if isinstance(indent, int) else len(indent or "")
    if step > 100:
        raise LimitReached("tojson() with an indent of 100 places")
    budget.expect(budget.measure(value) * (1 + max(0, step)))
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: Any) -> None:
    raise TemplateError(str(message))


def _strftime_now(pattern: str) -> str:
    _BUDGET.get().check_format(pattern, ())
    return datetime.now().strftime(pattern)


def _dict(*values: Any, **named: Any) -> dict[Any, Any]:
    return dict(*values, **named)


def _maker(kind: type) -> Callable[..., Any]:
    """A class as a function, without the attributes of a class."""
    return lambda *values, **named: kind(*values, **named)


def _joined(items: tuple[Any, ...]) -> Any:
    """The texts of `a ~ b`."""
    budget = _BUDGET.get()
    budget.expect(budget.measure(items))
    if any(isinstance(item, TrackedText) for item in items):
        _look([x for x in items if not isinstance(x, str)], "operator ~")
        return functools.reduce(operator.add, (x if isinstance(x, str) else str(x) for x in items))
    return budget.made("".join(map(str, items)))


def _in_block(value: Any) -> Any:
    """A value before it becomes part of the text of a macro or block."""
    _look(value, "a macro or block")
    return value


def _finalized(value: Any) -> Any:
    """A value before it is put out."""
    _BUDGET.get().made(value)
    if not isinstance(value, str):
        _look(value, "text of a list")
    return value


@functools.cache
def environment() -> _Environment:
    """The environment of all templates, which nothing changes."""
    made = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,
        finalize=_finalized,
        extensions=[_GenerationTag, loopcontrols],
    )
    known = made.filters
    made.filters = {name: _guarded(name, known[name]) for name in _FILTERS.split()}
    made.filters["tojson"] = _guarded("tojson", _tojson)
    made.filters[_STEP] = lambda size: _BUDGET.get().step(size)
    made.filters[_COUNTED] = lambda items: _BUDGET.get().counted(items)
    made.filters[_MEASURED] = lambda value: _BUDGET.get().made(value)
    made.filters[_JOINED] = _joined
    made.filters[_INNER] = _in_block
    given: dict[str, Any] = {"cycler": Cycler, "joiner": Joiner, "namespace": _Namespace}
    made.globals = {name: _maker(kind) for name, kind in given.items()}
    made.globals |= {"dict": _dict, "raise_exception": _raise_exception, "range": _range}
    made.globals["strftime_now"] = _strftime_now
    return made


def _range(*values: int) -> range:
    found = range(*values)
    if len(found) > 100_000:
        raise LimitReached("a range of 100,000 numbers")
    return found


@functools.lru_cache(maxsize=16)
def compiled(text: str) -> Any:
    """A template that is ready to be rendered; TemplateError and others if it is damaged."""
    return environment().from_string(text)


def rendered(text: str, variables: dict[str, Any], budget: Budget) -> str:
    """The text of a template; any exception of a template that fails."""
    with spending(budget):
        pieces = []
        for piece in compiled(text).generate(variables):
            budget.step(len(piece))
            pieces.append(piece)
        return "".join(pieces)
