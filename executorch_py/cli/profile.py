"""The table of `executorch_py run --profile`.

The table lists operators by their share of the time, and the slowest instructions. Each has its
rates and its share of the roofline (see runtime/profile.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from executorch_py.runtime.profile import InstructionProfile
from executorch_py.runtime.roofline import Rates, Roofline, measured
from executorch_py.terminal_text import name_text

SLOWEST = 8


def profile_text(profile: list[InstructionProfile], n_threads: int) -> str:
    """The profile of a run with `n_threads` threads, as text."""
    total = sum(p.seconds for p in profile)
    lines = [
        f"profile: {len(profile)} instructions, {total * 1e3:.3f} ms (medians, clocks included)",
        roofline_text(measured(n_threads)),
        "   share         ms   calls  operator",
    ]
    by_operator: dict[str, list[InstructionProfile]] = {}
    for p in profile:
        by_operator.setdefault(p.operator, []).append(p)
    for operator in sorted(by_operator, key=lambda o: -_seconds(by_operator[o])):
        group = by_operator[operator]
        seconds = _seconds(group)
        share = seconds / total if total else 0.0
        calls = sum(p.calls for p in group)
        lines.append(
            f"  {share:6.1%}  {seconds * 1e3:9.3f}  {calls:6}  {name_text(operator):<40} "
            f"{_rates(group)}"
        )
        lines += _node_lines(group, total)
    lines.append("slowest instructions:")
    for p in sorted(profile, key=lambda p: -p.seconds)[:SLOWEST]:
        operands = " ".join(f"{dtype}{list(shape)}" for dtype, shape in p.tensors)
        lines.append(
            f"  {p.seconds * 1e3:9.3f} ms  #{p.instruction} {name_text(p.operator)} {operands}"
            f"  {_rates([p])}"
        )
    return "\n".join(line.rstrip() for line in lines)


def _node_lines(group: list[InstructionProfile], total: float) -> list[str]:
    """Lines of the nodes inside delegates, by name."""
    by_name: dict[str, list[float]] = {}
    for node in (node for p in group for node in p.nodes):
        by_name.setdefault(node.name, []).append(node.seconds)
    return [
        f"  {sum(times) / total if total else 0.0:6.1%}  {sum(times) * 1e3:9.3f}"
        f"  {len(times):6}    {name_text(name)}"
        for name, times in sorted(by_name.items(), key=lambda item: -sum(item[1]))
    ]


def roofline_text(roof: Roofline) -> str:
    """The roofline as text: peak of arithmetic, and bandwidths of three working sets."""
    shown = (roof.rates[0], roof.rates_within(1 << 20), roof.rates[-1])
    threads = "1 thread" if roof.n_threads == 1 else f"{roof.n_threads} threads"
    return (
        f"roof, measured with {threads}: {roof.flops / 1e9:.1f} GFLOP/s f32; "
        f"copies {', '.join(map(_copy_text, shown))}"
    )


def _copy_text(rates: Rates) -> str:
    size = rates.nbytes
    where = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
    return f"{rates.copy / 1e9:.1f} GB/s in {where}"


def _seconds(group: Iterable[InstructionProfile]) -> float:
    return sum(p.seconds for p in group)


def _rates(group: list[InstructionProfile]) -> str:
    """Arithmetic and bytes per second, and the share of the roofline, if known for the group."""
    seconds = _seconds(group)
    if seconds == 0.0:
        return ""
    rates = []
    for values, unit in (
        ([p.flops for p in group], "GFLOP/s"),
        ([p.moved_bytes for p in group], "GB/s"),
    ):
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            rates.append(f"{sum(known) / seconds / 1e9:.1f} {unit}")
    bounds = [p.bound_seconds for p in group if p.bound_seconds is not None]
    if len(bounds) == len(group):
        rates.append(f"{sum(bounds) / seconds:.0%} of roof")
    return ", ".join(rates)
