"""Mermaid flow charts as inline SVG, so that the site needs no script from elsewhere.

Knows the subset that the pages use: `flowchart TD` and edges `name["text"] --> name["text"]`, one a
line. Nodes stand in layers by their longest path from a start; an edge that spans several layers
runs through a free place in each layer between.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

EDGE = re.compile(r'(\w+)(?:\["([^"]*)"\])?\s*-->\s*(\w+)(?:\["([^"]*)"\])?')
CHARACTER, PADDING, GAP = 7.6, 24, 24
HEIGHT, STEP = 36, 72


@dataclass
class Node:
    """A box, or a free place (without text) that an edge runs through."""

    text: str
    layer: int = 0
    x: float = 0.0

    @property
    def width(self) -> float:
        return len(self.text) * CHARACTER + PADDING if self.text else PADDING

    @property
    def top(self) -> float:
        return self.layer * STEP + 2

    @property
    def bottom(self) -> float:
        return self.top + HEIGHT


@dataclass
class Chart:
    """Nodes in the order of their first mention, and edges between their names."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[list[str]] = field(default_factory=list)


def read_chart(text: str) -> Chart:
    """The chart of a Mermaid text; ValueError for anything beyond the subset."""
    first, *lines = [line.strip() for line in text.strip().splitlines()]
    if first != "flowchart TD":
        raise ValueError(f"expected 'flowchart TD', got {first!r}")
    chart = Chart()
    for line in lines:
        match = EDGE.fullmatch(line)
        if match is None:
            raise ValueError(f'expected an edge like a["text"] --> b["text"], got {line!r}')
        for name, label in ((match[1], match[2]), (match[3], match[4])):
            node = chart.nodes.setdefault(name, Node(name))
            node.text = label or node.text
        chart.edges.append([match[1], match[3]])
    return chart


def place_nodes(chart: Chart) -> float:
    """Gives every node its layer and x, splits long edges; returns the width of the chart."""
    for _ in chart.nodes:
        for start, *_, end in chart.edges:
            layer = chart.nodes[start].layer + 1
            chart.nodes[end].layer = max(chart.nodes[end].layer, layer)
    for number, (start, end) in enumerate(list(chart.edges)):
        between = range(chart.nodes[start].layer + 1, chart.nodes[end].layer)
        names = [f"edge {number} layer {layer}" for layer in between]
        chart.nodes.update(
            {name: Node("", layer) for name, layer in zip(names, between, strict=True)}
        )
        chart.edges[number] = [start, *names, end]
    layers: dict[int, list[Node]] = {}
    for node in chart.nodes.values():
        layers.setdefault(node.layer, []).append(node)
    widths = {
        layer: sum(node.width for node in nodes) + GAP * (len(nodes) - 1)
        for layer, nodes in layers.items()
    }
    whole = max(widths.values()) + 4
    for layer, nodes in layers.items():
        x = (whole - widths[layer]) / 2
        for node in nodes:
            node.x = x + node.width / 2
            x += node.width + GAP
    return whole


def draw(text: str) -> str:
    """The SVG element of a Mermaid text."""
    chart = read_chart(text)
    width = place_nodes(chart)
    height = max(node.bottom for node in chart.nodes.values()) + 2
    parts = [
        f'<svg class="flow" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="flow chart" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    for names in chart.edges:
        points = [chart.nodes[name] for name in names]
        path = f"M{points[0].x:.0f} {points[0].bottom:.0f}"
        for node in points[1:-1]:
            path += f" L{node.x:.0f} {node.top:.0f} L{node.x:.0f} {node.bottom:.0f}"
        path += f" L{points[-1].x:.0f} {points[-1].top:.0f}"
        parts.append(f'<path d="{path}" marker-end="url(#arrow)"/>')
    for node in chart.nodes.values():
        if node.text:
            left = node.x - node.width / 2
            parts.append(
                f'<rect x="{left:.0f}" y="{node.top:.0f}" width="{node.width:.0f}" '
                f'height="{HEIGHT}" rx="6"/><text x="{node.x:.0f}" '
                f'y="{node.top + HEIGHT / 2:.0f}">{html.escape(node.text)}</text>'
            )
    return "".join([*parts, "</svg>"])
