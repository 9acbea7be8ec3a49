"""Gives each partition its own copy of nodes that a partitioner marked as cheap to compute twice.

Partitioners only tag; a conversion of weights or a size that several partitions read would tie them
together. Knows tags, no backend.
"""

from __future__ import annotations

from collections.abc import Collection

from torch import fx

# Key of node.meta by which a partitioner allows copies of a node: one for each other partition that
# reads it, or also one for readers outside of all partitions.
COPIES = "delegation_copies"
FOR_PARTITIONS, FOR_ALL = "partitions", "all"


def duplicate_marked_nodes(gm: fx.GraphModule, tags: Collection[str]) -> bool:
    """One copy of each marked node per tag among its users that is not its own; True if any."""
    changed = False
    for node in reversed(list(gm.graph.nodes)):
        wanted = node.meta.pop(COPIES, None)
        if wanted is None:
            continue
        groups: dict[str | None, list[fx.Node]] = {}
        for user in node.users:
            tag = user.meta.get("delegation_tag")
            tag = tag if tag in tags else None
            if tag != node.meta.get("delegation_tag") and (tag is not None or wanted == FOR_ALL):
                groups.setdefault(tag, []).append(user)
        for tag, users in groups.items():
            with gm.graph.inserting_after(node):
                copied = gm.graph.node_copy(node, lambda n: n)
            copied.meta["delegation_tag"] = tag
            for user in users:
                user.replace_input_with(node, copied)
            changed = True
    if changed:
        gm.recompile()
    return changed
