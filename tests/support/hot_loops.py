"""Innermost loops that multiply vectors, found in the assembly text that gcc writes.

Each vector multiplication counts as multiply-adds: the products that it forms, with or without a
sum. A loop with branches is read along the path with the most multiply-adds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

LABEL = re.compile(r"^(\.?[\w$.]+):")
INSTRUCTION = re.compile(r"^\t((?:\{vex\} )?[a-z]\S*)(?:\s+(.*))?$")
TABLE = re.compile(r"^\t\.(?:long|quad|word|hword|byte)\t.*(\.L\w+)")
CLONE = re.compile(r"(\.(constprop|isra|part|cold|lto_priv)(\.\d+)?)+$")
JUMPS = {
    "x86_64": re.compile(r"^j[a-z]+$"),
    "aarch64": re.compile(
        r"^(b|br|b\.?(eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|any|none)|cbn?z|tbn?z)$"
    ),
}
LEAVES = {"jmp", "b", "br", "ret", "ud2", "brk"}  # the next instruction does not follow
CALLS = {"call", "bl", "blr"}
# Bits of a vector register that one multiply-add takes.
X86_BITS = (
    (re.compile(r"vfn?m(add|sub|addsub|subadd)(132|213|231)ps|vmulps|vpmulld"), 32),
    (re.compile(r"vfn?m(add|sub|addsub|subadd)(132|213|231)pd|vmulpd|vpmul(lq|u?dq)"), 64),
    (re.compile(r"vpmaddwd|vpdpw\w+|vpmul(lw|hu?w|hrsw)"), 16),
    (re.compile(r"vpmaddubsw|vpdpb\w+"), 8),
)
X86_WIDTH = {"x": 128, "y": 256, "z": 512}
# Multiply-adds of one lane of the result.
ARM_FACTORS = (
    (re.compile(r"fml[as]|fmul|ml[as]|mul|[su]ml[as]l2?|[su]mull2?|sq(rd|d)mulh|bfmlal[bt]"), 1),
    (re.compile(r"bfdot"), 2),
    (re.compile(r"sdot|udot|usdot|sudot|bfmmla"), 4),
    (re.compile(r"smmla|ummla|usmmla"), 8),
)


@dataclass(frozen=True)
class HotLoop:
    """One iteration of an innermost loop, as a straight line of instructions."""

    function: str
    number: int  # among the hot loops of its function, from 1
    instructions: tuple[str, ...]
    multiply_adds: int

    @property
    def calls(self) -> bool:
        return any(line.split(maxsplit=1)[0] in CALLS for line in self.instructions)


@dataclass
class Block:
    """Instructions that run one after the other, and the blocks that may follow."""

    lines: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)  # labels
    goes_on: bool = True  # into the next block
    following: list[int] = field(default_factory=list)


def hot_loops(assembly: str, machine: str) -> list[HotLoop]:
    """All hot loops of a file; clones of a function have the name of the original."""
    found: list[HotLoop] = []
    numbers: Counter[str] = Counter()
    for function, lines in functions(assembly):
        blocks = blocks_of(lines, machine)
        for head, body in innermost(blocks):
            path = hottest_path(blocks, head, body, machine)
            if products := multiply_adds(path, machine):
                numbers[function] += 1
                found.append(HotLoop(function, numbers[function], tuple(path), products))
    return found


def hottest(loops: list[HotLoop]) -> dict[str, HotLoop]:
    """The loop with the most multiply-adds of each function; of equals, the shortest."""
    best: dict[str, HotLoop] = {}
    for loop in loops:
        known = best.get(loop.function)
        if known is None or _rank(loop) > _rank(known):
            best[loop.function] = loop
    return best


def _rank(loop: HotLoop) -> tuple[bool, int, int]:
    return not loop.calls, loop.multiply_adds, -len(loop.instructions)


# ---- multiply-adds


def multiplications(lines: Sequence[str], machine: str) -> list[tuple[str, int]]:
    """The vector multiplications among instructions, each with its number of multiply-adds."""
    count = _x86_products if machine == "x86_64" else _arm_products
    found = []
    for line in lines:
        name, _, operands = line.removeprefix("{vex} ").partition("\t")
        if n := count(name, operands):
            found.append((line, n))
    # A vpmaddwd beside products of bytes adds their pairs: it multiplies by 1.
    of_bytes = any(line.startswith("vpmaddubsw") for line, _ in found)
    return [(line, n) for line, n in found if not (of_bytes and line.startswith("vpmaddwd"))]


def multiply_adds(lines: Sequence[str], machine: str) -> int:
    return sum(n for _, n in multiplications(lines, machine))


def _x86_products(name: str, operands: str) -> int:
    target = re.search(r"%([xyz])mm\d+(\{[^}]*\})*$", operands)
    bits = next((bits for pattern, bits in X86_BITS if pattern.fullmatch(name)), 0)
    return X86_WIDTH[target[1]] // bits if target and bits else 0


def _arm_products(name: str, operands: str) -> int:
    target = re.match(r"v\d+\.(\d+)[bhsd]\b", operands)
    factor = next((factor for pattern, factor in ARM_FACTORS if pattern.fullmatch(name)), 0)
    return int(target[1]) * factor if target else 0


# ---- functions, blocks and loops


def functions(assembly: str) -> Iterator[tuple[str, list[str]]]:
    """Name and lines of each function of a file."""
    name, lines = "", []
    for line in assembly.splitlines():
        if match := re.match(r"\t\.type\t([\w.$]+), ?[@%]function", line):
            name, lines = CLONE.sub("", match[1]), []
        elif line.startswith("\t.size\t") and name:
            yield name, lines
            name = ""
        elif name:
            lines.append(line)


def blocks_of(lines: list[str], machine: str) -> list[Block]:
    blocks, labels = [Block()], {}
    table = [match[1] for line in lines if (match := TABLE.match(line))]
    for line in lines:
        if label := LABEL.match(line):
            if blocks[-1].lines:
                blocks.append(Block())
            labels[label[1]] = len(blocks) - 1
        elif match := INSTRUCTION.match(line):
            name, operands = match[1], match[2] or ""
            blocks[-1].lines.append(f"{name}\t{operands}".rstrip())
            if JUMPS[machine].match(name) or name in LEAVES:
                target = operands.split(",")[-1].strip()
                indirect = target.startswith("*") or name == "br"
                blocks[-1].targets = table if indirect else [target]
                blocks[-1].goes_on = name not in LEAVES
                blocks.append(Block())
    for i, block in enumerate(blocks):
        following = {labels[target] for target in block.targets if target in labels}
        if block.goes_on and i + 1 < len(blocks):
            following.add(i + 1)
        block.following = sorted(following)
    return blocks


def innermost(blocks: list[Block]) -> Iterator[tuple[int, set[int]]]:
    """Head and blocks of each loop that holds no other loop."""
    order = _reverse_postorder(blocks)
    preceding: dict[int, list[int]] = {i: [] for i in order}
    for i in order:
        for j in blocks[i].following:
            preceding[j].append(i)
    dominators = _dominators(order, preceding)
    loops: dict[int, set[int]] = {}
    for i in order:
        for head in blocks[i].following:
            if dominators[i] >> head & 1:  # the branch goes back
                body = loops.setdefault(head, {head})
                todo = [i]
                while todo:
                    if (block := todo.pop()) not in body:
                        body.add(block)
                        todo += preceding[block]
    for head, body in loops.items():
        if not any(other in body for other in loops if other != head):
            yield head, body


def _reverse_postorder(blocks: list[Block]) -> list[int]:
    order, seen = [], {0}
    stack = [(0, iter(blocks[0].following))]
    while stack:
        block, rest = stack[-1]
        following = next((j for j in rest if j not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following].following)))
    return order[::-1]


def _dominators(order: list[int], preceding: dict[int, list[int]]) -> dict[int, int]:
    """The blocks through which each block is reached, as bits of an integer."""
    everything = sum(1 << i for i in order)
    found = dict.fromkeys(order, everything)
    found[order[0]] = 1 << order[0]
    changed = True
    while changed:
        changed = False
        for i in order[1:]:
            meet = everything
            for j in preceding[i]:
                meet &= found[j]
            meet |= 1 << i
            if meet != found[i]:
                found[i], changed = meet, True
    return found


def hottest_path(blocks: list[Block], head: int, body: set[int], machine: str) -> list[str]:
    """The instructions from a loop's head back to it along which most multiply-adds lie."""
    weight = {i: (multiply_adds(blocks[i].lines, machine), -len(blocks[i].lines)) for i in body}
    order = [i for i in _reverse_postorder_within(blocks, head, body)]
    best = {head: (weight[head], [head])}
    for i in order:
        (n, length), path = best[i]
        for j in blocks[i].following:
            if j in body and j != head:
                there = (n + weight[j][0], length + weight[j][1])
                if j not in best or there > best[j][0]:
                    best[j] = there, [*path, j]
    ends = [best[i] for i in order if head in blocks[i].following]
    return [line for i in max(ends)[1] for line in blocks[i].lines]


def _reverse_postorder_within(blocks: list[Block], head: int, body: set[int]) -> list[int]:
    order, seen = [], set()

    def visit(i: int) -> None:
        seen.add(i)
        for j in blocks[i].following:
            if j in body and j not in seen:
                visit(j)
        order.append(i)

    visit(head)
    return order[::-1]
