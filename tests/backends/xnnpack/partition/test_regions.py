"""Partitioning of graphs into regions: no dependency cycles, and the fewest possible regions."""

from __future__ import annotations

import itertools
import operator
import random

import pytest
from torch import fx

from executorch_py.backends.xnnpack.partition.regions import Regions, edges_of


def graph_of(edges: dict[str, str]) -> tuple[fx.Graph, dict[str, fx.Node]]:
    """A graph with a call per letter that reads the letters given; `x` is the input."""
    graph = fx.Graph()
    made = {"x": graph.placeholder("x")}
    for name, read in edges.items():
        made[name] = graph.call_function(operator.add, tuple(made[r] for r in read))
    last = [node for node in made.values() if not node.users]
    graph.output(tuple(last))
    return graph, made


def divided(
    edges: dict[str, str], wanted: str, colocated: tuple[str, ...] = (), movable: str = ""
) -> list[str]:
    graph, made = graph_of(edges)
    names = {node: name for name, node in made.items()}
    regions = Regions(
        graph,
        [made[n] for n in wanted],
        [[made[n] for n in members] for members in colocated],
        [made[n] for n in movable],
    )
    return ["".join(names[n] for n in nodes) for nodes in regions.divide(lambda nodes: True)]


def test_what_is_connected_is_one_region() -> None:
    assert divided({"a": "x", "b": "a", "c": "ab"}, "abc") == ["abc"]


def test_what_stays_divides_only_what_is_before_from_what_is_behind() -> None:
    edges = {"a": "x", "b": "a", "c": "b", "d": "ac"}
    assert divided(edges, "acd") == ["a", "cd"]


def test_branches_beside_what_stays_are_one_region() -> None:
    # b stays; a, c, d are before or beside it, e is behind.
    edges = {"a": "x", "b": "a", "c": "a", "d": "c", "e": "bd"}
    assert divided(edges, "acde") == ["acd", "e"]


def test_what_only_a_later_region_reads_is_computed_there() -> None:
    # e depends on nothing that stays; only d, behind b, reads it.
    edges = {"a": "x", "b": "a", "c": "b", "e": "x", "d": "ce"}
    assert divided(edges, "acde") == ["a", "ced"]


def test_colocated_nodes_stay_together() -> None:
    edges = {"a": "x", "b": "x", "c": "b", "d": "ac"}
    assert divided(edges, "acd", colocated=("ad",)) == ["acd"]


def test_colocated_nodes_on_a_cycle_are_named() -> None:
    graph, made = graph_of({"a": "x", "b": "a", "c": "ab"})
    regions = Regions(graph, [made["a"], made["c"]], [[made["a"], made["c"]]])
    assert regions.cyclic == {made["a"], made["c"]}


def test_movable_nodes_constrain_no_region() -> None:
    edges = {"q": "x", "a": "q", "b": "a", "c": "qb"}
    assert divided(edges, "ac", movable="q") == ["a", "c"]


def test_parts_that_are_not_worth_it_are_left() -> None:
    graph, made = graph_of({"a": "x", "b": "x", "c": "b"})
    regions = Regions(graph, [made[n] for n in "abc"])
    assert regions.divide(lambda nodes: len(nodes) > 1) == [[made["b"], made["c"]]]


def test_cheap_nodes_at_the_edges_are_found_through_each_other() -> None:
    _, made = graph_of({"a": "x", "b": "a", "c": "b", "d": "c", "e": "d"})
    nodes = [made[n] for n in "abcde"]
    cheap = {made[n] for n in "abde"}
    assert edges_of(nodes, cheap) == cheap
    assert edges_of(nodes, {made["b"]}) == set()


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_divide_into_regions_that_can_run(seed: int) -> None:
    draw = random.Random(seed)
    letters = "abcdefghijklmnop"
    edges = {
        letter: "".join(draw.sample("x" + letters[:i], min(i + 1, draw.choice((1, 2)))))
        for i, letter in enumerate(letters)
    }
    wanted = [letter for letter in letters if draw.random() < 0.6]
    found = divided(edges, "".join(wanted))
    assert sorted(itertools.chain(*found)) == wanted
    region = {letter: i for i, part in enumerate(found) for letter in part}
    assert not _has_cycle(edges, region)
    assert len(found) == _longest_alternation(edges, set(wanted))


def _has_cycle(edges: dict[str, str], region: dict[str, int]) -> bool:
    """Whether regions and single nodes, as units, depend on each other in a cycle."""
    units = {letter: str(region.get(letter, letter)) for letter in edges}
    reads: dict[str, set[str]] = {unit: set() for unit in units.values()}
    for letter, read in edges.items():
        reads[units[letter]] |= {units[r] for r in read if r != "x"} - {units[letter]}
    done: set[str] = set()
    while True:
        ready = {unit for unit, needs in reads.items() if unit not in done and needs <= done}
        if not ready:
            return len(done) < len(reads)
        done |= ready


def _longest_alternation(edges: dict[str, str], wanted: set[str]) -> int:
    """The largest number of regions along a path, a lower bound for any partition."""
    depth: dict[str, int] = {"x": 0}
    for letter, read in edges.items():
        depth[letter] = max(
            depth[r] + (1 if letter in wanted and r not in wanted else 0) for r in read
        )
    return max((depth[letter] for letter in wanted), default=0)
