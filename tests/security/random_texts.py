"""Model texts drawn at random from the schema: layers, compile, fit, data, preprocess, augment and callbacks with any
of their fields, most values valid, some not. Nothing is listed here by hand: families and field types give it all."""

from __future__ import annotations

import random
from typing import Any

from prototorch.layers.base import Layer
from prototorch.schema.family import FamilyMember, FamilyMemberList, NestedBlock
from prototorch.schema.names import Identifier
from prototorch.schema.shapes import Dims, Ints
from prototorch.schema.types import Bool, Choice, FieldType, Float, Int, ListOf, Optional, Str, Union
from prototorch.train.callbacks import Callback
from prototorch.train.class_weight_field import ClassWeights
from prototorch.train.config import Compile, Fit

INPUTS = {"x": "[5]", "image": "[2, 6, 6]", "sequence": "[4, 3]"}
HOSTILE = [
    "-1", "0", "1e308", "-1e-320", "nan", "inf", "none", "true", "2147483648", "9223372036854775807", "[]", "[[], [1]]",
    '""', '"../../x"', '"/etc/passwd"', '"{epoch.__class__}"', '"{epoch:3000000000d}"', '"a;b"', '"\\u001b[31m"', "x",
    "Dense { units: 1 }", "{ }", "{ type: mse }", "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
]  # fmt: skip
LENGTHS = ("epochs", "steps_per_epoch", "validation_steps")  # a training of 2^31 steps is valid, and long
WORDS = ["out", "loss", "val_loss", "accuracy", "x", "y", "data.npz", "w.h5", "log.csv", "{epoch:02d}.h5", "train"]


class TextGenerator:
    """The text of one seed. ``hostility`` is the probability of a value that does not belong where it stands: none in
    every second text, so that many are trained."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.hostility = self.chance.choice((0.0, 0.0, 0.03, 0.1))
        self.names = 0

    def text(self) -> str:
        """A whole model with its training, on the arrays of `INPUTS` and the targets ``label`` and ``value``."""
        chance = self.chance
        name = chance.choice(list(INPUTS))
        lines = [f'name: "net"\ninput {{ name: "{name}"  shape: {INPUTS[name]} }}']
        rank = INPUTS[name].count(",") + 1
        for chain in ("preprocess", "augment"):
            if chance.random() < 0.25:
                lines.append(f"{chain} {{ {self._layers(chance.choice((1, 1, 2)), rank)} }}")
        lines.append(self._layers(chance.choice((0, 0, 1, 1, 2, 3)), rank, "\n"))
        classes = chance.random() < 0.5
        lines.append(f"Flatten {{ }}\nDense {{ units: {3 if classes else 1} }}")
        target = "label" if classes else "value"
        fixed = {"loss": "{ type: sparse_categorical_crossentropy { from_logits: true } }" if classes else "mse"}
        fixed = fixed if chance.random() < 0.9 else {}
        lines.append("compile " + self.block(Compile, fixed, skip=("device", "threads", "train")))
        data = f'{{ source: "data.npz"  label: "{target}"  features: "{name}"  threads: 0 }}'
        fixed = {"data": data, "epochs": str(chance.randint(1, 2)), "batch_size": str(chance.randint(1, 8))}
        fixed |= {"steps_per_epoch": "1"} if chance.random() < 0.5 else {}
        if chance.random() < 0.5:
            callbacks = [self._member(Callback, 2) for _ in range(chance.randint(1, 3))]
            fixed["callbacks"] = "[" + ", ".join(callbacks) + "]"
        lines.append("fit " + self.block(Fit, fixed, skip=("callbacks", "validation") if chance.random() < 0.9 else ()))
        return "\n".join(lines) + "\n"

    def _layers(self, count: int, rank: int, separator: str = "  ") -> str:
        """Layers, mostly such as take one input of this rank, by their examples."""
        every = Layer.members()
        fitting = [n for n, cls in every.items() if any([len(i) for i in e.inputs] == [rank] for e in cls.examples)]
        names = [self.chance.choice(fitting if self.chance.random() < 0.85 else list(every)) for _ in range(count)]
        return separator.join(self._member(Layer, 2, name) for name in names)

    def _member(self, root: Any, depth: int, name: str | None = None) -> str:
        members = root.members()
        cls = members[name or self.chance.choice(list(members))]
        return f"{cls.__name__} {self.block(cls, {}, depth=depth)}"

    def block(self, cls: Any, fixed: dict[str, str], skip: tuple[str, ...] = (), depth: int = 3) -> str:
        """``{ field: value ... }``: what is required, some of the rest, and ``fixed`` as it is."""
        fields = []
        for name, spec in cls.specs().items():
            if name in fixed:
                fields.append(f"{name}: {fixed[name]}" if not fixed[name].startswith("{") else f"{name} {fixed[name]}")
            elif name in LENGTHS and self.chance.random() < 0.15:
                fields.append(f"{name}: {self.chance.randint(1, 3)}")
            elif name not in skip and name not in LENGTHS and (spec.required or self.chance.random() < 0.15):
                fields.append(f"{name}: {self.value(spec.type, depth)}")
        return "{ " + "  ".join(fields) + " }"

    def value(self, kind: FieldType, depth: int) -> str:
        """A value of a field type."""
        chance = self.chance
        if chance.random() < self.hostility or depth < 0:
            return chance.choice(HOSTILE)
        match kind:
            case Optional():
                return "none" if chance.random() < 0.1 else self.value(kind.inner, depth)
            case Union():
                return self.value(chance.choice(kind.inner), depth)
            case Bool():
                return chance.choice(("true", "false"))
            case Int():
                low = int(kind.bounds.min if kind.bounds.min is not None else 0)
                return str(chance.randint(low, low + 4))
            case Float():
                low, high = kind.bounds.min or 0.0, kind.bounds.max or 1.0
                return f"{low + (high - low) * chance.choice((0.001, 0.1, 0.5, 0.9)):.4g}"
            case Ints():
                return f"[{', '.join(str(chance.randint(1, 4)) for _ in range(kind.rank))}]"
            case Dims():
                return f"[{', '.join(str(chance.randint(1, 4)) for _ in range(kind.rank or chance.randint(1, 3)))}]"
            case Choice():
                return str(chance.choice(kind.choices))
            case Identifier():
                self.names += 1
                return f'"name{self.names}"'
            case ClassWeights():
                return chance.choice(("balanced", "[1, 2, 0.5]", "[3]"))
            case Str():
                return f'"{chance.choice(WORDS)}"'
            case ListOf():
                return f"[{', '.join(self.value(kind.inner, depth - 1) for _ in range(kind.length or 2))}]"
            case FamilyMember():
                return self._member(kind.root, depth - 1)
            case FamilyMemberList():
                return f"[{', '.join(self._member(kind.member.root, depth - 1) for _ in range(2))}]"
            case NestedBlock():
                return self.block(kind.block, {}, depth=depth - 1)
        inner = getattr(kind, "block", None)  # losses and metrics: a member, or a block with its output
        if inner is not None:
            return self.value(inner.specs()["type"].type, depth - 1)
        return chance.choice(("1", "[1, 1]", "0.5", "same", '"x"'))
