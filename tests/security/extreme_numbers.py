"""Texts of every member of every family, with one number of it replaced by an extreme one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from prototorch.constraints import Constraint
from prototorch.initializers import Initializer
from prototorch.layers import Layer
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.optimizers import Optimizer
from prototorch.optimizers.schedules import Schedule
from prototorch.regularizers import Regularizer
from prototorch.schema import Block, Dims, FieldType, Int, Ints, ListOf, Optional, Padding, Union
from prototorch.train.callbacks import Callback

INPUT = 'input { name: "x"  shape: [4] }\n'
DENSE = INPUT + "Dense { units: 4  activation: sigmoid }\n"

#: texts in which a block of a family stands at @
FRAMES: dict[Any, str] = {
    Loss: DENSE + "compile { loss: @ }",
    Metric: DENSE + "compile { loss: mse  metrics: [@] }",
    Optimizer: DENSE + "compile { loss: mse  optimizer: @ }",
    Schedule: DENSE
    + "compile { loss: mse  optimizer: SGD { learning_rate: @ } }\nfit { epochs: 3  steps_per_epoch: 9 }",
    Initializer: INPUT + "Dense { units: 4  kernel_initializer: @ }",
    Regularizer: INPUT + "Dense { units: 4  kernel_regularizer: @ }",
    Constraint: INPUT + "Dense { units: 4  kernel_constraint: @ }",
    Callback: DENSE + "compile { loss: mse }\nfit { epochs: 3  callbacks: [@] }",
}


def _contains(kind: FieldType, searched: tuple[type, ...]) -> bool:
    if isinstance(kind, Optional | ListOf):
        return _contains(kind.inner, searched)
    if isinstance(kind, Union):
        return any(_contains(inner, searched) for inner in kind.inner)
    return isinstance(kind, searched)


def number_texts(value: str, kinds: tuple[type, ...] = (Int, Ints, Dims, Padding)) -> dict[str, str]:
    """For every field of these types, of every member of every family, a text in which its value is this one."""
    texts = {}
    for root in (Layer, *FRAMES):
        for name, cls in root.members().items():
            if cls.__module__.startswith("prototorch."):
                texts.update({f"{name}.{field}": text for field, text in _texts_of(root, cls, value, kinds)})
    return texts


def _texts_of(root: type[Block], cls: Any, value: str, kinds: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    examples = list(getattr(cls, "examples", ()))
    for name, spec in cls.specs().items():
        if not _contains(spec.type, kinds):
            continue
        chosen = next((e for e in examples if re.search(rf"\b{name}:", e.text)), examples[0] if examples else None)
        text = chosen.text if chosen else f"{cls.__name__} {{ }}"
        replaced, count = re.subn(rf"\b{name}:\s*(\[[^\]]*\]+|[^\s}}]+)", f"{name}: {value}", text, count=1)
        block = replaced if count else re.sub(r"\{", f"{{ {name}: {value} ", text, count=1)
        if root is not Layer:
            yield name, FRAMES[root].replace("@", block)
            continue
        shapes = (chosen.inputs if chosen else ()) or ((4,),)
        dtypes = (chosen.dtype,) * len(shapes) if chosen is None or isinstance(chosen.dtype, str) else chosen.dtype
        inputs = "".join(
            f'input {{ name: "x{i}"  shape: {list(shape)}  dtype: {dtype} }}\n'
            for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
        )
        bottoms = ", ".join(f'"x{i}"' for i in range(len(shapes)))
        yield name, inputs + block.rstrip()[:-1] + f" bottom: [{bottoms}] }}"
