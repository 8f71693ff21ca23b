"""Native recurrent sequences and their gradients against the plain bodies."""

import numpy as np
import pytest

from prototorch import ops
from prototorch.engine.backends.cpu import worker_pool
from prototorch.ops.prepack import OperandUse
from prototorch.spec import Spec

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

# samples, steps, units: one and several tiles, blocks and groups of rows, and what is left of each
SIZES = [(1, 1, 1), (2, 3, 5), (7, 5, 20), (70, 3, 17), (33, 6, 64)]
# sums of up to 256 products, and what the steps make of each other's rounding
TOLERANCE = {"rtol": 5e-5, "atol": 1e-5}


@pytest.fixture(autouse=True)
def _as_many_threads_as_before():
    before = worker_pool.num_threads()
    yield
    worker_pool.set_num_threads(before)


def numbers(*shape, scale=1.0, seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape, scale=scale), "float32")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_lstm_and_its_gradient(bits, size, masked):
    n, t, units = size
    x, u = numbers(n, t, 4 * units), numbers(units, 4 * units, scale=0.3, seed=1)
    h, c = numbers(n, units, seed=2), numbers(n, units, seed=3)
    mask = (np.random.default_rng(4).random((n, t)) < 0.6,) if masked else ()
    attrs = {"masked": masked, "reverse": units != 20}
    if units == 5:
        attrs |= {"activation": "relu", "recurrent_activation": "linear"}
    check("lstm_sequence", x, u, h, c, *mask, **attrs, **TOLERANCE)
    made = ops.lstm_sequence.reference(np, x, u, h, c, *mask, **attrs)
    after = [np.ascontiguousarray(made[i]) for i in (0, 3)]
    grads = numbers(n, t, units, seed=5), numbers(n, units, seed=6), numbers(n, units, seed=7)
    check("lstm_sequence_grad", x, u, h, c, *mask, *after, *grads, **attrs, **TOLERANCE)
    check("lstm_sequence_with_gates", x, u, h, c, *mask, **attrs, **TOLERANCE)
    gates = np.ascontiguousarray(ops.lstm_sequence_with_gates.reference(np, x, u, h, c, *mask, **attrs)[4])
    check("lstm_sequence_with_gates_grad", gates, u, h, c, *mask, *after, *grads, **attrs, **TOLERANCE)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_simple_nets_gated_units_and_their_gradients(bits, size, masked):
    n, t, units = size
    mask = (np.random.default_rng(4).random((n, t)) < 0.6,) if masked else ()
    h, grads = numbers(n, units, seed=2), (numbers(n, t, units, seed=5), numbers(n, units, seed=6))
    kinds = ((ops.simple_rnn_sequence, 1, {}), (ops.gru_sequence, 3, {"activation": "tanh"}),
             (ops.gru_sequence, 3, {"reset_after": False}))  # fmt: skip
    for op, gates, attrs in kinds:
        x, u = numbers(n, t, gates * units), numbers(units, gates * units, scale=0.3, seed=1)
        given = (x, u, *((numbers(3 * units, seed=8),) if gates == 3 else ()), h, *mask)
        attrs = {**attrs, "masked": masked, "reverse": units != 20}
        check(op.name, *given, **attrs, **TOLERANCE)
        after = np.ascontiguousarray(op.reference(np, *given, **attrs)[0])
        check(f"{op.name}_grad", *given, after, *grads, **attrs, **TOLERANCE)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", [*SIZES, (1, 4, 256)])  # the last in several pieces
@pytest.mark.parametrize("op", [ops.simple_rnn_sequence, ops.lstm_sequence, ops.gru_sequence])
def test_weights_that_were_packed_before(bits, op, size, masked):
    """They give the same bits as those that are packed in each run."""
    n, t, units = size
    gates, states = op.gates, op.states
    x, u = numbers(n, t, gates * units), numbers(units, gates * units, scale=0.1, seed=1)
    bias = (numbers(3 * units, seed=8),) if gates == 3 else ()
    mask = (np.random.default_rng(4).random((n, t)) < 0.6,) if masked else ()
    arrays = [x, u, *bias, *(numbers(n, units, seed=2 + i) for i in range(states)), *mask]
    attrs = {"masked": masked, "reverse": units != 20}
    want = check(op.name, *arrays, **attrs, **TOLERANCE)
    ins = native_check.specs_of(arrays, None)
    outs = native_check.outputs_of(op.name, ins, attrs, None)
    found = native_check.cpu("native").pack_request(op, ins, outs, attrs)
    assert found.operand == 1
    use = OperandUse(op.name, tuple(sorted(attrs.items())), ins, outs, 1)
    held = Spec((found.size,))
    (packed,) = native_check.run_native("prepack", [u], (ins[1],), (held,), {"use": use, "size": found.size})
    given, specs = [x, packed, *arrays[2:]], (ins[0], held, *ins[2:])
    for threads in (1, 2):
        worker_pool.set_num_threads(threads)
        made = native_check.run_native("apply_prepacked", given, specs, outs, {"use": use})
        assert [a.tobytes() for a in made] == [a.tobytes() for a in want]


@pytest.mark.parametrize("pair", [("softsign", "hard_sigmoid"), ("elu", "softsign"), ("selu", "sigmoid"),
                                  ("softplus", "hard_sigmoid")])  # fmt: skip
def test_other_activations(bits, pair):
    n, t, units = 7, 4, 20
    attrs = {"activation": pair[0], "recurrent_activation": pair[1]}
    for op, gates, states in ((ops.simple_rnn_sequence, 1, 1), (ops.lstm_sequence, 4, 2), (ops.gru_sequence, 3, 1)):
        own = {"activation": pair[0]} if gates == 1 else attrs
        x, u = numbers(n, t, gates * units), numbers(units, gates * units, scale=0.1, seed=1)
        bias = (numbers(3 * units, seed=8),) if gates == 3 else ()
        given = (x, u, *bias, *(numbers(n, units, seed=2 + i) for i in range(states)))
        check(op.name, *given, **own, **TOLERANCE)
        made = op.reference(np, *given, **own)
        after = [np.ascontiguousarray(made[i]) for i in (0, *range(states + 1, len(made)))]
        grads = numbers(n, t, units, seed=5), *(numbers(n, units, seed=6 + i) for i in range(states))
        check(f"{op.name}_grad", *given, *after, *grads, **own, **TOLERANCE)
