"""The table of `executorch_py run --profile`: operators by their share of the time, and the slowest
instructions."""

from __future__ import annotations

from collections.abc import Iterable

from executorch_py.runtime.profile import InstructionProfile

SLOWEST = 8


def profile_text(profile: list[InstructionProfile]) -> str:
    total = sum(p.seconds for p in profile)
    lines = [
        f"profile: {len(profile)} instructions, {total * 1e3:.3f} ms (medians, clocks included)",
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
            f"  {share:6.1%}  {seconds * 1e3:9.3f}  {calls:6}  {operator:<40} {_rates(group)}"
        )
    lines.append("slowest instructions:")
    for p in sorted(profile, key=lambda p: -p.seconds)[:SLOWEST]:
        operands = " ".join(f"{dtype}{list(shape)}" for dtype, shape in p.tensors)
        lines.append(
            f"  {p.seconds * 1e3:9.3f} ms  #{p.instruction} {p.operator} {operands}  {_rates([p])}"
        )
    return "\n".join(line.rstrip() for line in lines)


def _seconds(group: Iterable[InstructionProfile]) -> float:
    return sum(p.seconds for p in group)


def _rates(group: list[InstructionProfile]) -> str:
    """Arithmetic per second where it is known for all, and bytes per second."""
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
    return ", ".join(rates)
