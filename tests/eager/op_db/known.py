"""What the comparison with PyTorch's op_db leaves out, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import prototorch as pt

#: functions whose results are random or undefined: shapes and element types are compared
RANDOM = {
    "bernoulli", "empty", "empty_like", "multinomial", "new_empty", "normal", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "cauchy", "exponential", "geometric", "log_normal", "uniform", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
}  # fmt: skip

#: functions whose results are random for some samples: of those shapes and element types are compared
RANDOM_SAMPLES: dict[str, Callable[[Any], bool]] = {
    "nn.functional.multi_head_attention_forward": lambda s: s.args[9] > 0 and s.kwargs.get("training", True),
    "nn.functional.scaled_dot_product_attention": lambda s: s.kwargs.get("dropout_p", 0) > 0,
}

#: functions whose weights PyTorch rounds to 16 bits for uint8, and we do not: the difference that may be
ROUNDED = {"nn.functional.interpolate": 2, "nn.functional.upsample_bilinear": 1}

#: functions that PyTorch computes in float32 less accurately than we do: a factor of the tolerances
LOOSE: dict[str | tuple[str, str], float] = {
    "polygamma": 100.0, "special.polygamma": 100.0, "logit": 10.0, "cumprod": 10.0, "matrix_exp": 10.0,
    "nn.functional.multi_head_attention_forward": 10.0, "nn.functional.scaled_dot_product_attention": 10.0,
    ("cov", "float64"): 1000.0,  # its weights are float32, and with correction=2 differences of near numbers
}  # fmt: skip

_TIES = "the order of equal elements is not defined where stable=True is not given"
#: element types of samples that are left out, with the reason
LEFT_OUT = {
    **{
        (name, dtype): _TIES
        for name in ("sort", "argsort", "topk", "kthvalue", "msort", "median", "mode")
        for dtype in ("int64", "bool", "uint8")
    },
    ("nn.functional.local_response_norm", "int64"): "PyTorch cuts a fraction off the mean of squares",
}


def _triplet_loss(*args: Any, distance_function: Any = None, **options: Any) -> Any:
    ours = getattr(pt.nn.functional, getattr(distance_function, "__name__", "pairwise_distance"), None)
    return pt.nn.functional.triplet_margin_with_distance_loss(*args, distance_function=ours, **options)


#: variants of op_db that are left out, with the reason
VARIANTS_LEFT_OUT = {
    "as_strided.partial_views": "the inputs are views, whose memory reaches beyond them; ours are tensors of their own"
}

#: functions that op_db calls with other arguments than their own
ADAPTERS: dict[str, Callable[..., Any]] = {
    "einsum": lambda operands, equation: pt.einsum(equation, operands),
    "polygamma": lambda x, n: pt.polygamma(n, x),
    "special.polygamma": lambda x, n: pt.polygamma(n, x),
    **{
        name: (lambda method: lambda x, *args, **options: getattr(x.clone(), method)(*args, **options))(f"{name}_")
        for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform")
    },
    "where": lambda x, condition, other: pt.where(condition, x, other),
    "linalg.pinv.singular": lambda a, b: pt.linalg.pinv(a @ b.mT),
    "nn.functional.embedding": lambda table, *args, **options: pt.nn.functional.embedding(*args, table, **options),
    "nn.functional.embedding_bag": lambda table, indices, *args, **options: (
        pt.nn.functional.embedding_bag(indices, table, *args, **options)
    ),
    "nn.functional.triplet_margin_with_distance_loss": _triplet_loss,
    "zero_": lambda x: x.clone().zero_(),
    "normal.in_place": lambda x, *args: x.clone().normal_(*args),
    "normal.number_mean": lambda std, mean, *args, **options: pt.normal(mean, std, *args, **options),
    "T": lambda x: x.T, "mT": lambda x: x.mT, "H": lambda x: x.H, "mH": lambda x: x.mH,
}  # fmt: skip

#: error_inputs of PyTorch that are no mistakes here: name -> the beginning of its message -> the reason
NO_ERRORS: dict[str, dict[str, str]] = {
    "multinomial": {"Long tensor out": "out= of a floating-point type takes the integers"},
}
#: for all of them
NO_ERRORS_ANYWHERE = {
    "unsupported operation": "out= may overlap the inputs: the result is complete before it is written"
}

#: what a function refuses of PyTorch's samples: a part of its message
REFUSALS = {
    "svd": "some=False", "linalg.svd": "full_matrices=False", "qr": "mode must be", "linalg.qr": "mode must be",
    **dict.fromkeys(("addbmm", "addmv", "baddbmm", "addmm"), "beta and alpha must be integers"),
    "nn.functional.embedding": "sparse=True", "nn.functional.embedding_bag": "sparse=True",
    "nn.functional.batch_norm": "expected an input [batch, channels",
}  # fmt: skip

#: functions whose derivatives finite differences cannot check, with the reason
NO_GRADIENT_CHECK = {"__rpow__": "its samples are powers of negative numbers to fractions, which are NaN"}

#: variants whose samples are where there is no derivative, with the reason
VARIANTS_WITHOUT_GRADIENT_CHECK = {
    **{
        f"nn.functional.max_unpool{n}d.": "two elements have the same index, and the last one stays; .grad has none"
        for n in (1, 2, 3)
    },
}
