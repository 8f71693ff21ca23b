"""ONNX ops that mean the same as one of our ops or layers, up to the names of their attributes.

One row is read in both directions: the importer makes the layer of the node, the exporter the node of the layer, or of
the op where a layer's `call` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prototorch import layers
from prototorch.layers.base import Layer

__all__ = ["OP_PAIRS", "AttributePair", "OpPair", "pair_by_our_op", "pair_of_layer", "pairs_by_op"]


@dataclass(frozen=True)
class AttributePair:
    """An attribute of the node and the field of the layer (and attribute of our op) that holds its value.

    default: ONNX' own, where the node does not state it. values: our value by ONNX' one, where they differ.
    """

    ours: str
    default: Any
    values: Mapping[Any, Any] | None = None

    def to_ours(self, value: Any) -> Any:
        """Our value of ONNX' one; KeyError for a value that ours does not have."""
        return value if self.values is None else self.values[value]

    def to_onnx(self, value: Any) -> Any:
        """ONNX' value of ours."""
        if self.values is None:
            return value
        return next(theirs for theirs, ours in self.values.items() if ours == value)


@dataclass(frozen=True)
class OpPair:
    """An ONNX op with our op and our layer of the same meaning.

    our_op: its name in `prototorch.ops`, "" where several ops make it. layer: None where no layer is it. attributes: by
    ONNX' names. fixed: attributes that must have this value, the value of ONNX where the node does not state it is the
    second of the pair. since: the first opset of the default domain that has the op with this meaning.
    """

    op: str
    our_op: str = ""
    layer: type[Layer] | None = None
    attributes: Mapping[str, AttributePair] = field(default_factory=dict)
    fixed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    since: int = 1

    def fields(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The layer's fields for the attributes that a node states. KeyError for a value that ours does not have."""
        return {pair.ours: pair.to_ours(attributes.get(name, pair.default)) for name, pair in self.attributes.items()}

    def fits(self, attributes: Mapping[str, Any], tolerance: float = 1e-5) -> bool:
        """Whether the fixed attributes of a node have the values that the layer stands for."""
        return all(abs(attributes.get(n, default) - value) <= tolerance for n, (value, default) in self.fixed.items())

    def node_attributes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The node's attributes for the fields of the layer, or the attributes of our op; ONNX' defaults left out."""
        given = {name: pair.to_onnx(values[pair.ours]) for name, pair in self.attributes.items()}
        given = {name: value for name, value in given.items() if value != self.attributes[name].default}
        return given | {name: value for name, (value, default) in self.fixed.items() if value != default}


def _axis(default: int = -1) -> dict[str, AttributePair]:
    return {"axis": AttributePair("axis", default)}


OP_PAIRS: tuple[OpPair, ...] = (
    # activations
    OpPair("Relu", "relu", layers.ReLU),
    OpPair("LeakyRelu", "leaky_relu", layers.LeakyReLU, {"alpha": AttributePair("negative_slope", 0.01)}),
    OpPair("Elu", "elu", layers.ELU, {"alpha": AttributePair("alpha", 1.0)}),
    OpPair("Celu", "", layers.CELU, {"alpha": AttributePair("alpha", 1.0)}, since=12),
    OpPair("Selu", "selu", layers.SELU, fixed={"alpha": (1.67326319217681884765625, 1.67326319217681884765625),
                                               "gamma": (1.05070102214813232421875, 1.05070102214813232421875)}),
    OpPair("Sigmoid", "sigmoid", layers.Sigmoid),
    OpPair("HardSigmoid", "hard_sigmoid", layers.HardSigmoid, fixed={"alpha": (1 / 6, 0.2), "beta": (0.5, 0.5)}),
    OpPair("HardSwish", "hard_swish", layers.HardSwish, since=14),
    OpPair("Mish", "mish", layers.Mish, since=18),
    OpPair("Gelu", "gelu", layers.GELU, since=20,
           attributes={"approximate": AttributePair("approximate", "none", {"none": False, "tanh": True})}),
    OpPair("Swish", "", layers.SiLU, fixed={"alpha": (1.0, 1.0)}, since=24),
    OpPair("Tanh", "tanh", layers.Tanh),
    OpPair("Softplus", "softplus", layers.Softplus),
    OpPair("Softsign", "softsign", layers.Softsign),
    OpPair("Exp", "exp", layers.Exponential),
    OpPair("Softmax", "softmax", layers.Softmax, _axis(), since=13),
    OpPair("LogSoftmax", "log_softmax", layers.LogSoftmax, _axis(), since=13),
    OpPair("Identity", "stop_gradient", layers.Linear),
    # normalization
    OpPair("LRN", "", layers.LRN, {"size": AttributePair("size", None), "alpha": AttributePair("alpha", 1e-4),
                                   "beta": AttributePair("beta", 0.75), "bias": AttributePair("k", 1.0)}),
    # several inputs; the ops have two, the layers any number
    OpPair("Add", "", layers.Add),
    OpPair("Sub", "subtract", layers.Subtract),
    OpPair("Mul", "multiply", layers.Multiply),
    OpPair("Max", "maximum", layers.Maximum),
    OpPair("Min", "minimum", layers.Minimum),
    OpPair("Concat", "concat", layers.Concatenate, {"axis": AttributePair("axis", None)}),
    # elementwise functions
    OpPair("Div", "divide", layers.Divide),
    OpPair("Pow", "power"),
    OpPair("Neg", "negative", layers.Negative),
    OpPair("Abs", "abs", layers.Abs),
    OpPair("Sqrt", "sqrt", layers.Sqrt),
    OpPair("Log", "log", layers.Log),
    OpPair("Erf", "erf", layers.Erf),
    OpPair("Sign", "sign", layers.Sign),
    OpPair("Floor", "floor", layers.Floor),
    OpPair("Ceil", "ceil", layers.Ceil),
    OpPair("Round", "round", layers.Round),
    OpPair("Sin", "sin", layers.Sin),
    OpPair("Cos", "cos", layers.Cos),
    OpPair("Tan", "tan", since=7),
    OpPair("Asin", "asin", since=7),
    OpPair("Acos", "acos", since=7),
    OpPair("Atan", "atan", since=7),
    OpPair("Sinh", "sinh", since=9),
    OpPair("Cosh", "cosh", since=9),
    OpPair("Asinh", "asinh", since=9),
    OpPair("Acosh", "acosh", since=9),
    OpPair("Atanh", "atanh", since=9),
    OpPair("IsNaN", "isnan", since=9),
    OpPair("IsInf", "isinf", since=10),
    OpPair("BitwiseAnd", "bitwise_and", since=18),
    OpPair("BitwiseOr", "bitwise_or", since=18),
    OpPair("BitwiseXor", "bitwise_xor", since=18),
    OpPair("BitwiseNot", "bitwise_not", since=18),
    OpPair("Not", "", layers.LogicalNot),
    OpPair("Less", "less", layers.Less),
    OpPair("LessOrEqual", "less_equal", layers.LessEqual),
    OpPair("Equal", "equal", layers.Equal),
    OpPair("And", "", layers.LogicalAnd),
    OpPair("Or", "", layers.LogicalOr),
    OpPair("Reciprocal", "", layers.Reciprocal),
    OpPair("Greater", "", layers.Greater),
    OpPair("GreaterOrEqual", "", layers.GreaterEqual),
    OpPair("Xor", "", layers.LogicalXor),
    OpPair("Where", "where", layers.Where),
)  # fmt: skip

_BY_OUR_OP = {pair.our_op: pair for pair in OP_PAIRS if pair.our_op}
_BY_LAYER = {pair.layer: pair for pair in OP_PAIRS if pair.layer is not None}


def pair_by_our_op(name: str) -> OpPair | None:
    """The row of one of our ops."""
    return _BY_OUR_OP.get(name)


def pair_of_layer(layer: type[Layer]) -> OpPair | None:
    """The row of a layer class."""
    return _BY_LAYER.get(layer)


def pairs_by_op() -> dict[str, OpPair]:
    """All rows by ONNX' name of the op."""
    return {pair.op: pair for pair in OP_PAIRS}
