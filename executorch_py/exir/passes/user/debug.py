"""DebugPass: a pass that prints the graph, and changes nothing."""

from __future__ import annotations

import re

from torch import fx
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from executorch_py.exir.ir.stack_trace import trace_frames


class DebugPass(PassBase):
    """Print a graph; on request with specs, and with the source lines that nodes come from."""

    def __init__(
        self,
        msg: str = "",
        enable_debug_pass: bool = True,
        show_src: bool = False,
        show_full_path: bool = False,
        show_all_frames: bool = False,
        path_filter: str | None = None,
        show_spec: bool = False,
        log_filename: str | None = None,
    ) -> None:
        super().__init__()
        self.msg = msg
        self.enable_debug_pass = enable_debug_pass
        self.show_src = show_src
        self.show_full_path = show_full_path
        self.show_all_frames = show_all_frames
        self.path_filter = path_filter
        self.show_spec = show_spec
        self.log_filename = log_filename

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        if self.enable_debug_pass:
            text = "\n".join(self._lines(graph_module))
            if self.log_filename is None:
                print(text)
            else:
                with open(self.log_filename, "a", encoding="utf-8") as log:
                    print(text, file=log)
        return PassResult(graph_module, False)

    def _lines(self, gm: fx.GraphModule) -> list[str]:
        lines = [self.msg] if self.msg else []
        for node in gm.graph.nodes:
            lines.append(node.format_node() or f"return {node.args}")
            if self.show_spec and "spec" in node.meta:
                lines.append(f"    spec: {node.meta['spec']}")
            if self.show_src:
                lines += [f"    {frame}" for frame in self._frames(node)]
        return lines

    def _frames(self, node: fx.Node) -> list[str]:
        frames = [frame.where for frame in trace_frames(node)]
        if self.path_filter is not None:
            frames = [frame for frame in frames if self.path_filter in frame]
        if not self.show_full_path:
            frames = [re.sub(r'File ".*[/\\]', 'File "', frame) for frame in frames]
        return frames if self.show_all_frames else frames[-1:]
