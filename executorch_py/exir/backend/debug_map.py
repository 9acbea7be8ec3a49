"""Maps a delegate's own event identifiers to the debug handles of the nodes it replaced."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

Identifier = int | str


class DelegateMappingBuilder:
    """Collects identifiers, given by the backend or generated from 0 on."""

    def __init__(self, generated_identifiers: bool = False) -> None:
        self._generated = generated_identifiers
        self._handles: dict[Identifier, set[int]] = {}

    def get_delegate_mapping(self) -> dict[Identifier, tuple[int, ...]]:
        """Debug handles of each identifier, sorted."""
        return {identifier: tuple(sorted(found)) for identifier, found in self._handles.items()}

    def insert_delegate_mapping_entry(
        self,
        nodes: fx.Node | Sequence[fx.Node] | None = None,
        handles: int | Sequence[int | None] | None = None,
        identifier: Identifier | None = None,
    ) -> Identifier:
        """Add an entry for nodes or for handles; returns its identifier."""
        if self._generated and identifier is not None:
            raise ValueError(f"expected no identifier, the builder makes them; got {identifier!r}")
        if (nodes is None) == (handles is None):
            raise ValueError("expected either nodes or handles, got both or neither")
        if self._generated:
            identifier = len(self._handles)
        if identifier is None:
            raise ValueError("expected an identifier, got none; or set generated_identifiers=True")
        if identifier in self._handles:
            raise ValueError(f"identifier {identifier!r} was inserted before")
        if nodes is not None:
            listed = [nodes] if isinstance(nodes, fx.Node) else nodes
            found = {node.meta.get("debug_handle") for node in listed}
        else:
            found = set(handles) if isinstance(handles, (list, tuple)) else {handles}
        valid = {handle for handle in found if isinstance(handle, int)}
        if not valid:
            raise ValueError(f"entry {identifier!r} has no debug handle")
        self._handles[identifier] = valid
        return identifier
