"""The decoder: tokens in, logits out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn import functional

from executorch_py.extension.llm.model import rope
from executorch_py.extension.llm.model.caches import (
    Layer,
    NoCache,
    OperatorCache,
    OwnCache,
    QuantizedOperatorCache,
    Step,
    TensorCache,
)
from executorch_py.extension.llm.model.model_args import ModelArgs
from executorch_py.extension.llm.model.short_conv import ShortConv

CACHES: dict[str, Callable[[Layer], torch.nn.Module]] = {
    "none": NoCache,
    "tensors": TensorCache,
    "operators": OperatorCache,
    "operators i8": QuantizedOperatorCache,
    "own f32": lambda layer: OwnCache(layer, "f32"),
    "own i8": lambda layer: OwnCache(layer, "i8"),
}


@dataclass(frozen=True)
class Limits:
    """Sizes of the program: positions of the context, tokens of the longest call, and caches.

    `cache` is a name in CACHES. `windows` has a window for each layer, 0 for all positions, or is
    None where the model's arguments say it. With `all_logits` every token has logits.
    """

    capacity: int
    longest: int
    cache: str = "none"
    windows: tuple[int, ...] | None = None
    all_logits: bool = False
    sink: int = 0  # first positions that layers with windows see beside them
    dtype: torch.dtype = torch.float32  # of weights, activations, caches and logits


class RMSNorm(torch.nn.Module):
    """x / sqrt(mean(x²) + eps) in f32, times weights where it has any."""

    def __init__(self, size: int, eps: float, affine: bool = True, offset: float = 0.0) -> None:
        super().__init__()
        self.eps, self.offset = eps, offset
        weight = torch.nn.Parameter(torch.full((size,), 1.0 - offset)) if affine else None
        self.register_parameter("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        normal = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)
        if self.weight is None:
            return normal
        return normal * (self.weight + self.offset if self.offset else self.weight)


def _norm(args: ModelArgs, size: int, affine: bool = True) -> RMSNorm:
    return RMSNorm(size, args.norm_eps, affine, 1.0 if args.rms_norm_add_unit_offset else 0.0)


def _linear(terms: int, rows: int, bias: bool) -> torch.nn.Linear:
    """A layer whose parameters have no values yet."""
    return torch.nn.Linear(terms, rows, bias=bias, device="meta")


_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_approx": partial(functional.gelu, approximate="tanh"),
}


class FeedForward(torch.nn.Module):
    """w2(act(w1 x) · w3 x)."""

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.w1 = _linear(args.dim, args.ffn, False)
        self.w2 = _linear(args.ffn, args.dim, False)
        self.w3 = _linear(args.dim, args.ffn, False)
        self.activation = _ACTIVATIONS[args.act_fn]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.w2(self.activation(self.w1(x)) * self.w3(x))
        return result


class Attention(torch.nn.Module):
    """Projections, norms and rotation of queries, keys and values around `kv_cache`."""

    def __init__(self, args: ModelArgs, layer: Layer, cache: str) -> None:
        super().__init__()
        self.args = args
        queries, keys = args.n_heads * args.head_size, args.kv_heads * args.head_size
        bias = args.attention_qkv_bias
        self.wq = _linear(args.dim, queries, bias)
        self.wk = _linear(args.dim, keys, bias)
        self.wv = _linear(args.dim, keys, bias)
        self.wo = _linear(queries, args.dim, False)
        if args.use_qk_norm:
            self.q_norm_fn = _norm(args, args.head_size, args.qk_norm_affine)
            self.k_norm_fn = _norm(args, args.head_size, args.qk_norm_affine)
        self.kv_cache = CACHES[cache](layer)

    def forward(
        self, x: torch.Tensor, step: Step, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        args = self.args
        q, k, v = (
            layer(x).unflatten(-1, (-1, args.head_size)) for layer in (self.wq, self.wk, self.wv)
        )
        if args.use_qk_norm and args.qk_norm_before_rope:
            q, k = self.q_norm_fn(q), self.k_norm_fn(k)
        if isinstance(self.kv_cache, OwnCache) and args.rotates_last:
            out = self.kv_cache(q, k, v, step, cos, sin)
        else:
            q, k = rope.rotated(q, cos, sin), rope.rotated(k, cos, sin)
            if args.use_qk_norm and not args.qk_norm_before_rope:
                q, k = self.q_norm_fn(q), self.k_norm_fn(k)
            out = self.kv_cache(q, k, v, step)
        result: torch.Tensor = self.wo(out.flatten(2))
        return result


class Block(torch.nn.Module):
    """A layer: attention or a short convolution, then feed-forward layers, each added to its input.

    The norm before the first part is `attention_norm` for either.
    """

    def __init__(self, args: ModelArgs, limits: Limits, index: int) -> None:
        super().__init__()
        self.attention: Attention | None = None
        self.conv: ShortConv | None = None
        if args.is_convolution(index):
            self.conv = ShortConv(args.dim, None if limits.cache == "none" else limits.dtype)
        else:
            self.attention = Attention(args, _layer(args, limits, index), limits.cache)
        self.feed_forward = FeedForward(args)
        self.attention_norm, self.ffn_norm = _norm(args, args.dim), _norm(args, args.dim)
        self.post_attention_norm = _norm(args, args.dim) if args.post_attention_norm else None
        self.post_ffn_norm = _norm(args, args.dim) if args.post_ffn_norm else None
        self.share = args.residual_multiplier

    def forward(
        self, x: torch.Tensor, step: Step, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        normal = self.attention_norm(x)
        if self.conv is not None:
            mixed = self.conv(normal, step)
        else:
            assert self.attention is not None
            mixed = self.attention(normal, step, cos, sin)
        x = self._added(x, mixed, self.post_attention_norm)
        return self._added(x, self.feed_forward(self.ffn_norm(x)), self.post_ffn_norm)

    def _added(self, x: torch.Tensor, y: torch.Tensor, norm: RMSNorm | None) -> torch.Tensor:
        if norm is not None:
            y = norm(y)
        return x + (y if self.share is None else y * self.share)


class Transformer(torch.nn.Module):
    """forward(tokens i64 [1, S], input_pos i64 [1]) -> logits [1, vocabulary] of limits.dtype.

    The tokens are at the positions from input_pos on, and the logits are those of the last one; of
    all, [1, S, vocabulary], with `limits.all_logits`. Without caches there is no input_pos.
    """

    def __init__(self, args: ModelArgs, limits: Limits) -> None:
        super().__init__()
        self.args, self.limits = args, limits
        self.tok_embeddings = torch.nn.Embedding(args.vocab_size, args.dim, device="meta")
        self.layers = torch.nn.ModuleList(Block(args, limits, i) for i in range(args.n_layers))
        self.norm = _norm(args, args.dim)
        self.output = _linear(args.dim, args.vocab_size, args.output_bias)
        self.has_cache = limits.cache != "none"
        self.sink_row = _sink_row(limits)
        theta = args.rope_freq_base if args.rope_theta is None else args.rope_theta
        thetas = [theta]
        if args.local_rope_theta is not None and any(map(args.window_of, range(args.n_layers))):
            thetas.append(args.local_rope_theta)
        self.n_tables = len(thetas)
        for i, base in enumerate(thetas):
            cos, sin = rope.tables(args, base, limits.capacity)
            self.register_buffer(f"cos_{i}", cos, persistent=False)
            self.register_buffer(f"sin_{i}", sin, persistent=False)

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor | None = None) -> torch.Tensor:
        args, step = self.args, self._step(tokens, input_pos)
        tables = [self._tables(step, i) for i in range(self.n_tables)]
        x = self.tok_embeddings(tokens)
        if args.embedding_scale_factor != 1.0:
            x = x * args.embedding_scale_factor
        for i, layer in enumerate(self.layers):
            local = self.n_tables > 1 and args.window_of(i) > 0
            x = layer(x, step, *tables[1 if local else 0])
        if not self.limits.all_logits:
            x = x[:, -1:]
        logits: torch.Tensor = self.output(self.norm(x))
        if args.logits_scaling is not None:
            logits = logits / args.logits_scaling
        if args.final_logit_softcapping is not None:
            cap = args.final_logit_softcapping
            logits = torch.tanh(logits / cap) * cap
        return logits if self.limits.all_logits else logits[:, -1]

    def _step(self, tokens: torch.Tensor, input_pos: torch.Tensor | None) -> Step:
        length = tokens.shape[1]
        if not self.has_cache:
            return Step(0, length, torch.arange(length))
        assert input_pos is not None
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start + length <= self.limits.capacity)
        return Step(start, length, input_pos + torch.arange(length))

    def _tables(self, step: Step, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = (self._rows(step, self.get_buffer(f"{name}_{i}")) for name in ("cos", "sin"))
        return cos, sin

    def _rows(self, step: Step, table: torch.Tensor) -> torch.Tensor:
        """The rows of a call's positions, and the one behind them that own caches need."""
        rows = table.narrow(0, step.start, step.length)
        if self.sink_row is None:
            return rows
        return torch.cat((rows, table[self.sink_row : self.sink_row + 1]))


def _sink_row(limits: Limits) -> int | None:
    """The position that ends distances to the sink of own caches."""
    if not limits.sink or not limits.cache.startswith("own"):
        return None
    assert limits.windows is not None and len({*limits.windows}) == 1
    return limits.sink + limits.windows[0] - 1


def _layer(args: ModelArgs, limits: Limits, index: int) -> Layer:
    window = args.window_of(index) if limits.windows is None else limits.windows[index]
    scale = args.attention_multiplier
    return Layer(
        heads=args.kv_heads,
        size=args.head_size,
        capacity=limits.capacity,
        longest=limits.longest,
        window=window,
        scale=args.head_size**-0.5 if scale is None else scale,
        softcap=args.attn_logit_softcapping or 0.0,
        sink=limits.sink if window else 0,
        dtype=limits.dtype,
    )
