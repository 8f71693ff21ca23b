# ruff: noqa: E501
"""Texts that ask for much work or memory: small ones, which grow, and ones of a megabyte."""

from __future__ import annotations

INPUT = 'input { name: "x"  shape: [8] }\n'
DENSE = INPUT + "Dense { units: 1 }\n"


def _doubled(first: str, form: str, times: int = 60) -> str:
    """``param a0: first``, and params that are each made of the one before it."""
    return f"param a0: {first}\n" + "".join(
        f"param a{i}: {form.replace('A', f'a{i - 1}')}\n" for i in range(1, times + 1)
    )


TEN = "[" + ", ".join("A" * 10) + "]"
NESTED = _doubled("$([1, 1])", f"$({TEN})")
TWINS = _doubled("$([1, 1])", "$([A, A])", 26) + _doubled("$([1, 1])", "$([A, A])", 26).replace("a", "b").replace(
    "pbrbm", "param"
)

#: texts of up to a few kilobytes
SMALL = {
    "lists nested": NESTED + DENSE,
    "lists nested, as values": _doubled("[1, 1]", TEN.replace("A", "$A")) + DENSE,
    "lists nested deeply": _doubled("$([1])", "$([A])", 3000) + INPUT + "Dense { units: $a3000 }",
    "lists nested, in a message": NESTED + INPUT + "Dense { units: $(a5 + 1) }",
    "lists compared": TWINS + INPUT + "Dense { units: $(1 if a26 == b26 else 2) }",
    "lists compared again and again": "param a: $range(100000)\nparam b: $range(100000)\n"
    + INPUT + "repeat 100000 { if $(a == b) { } }\nDense { units: 1 }",
    "lists as arguments": "param a: $range(100000)\n" + INPUT + "block b(x) { ReLU { } }\nrepeat 50000 { b { x: $a } }",
    "lists concatenated": "param a: $range(100000)\n" + INPUT + "repeat 100000 { param s: $(len(a + a)) }",
    "the least of a list": "param a: $range(100000)\n" + INPUT + "repeat 100000 { param s: $(min(a)) }",
    "lists in layers": "param a: $range(100000)\n" + INPUT + "repeat 100000 { Dense { units: $a } }",
    "strings in lists": _doubled('"xxxxxxxxxxxxxxxx"', "$(A + A)", 14) + "param b: $([" + "a14, " * 500 + "a14])\n" + DENSE,
    "strings doubled": _doubled('"xxxxxxxxxxxxxxxx"', '"${A}${A}"') + DENSE,
    "expressions repeated": INPUT + "repeat 900000 { param a: $(" + " + ".join(["1"] * 90) + ") }",
    "names in deep scopes": INPUT + "param n: 1\n" + "repeat 1 { " * 90 + "repeat 400000 { param a: $n }" + " }" * 90,
    "blocks of fields": "param m: X { " + "a: 1 " * 1000 + "}\n" + INPUT + "repeat 90000 { Dense { kernel_initializer: $m } }",
    "arguments": INPUT + "block b(" + ", ".join(f"a{i}: 1" for i in range(500)) + ") { ReLU { } }\nrepeat 50000 { b { } }",
    "conditions": INPUT + "repeat 100000 { if false { } " + "else if false { } " * 500 + " }",
    "powers": "param a: $(9 ** 9 ** 9)\n" + DENSE,
    "huge shifts": "param a: $(2.0 ** -(9 ** 18))\nparam b: $(-(9 ** 9) ** 9)\nparam c: $(round(1e300, -99))\n" + DENSE,
    "mistakes in a repeat": INPUT + "repeat 90000 { Dense { unts: 1 } }",
    "unknown names in a repeat": INPUT + "repeat i in $range(90000) { Dense { units: $nothing } }",
    "unknown bottoms": INPUT + 'block b() { Dense { units: 8  bottom: "zzz" } }\nrepeat 90000 { b { } }',
    "shapes that do not fit": INPUT + 'repeat 90000 { Reshape { target_shape: [7]  bottom: "x" } }',
    "a large table": 'input { name: "x"  shape: [9000, 9000] }\nSinePositionEncoding { }\n',
    "a large image": 'input { name: "x"  shape: [3, 8000, 8000] }\nResizing { height: 30000  width: 30000 }\n',
    "a large crop": 'input { name: "x"  shape: [3, 30000, 30000] }\nRandomCrop { height: 20000  width: 20000 }\n',
    "a long sequence": 'input { name: "x"  shape: [40000, 8] }\nMultiHeadAttention { num_heads: 2  key_dim: 4  causal: true }\n',
    "a large attention": 'input { name: "a" shape: [40000, 8] } input { name: "b" shape: [30000, 8] }\n'
    'MultiHeadAttention { num_heads: 2  key_dim: 4  causal: true  bottom: ["a", "b"] }\n',
    "a large regularizer": INPUT + "Dense { units: 50000  kernel_regularizer: orthogonal_regularizer { mode: columns } }",
    "large recurrent layers": 'input { name: "x"  shape: [100, 60000] }\nLSTM { units: 60000 }\n',
    "long names": INPUT + 'block b0() { Dense { units: 8 } }\n'
    + "".join(f'block b{i}() {{ b{i - 1} {{ name: "{"n" * 50}" }} }}\n' for i in range(1, 90)) + "repeat 5000 { b89 { } }",
}  # fmt: skip

MEGABYTE = 2**20


def _fill(line: str, head: str = INPUT, tail: str = "", first: str = "") -> str:
    """A megabyte of a line, in which # is a number."""
    count = (MEGABYTE - len(head) - len(tail)) // (len(line.replace("#", "12345")) + 1)
    return head + "\n".join(line.replace("#", str(i)) for i in range(count)) + tail


#: texts of a megabyte
LARGE = {
    "mistakes": _fill("Dense { unts: 1 }"),
    "unknown layers": _fill("Dnse { units: 1 }"),
    "unknown activations": _fill("Dense { units: 1  activation: rleu }"),
    "unknown values": _fill("Dense { units: $x }"),
    "unknown bottoms": _fill('Dense { units: 1  bottom: "n#" }'),
    "unknown params": _fill("param p#: $(q#)"),
    "unknown fields": _fill("f#: 1", head=INPUT + "Dense { units: 1 ", tail=" }"),
    "unknown names beside many": _fill("Dense { units: $parametre_numbr }", head="".join(f"param parameter_number_{i}: {i}\n" for i in range(20_000)) + INPUT),
    "closing braces": "}\n" * (MEGABYTE // 2),
    "layers": _fill("Dense { units: 8 }"),
    "layers of many ops": 'input { name: "x"  shape: [4, 8] }\nrepeat 60000 { MultiHeadAttention { num_heads: 2  key_dim: 4 } }',
    "comments and filled strings": INPUT + "#\n" * 100_000 + 'param a: "' + "${1}" * 50_000 + '"\nDense { units: 1 }',
    "losses": _fill('loss { type: mse  output: "y" }', head=INPUT + 'Dense { name: "y"  units: 1 }\ncompile { ', tail=" }"),
    "metrics": _fill("metrics: mae", head=DENSE + "compile { loss: mse ", tail=" }"),
    "unreachable layers": _fill('Dense { units: 1  bottom: "x" }'),
}  # fmt: skip
