"""The base of attention over projections of its inputs."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, NamedTuple

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.attention_masks import attending_queries, by_head, visible_keys, zero_rows
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.layers.mask_shapes import steps_mask
from prototorch.layers.rotary import RotaryEmbedding
from prototorch.regularizers import Regularizer
from prototorch.schema import field


class HeadSizes(NamedTuple):
    """The numbers of heads of queries and of keys, and the lengths of a key, of a value and of the output (None: that
    of the query)."""

    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    output: int | None = None


class ProjectedAttention(Layer, abstract=True):
    """The base of attention over projections of query, key and value. A subclass declares its sizes.

    Initializers that scale with the connections count all heads together.
    """

    channel_axis_note = "it reads [batch, steps, features], as in Keras"
    inputs = (1, 4)
    mask_policy = "use"
    consumes_features: ClassVar[bool] = True
    own_fields: ClassVar[frozenset[str]] = frozenset({"rotary"})

    # declared again by every subclass, so that they come first
    dropout: Any
    use_bias: Any
    causal: bool = field(default=False, doc="Whether a step sees only itself and the steps before it.")
    return_attention_scores: bool = field(
        default=False, doc="Whether to give the attention weights as a second output."
    )
    kernel_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the kernels.")
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the biases.")
    kernel_regularizer: Regularizer | None = field(default=None, doc="Regularizer of each kernel.")
    bias_regularizer: Regularizer | None = field(default=None, doc="Regularizer of each bias.")
    kernel_constraint: Constraint | None = field(default=None, doc="Constraint on each kernel.")
    bias_constraint: Constraint | None = field(default=None, doc="Constraint on each bias.")
    rotary: Layer | None = field(default=None, doc="A RotaryEmbedding of queries and keys, if any.")

    def check(self) -> None:
        if self.rotary is not None and not isinstance(self.rotary, RotaryEmbedding):
            self.refuse(f"rotary must be a RotaryEmbedding, not {type(self.rotary).__name__}", "rotary")

    def sizes(self) -> HeadSizes:
        """Its numbers of heads, and the lengths of keys and values."""
        raise TypeError(f"{type(self).__name__} does not define sizes")

    def output_count(self) -> int:
        return 1 + self.return_attention_scores

    def call(
        self,
        ctx: Context,
        query: ArrayValue,
        value: ArrayValue | None = None,
        key: ArrayValue | None = None,
        mask: ArrayValue | None = None,
    ) -> Any:
        value = query if value is None else value
        key = value if key is None else key
        for x in (query, value, key):
            if x.ndim != 3:
                ctx.fail("its inputs must be [time, n]")
        if key.shape[1] != value.shape[1]:
            ctx.fail(f"there are {key.shape[1]} keys, but {value.shape[1]} values")
        sizes = self.sizes()
        q = self._rotate(ctx, self._heads(ctx, "query", query, sizes.heads, sizes.key_dim))
        k = self._rotate(ctx, self._heads(ctx, "key", key, sizes.key_heads, sizes.key_dim))
        v = self._heads(ctx, "value", value, sizes.key_heads, sizes.value_dim)
        if sizes.key_heads != sizes.heads:
            k, v = (ops.repeat(x, sizes.heads // sizes.key_heads, axis=2) for x in (k, v))
        masks = visible_keys(ctx, query, value, key, mask, self.causal)
        attending = attending_queries(ctx, query, value, masks, self.causal)
        heads, weights = self._attend(ctx, q, k, v, masks, attending)
        y = self._output(ctx, query, heads)
        return (y, weights) if self.return_attention_scores else y

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        query, *others = inputs
        value = others[0] if others else query
        key = others[1] if len(others) > 1 else value
        from_sequences = [ctx.is_stream(x) for x in (query, value, key)]
        is_possible = len(inputs) < 4 and not self.return_attention_scores
        if from_sequences == [True, False, False]:  # all keys and values are known
            self.check_independent_steps(ctx, is_possible and not self.causal and self.rotary is None)
            return self.call(ctx, *inputs)
        self.check_independent_steps(ctx, is_possible and self.causal, *inputs)
        sizes = self.sizes()
        q = self._rotate(ctx, self._heads(ctx, "query", query, sizes.heads, sizes.key_dim))
        k = ctx.append("key", self._rotate(ctx, self._heads(ctx, "key", key, sizes.key_heads, sizes.key_dim)))
        v = ctx.append("value", self._heads(ctx, "value", value, sizes.key_heads, sizes.value_dim))
        if sizes.key_heads != sizes.heads:
            k, v = (ops.repeat(x, sizes.heads // sizes.key_heads, axis=2) for x in (k, v))
        visible, attending = ctx.visible_steps(query.shape[1]), steps_mask(ctx, query)
        masks = {id(m): m for x in (value, key) if (m := steps_mask(ctx, x)) is not None}
        for number, key_mask in enumerate(masks.values()):
            so_far = ctx.append(f"mask{number}", key_mask)
            visible = ops.logical_and(visible, ops.reshape(so_far, shape=(so_far.shape[0], 1, 1, so_far.shape[1])))
        if masks:
            sees_key = ops.squeeze(ops.any(visible, axis=3), axis=1)
            attending = sees_key if attending is None else ops.logical_and(attending, sees_key)
        heads = zero_rows(ops.attention_heads(q, k, v, visible, causal=False), attending, axis=1)
        return self._output(ctx, query, heads)

    def _output(self, ctx: Context, query: ArrayValue, heads: ArrayValue) -> Any:
        """The output [batch, t, output] of the heads' values [batch, t, heads, value_dim]."""
        sizes = self.sizes()
        batch, steps = query.shape[:2]
        depth = (sizes.heads, sizes.value_dim)
        y = self._project(
            ctx,
            "attention_output",
            ops.reshape(heads, shape=(batch * steps, prod(depth))),
            depth,
            (sizes.output or query.shape[2],),
        )
        y = ops.reshape(y, shape=(batch, steps, y.shape[1]))
        ctx.set_mask(y, steps_mask(ctx, query))
        return y

    def _attend(
        self, ctx: Context, q: ArrayValue, k: ArrayValue, v: ArrayValue, masks: tuple[Any, ...], attending: Any
    ) -> tuple[Any, Any]:
        """The heads' values [batch, t, heads, value_dim], and the weights where they are wanted."""
        causal = self.causal and q.shape[1] == k.shape[1]
        drops = bool(self.dropout) and ctx.training
        if not self.return_attention_scores:
            key = (ctx.key(),) if drops else ()
            attrs = {"rate": self.dropout, "site": ctx.site()} if drops else {}
            heads = ops.attention_heads(q, k, v, *masks, *key, causal=causal, **attrs)
            return zero_rows(heads, attending, axis=1), None
        weights = zero_rows(ops.attention_weights(by_head(q), by_head(k), *masks, causal=causal), attending, axis=2)
        dropped_weights = ops.dropout(weights, ctx.key(), rate=self.dropout, site=ctx.site()) if drops else weights
        return by_head(ops.matmul(dropped_weights, by_head(v))), weights

    def _rotate(self, ctx: Context, x: ArrayValue) -> Any:
        return x if self.rotary is None else ctx.sublayer("rotary", self.rotary, x)

    def _heads(self, ctx: Context, name: str, x: ArrayValue, heads: int, size: int) -> Any:
        batch, steps, n = x.shape
        y = self._project(ctx, name, ops.reshape(x, shape=(batch * steps, n)), (n,), (heads, size))
        return ops.reshape(y, shape=(batch, steps, heads, size))

    def _project(self, ctx: Context, name: str, x: ArrayValue, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
        fans = prod(before), prod(after)
        kernel = ctx.weight(
            f"{name}/kernel",
            (*before, *after),
            self.kernel_initializer,
            fans=fans,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        y = ops.matmul(x, ops.reshape(kernel, shape=fans))
        if self.use_bias:
            bias = ctx.weight(
                f"{name}/bias",
                after,
                self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
            y = y + ops.reshape(bias, shape=(fans[1],))
        return y
