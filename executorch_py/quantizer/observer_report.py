"""Report on the observers of a prepared model: range, scale, clipping; a row per observer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import fx, nn

from executorch_py.quantizer.annotate import LEFT_FLOAT
from executorch_py.quantizer.observers import Watched, observers_of

DEAD = 0.5  # share of unused integers from which on the summary counts an observer


@dataclass(frozen=True)
class Observed:
    """One observer.

    least, greatest: the range of its data. clipped: the share of elements more than half a
    quantization step outside the integers. dead: the share of integers that its data does not use.
    """

    name: str
    kind: str  # "weight" or "activation"
    samples: int
    least: float
    greatest: float
    scale: float | None  # the greatest one of several
    zero_point: int | None
    clipped: float
    dead: float
    not_finite: int


@dataclass(frozen=True)
class Table:
    """A table for printing; `rows` are dataclasses of one kind."""

    rows: Sequence[Any]
    columns: Sequence[tuple[str, Callable[[Any], str]]]
    summary: str = ""

    def records(self) -> list[dict[str, Any]]:
        """A dictionary per row, for a data frame."""
        return [asdict(row) for row in self.rows]

    def __str__(self) -> str:
        head = [name for name, _ in self.columns]
        body = [[show(row) for _, show in self.columns] for row in self.rows]
        widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in [head, *body]
        ]
        return "\n".join([*lines, self.summary] if self.summary else lines)


def report(prepared: nn.Module) -> Table:
    """A table with a row for each observer of a prepared model, in graph order.

    Raises ValueError for a model without observers of this package.
    """
    rows = [_row(name, observer) for name, observer in observers_of(prepared)]
    if not rows:
        raise ValueError(
            "expected a prepared model, got one that has no observers of executorch_py.quantizer:"
            " it was prepared by another package or is converted already"
        )
    unseen = sum(row.samples == 0 for row in rows)
    dead = sum(row.dead > DEAD for row in rows)
    words = [f"{len(rows)} observers", f"{unseen} saw no data" if unseen else ""]
    left = len(prepared.meta.get(LEFT_FLOAT, ())) if isinstance(prepared, fx.GraphModule) else 0
    words.append(f"{left} calls left float: see left_float" if left else "")
    words.append(f"{dead} need less than {1 - DEAD:.0%} of their integers" if dead else "")
    return Table(rows, _COLUMNS, "; ".join(word for word in words if word))


def percent(share: float) -> str:
    """A share as a percentage for tables; "-" below 0.05 %."""
    return f"{share:.1%}" if share >= 0.0005 else "-"


_COLUMNS: Sequence[tuple[str, Callable[[Observed], str]]] = (
    ("observed", lambda r: r.name),
    ("kind", lambda r: r.kind),
    ("samples", lambda r: str(r.samples) if r.kind == "activation" else ""),
    ("least", lambda r: f"{r.least:.4g}"),
    ("greatest", lambda r: f"{r.greatest:.4g}"),
    ("scale", lambda r: "" if r.scale is None else f"{r.scale:.3g}"),
    ("zero", lambda r: "" if r.zero_point is None else str(r.zero_point)),
    ("clipped", lambda r: percent(r.clipped)),
    ("dead", lambda r: percent(r.dead)),
)


def _row(name: str, observer: Watched) -> Observed:
    seen = observer.seen
    scale, zero_point, clipped, dead = None, None, 0.0, 0.0
    if not seen.is_empty:
        scales, zero_points = _parameters(observer)
        scale, zero_point = float(scales.max()), int(zero_points.reshape(-1)[0])
        levels = observer.quant_max - observer.quant_min
        dead = max(0.0, 1 - (seen.greatest - seen.least) / scale / levels)
        low = (observer.quant_min - zero_point - 0.5) * scale  # half a step is rounding
        clipped = _outside(observer, low, low + (levels + 1) * scale)
    return Observed(
        name,
        "weight" if observer.is_weight else "activation",
        seen.samples,
        seen.least,
        seen.greatest,
        scale,
        zero_point,
        clipped,
        dead,
        seen.not_finite,
    )


def _parameters(observer: Watched) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points, without the check that all observers of the model have data."""
    inner = getattr(observer, "activation_post_process", None)
    if inner is not None:
        scales, zero_points = inner.calculate_qparams()
    else:
        scales, zero_points = super(Watched, observer).calculate_qparams()
    return scales.float(), zero_points


def _outside(observer: Watched, low: float, high: float) -> float:
    """The share of a histogram's counts outside a range."""
    counts = getattr(observer, "histogram", None)
    if counts is None or float(counts.sum()) == 0:
        return 0.0
    least, greatest = float(observer.min_val), float(observer.max_val)
    width = (greatest - least) / len(counts)
    middles = least + width * (torch.arange(len(counts)) + 0.5)
    margin = width / 2
    outside = (middles < low - margin) | (middles > high + margin)
    return float(counts[outside].sum() / counts.sum())


__all__ = ["Observed", "Table", "report"]
