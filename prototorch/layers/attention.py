"""Attention with several heads."""

from __future__ import annotations

from prototorch.layers.projected_attention import HeadSizes, ProjectedAttention
from prototorch.schema import example, field


class MultiHeadAttention(ProjectedAttention):
    """Attention with several heads (Vaswani et al., 2017; Keras): each looks up values by keys, all at once.

    One input [batch, time, n] attends to itself. Two are query [batch, t, n] and value [batch, s, m]; a third is the
    key [batch, s, k], the value itself if not given; a fourth a mask [batch, t, s], nonzero where a query sees a key.
    Keys that the value's or the key's own mask leaves out are not seen; a query that its mask leaves out, or that
    sees no key, gets nothing but the bias (Keras). The query's mask is the output's. Output [batch, t, output_shape],
    with ``return_attention_scores`` also the weights [batch, heads, t, s].

    Weights: ``query/kernel`` [n, heads, key_dim], ``key/kernel`` [k, heads, key_dim], ``value/kernel`` [m, heads,
    value_dim], ``attention_output/kernel`` [heads, value_dim, output_shape], each with a ``bias``. Initializers that
    scale with the connections count all heads together.
    """

    block_word = "attention"
    positional = ("num_heads", "key_dim", "value_dim", "dropout", "use_bias", "output_shape")
    num_heads: int = field(min=1, doc="The number of heads.")
    key_dim: int = field(min=1, doc="The length of each head's queries and keys.")
    value_dim: int | None = field(default=None, min=1, doc="The length of each head's values; key_dim if not given.")
    dropout: float = field(default=0.0, min=0, below=1, doc="Fraction of attention weights dropped in training.")
    use_bias: bool = field(default=True, doc="Whether biases are added.")
    output_shape: int | None = field(default=None, min=1, doc="The length of the output; the query's if not given.")

    examples = [
        example("MultiHeadAttention { num_heads: 2  key_dim: 3 }", inputs=[(4, 5)]),
        example("MultiHeadAttention { num_heads: 2  key_dim: 2  causal: true  use_bias: false }", inputs=[(4, 4)],
                mask=(4, 2, 3)),
        example("MultiHeadAttention { num_heads: 1  key_dim: 2  value_dim: 3  output_shape: 4 }",
                inputs=[(3, 2), (5, 4)]),
        example("MultiHeadAttention { num_heads: 2  key_dim: 2  return_attention_scores: true }",
                inputs=[(3, 2), (5, 4), (5, 3)]),
        example("MultiHeadAttention { num_heads: 2  key_dim: 2  dropout: 0.25 }", inputs=[(4, 3)]),
        example("MultiHeadAttention { num_heads: 1  key_dim: 2 }", inputs=[(3, 2), (3, 2), (3, 2), (3, 3)],
                dtype=("float32", "float32", "float32", "bool")),
        example("MultiHeadAttention { num_heads: 2  key_dim: 4  causal: true  rotary: RotaryEmbedding { } }",
                inputs=[(3, 4)]),
    ]  # fmt: skip

    def sizes(self) -> HeadSizes:
        depth = self.value_dim or self.key_dim
        return HeadSizes(self.num_heads, self.num_heads, self.key_dim, depth, self.output_shape)


class GroupQueryAttention(ProjectedAttention):
    """Attention in which several heads of queries share one of keys and values (Ainslie et al., 2023; Keras).

    Inputs, masks and outputs as for `MultiHeadAttention`; the output is as long as the query. Head i of the queries
    reads head i // (num_query_heads / num_key_value_heads) of keys and values; with one of these it is multi-query
    attention (Shazeer, 2019).

    Weights: ``query/kernel`` [n, num_query_heads, head_dim], ``key/kernel`` [k, num_key_value_heads, head_dim],
    ``value/kernel`` [m, num_key_value_heads, head_dim], ``attention_output/kernel`` [num_query_heads, head_dim, n],
    each with a ``bias``.
    """

    foreign_names = {"GroupedQueryAttention": "GroupQueryAttention"}
    positional = ("head_dim", "num_query_heads", "num_key_value_heads", "dropout", "use_bias")
    head_dim: int = field(min=1, doc="The length of each head.")
    num_query_heads: int = field(min=1, doc="The number of heads of the queries.")
    num_key_value_heads: int = field(min=1, doc="The number of heads of keys and values; it divides the queries'.")
    dropout: float = field(default=0.0, min=0, below=1, doc="Fraction of attention weights dropped in training.")
    use_bias: bool = field(default=True, doc="Whether biases are added.")

    examples = [
        example("GroupQueryAttention { head_dim: 3  num_query_heads: 4  num_key_value_heads: 2 }", inputs=[(4, 5)]),
        example("GroupQueryAttention { head_dim: 2  num_query_heads: 2  num_key_value_heads: 1  causal: true  "
                "use_bias: false  rotary: RotaryEmbedding { } }", inputs=[(4, 4)], mask=(4, 2, 3)),
        example("GroupQueryAttention { head_dim: 2  num_query_heads: 4  num_key_value_heads: 1  dropout: 0.25  "
                "return_attention_scores: true }", inputs=[(3, 4), (5, 4), (5, 3)]),
    ]  # fmt: skip

    def check(self) -> None:
        super().check()
        if self.num_query_heads % self.num_key_value_heads:
            self.refuse(
                f"{self.num_query_heads} heads of queries do not divide into {self.num_key_value_heads} of keys and "
                "values",
                "num_key_value_heads",
            )

    def sizes(self) -> HeadSizes:
        return HeadSizes(self.num_query_heads, self.num_key_value_heads, self.head_dim, self.head_dim)
