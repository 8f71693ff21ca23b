"""Scaled dot product attention and nn.MultiheadAttention beside PyTorch's, with all kinds of masks."""

import tracemalloc

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import ShapeError, UsageError
from tests.nn.peers import as_ours, as_theirs, build, compare_functions, compare_gradients, compare_results

F = pt.nn.functional


def random_mask(rng, shape, kind, hides_all=False):
    """A mask of a kind; each row sees a key unless ``hides_all``. kind: seen, hidden (bool), infinite, numbers."""
    seen = rng.random(shape) < 0.6
    seen[..., 0] |= not hides_all
    if kind in ("seen", "hidden"):
        return seen if kind == "seen" else ~seen
    return np.where(seen, 0.0 if kind == "infinite" else rng.standard_normal(shape), -np.inf)


@pytest.mark.parametrize("seed", range(24))
def test_scaled_dot_product(seed):
    rng = np.random.default_rng(seed)
    t, s, d, e = (int(n) for n in rng.integers(1, 6, 4))
    lead = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 4))))
    query, key, value = (rng.standard_normal((*lead, *shape)) for shape in ((t, d), (s, d), (s, e)))
    options = {"scale": 0.7} if rng.integers(2) else {}
    kind = str(rng.choice(["none", "causal", "seen", "infinite", "numbers"]))
    if kind == "causal":
        options["is_causal"] = True
    elif kind != "none":
        shape = (t, s) if rng.integers(2) else (*(n if rng.integers(2) else 1 for n in lead), t, s)
        options["attn_mask"] = random_mask(rng, shape, kind, hides_all=True)
    compare_functions("scaled_dot_product_attention", (query, key, value), options)


def test_without_keys_the_result_is_0():
    shapes = (2, 3, 4), (2, 0, 4), (2, 0, 5)
    compare_functions("scaled_dot_product_attention", tuple(np.ones(shape) for shape in shapes))


def test_grouped_queries():
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((2, h, 3, 4)) for h in (6, 2, 2))
    compare_functions("scaled_dot_product_attention", (query, key, value), {"enable_gqa": True})


def random_arguments(seed):
    rng = np.random.default_rng(seed)
    heads, each = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    embed = heads * each
    options = {n: bool(rng.integers(2)) for n in ("bias", "add_bias_kv", "add_zero_attn", "batch_first")}
    if rng.integers(2):
        options |= {"kdim": int(rng.integers(1, 5)), "vdim": int(rng.integers(1, 5))}
    return rng, heads, embed, options


@pytest.mark.parametrize("seed", range(30))
def test_multi_head_attention(seed):
    rng, heads, embed, options = random_arguments(seed)
    ours, theirs = build("MultiheadAttention", (embed, heads), options)
    assert repr(ours) == repr(theirs)
    t, s, batch = (int(n) for n in rng.integers(1, 5, 3))
    is_one = rng.integers(4) == 0
    widths = embed, options.get("kdim", embed), options.get("vdim", embed)

    def shape(steps, n):
        return (steps, n) if is_one else (batch, steps, n) if options["batch_first"] else (steps, batch, n)

    arrays = [rng.standard_normal(shape(*pair)) for pair in zip((t, s, s), widths, strict=True)]
    call = {"need_weights": bool(rng.integers(2)), "average_attn_weights": bool(rng.integers(2))}
    if rng.integers(2):
        kind = str(rng.choice(["hidden", "infinite", "numbers"]))
        count = heads if is_one else batch * heads
        call["attn_mask"] = random_mask(rng, (t, s) if rng.integers(2) else (count, t, s), kind)
    if rng.integers(2):
        kind = "infinite" if call.get("attn_mask", np.ones(1, bool)).dtype.kind == "f" else "hidden"
        call["key_padding_mask"] = random_mask(rng, (s,) if is_one else (batch, s), kind)
    mine, peers = as_ours(arrays), as_theirs(arrays)
    ours_call = {k: pt.tensor(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
    their_call = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in call.items()}
    y, z = ours(*mine, **ours_call), theirs(*peers, **their_call)
    assert (y[1] is None) == (z[1] is None) == (not call["need_weights"])
    y, z = ([v for v in values if v is not None] for values in (y, z))
    compare_results(y, z)
    compare_gradients(y, z, [*mine, *ours.parameters()], [*peers, *theirs.parameters()])


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_causal_mask_with_its_hint(need_weights):
    ours, theirs = build("MultiheadAttention", (4, 2), {})
    x = np.random.default_rng(0).standard_normal((5, 3, 4))
    mask = torch.triu(torch.full((5, 5), -torch.inf, dtype=torch.float64), 1)
    mine, peer = as_ours(x), as_theirs(x)
    call = {"need_weights": need_weights, "is_causal": True}
    y = ours(mine, mine, mine, attn_mask=pt.tensor(mask.numpy()), **call)[0]
    compare_results(y, theirs(peer, peer, peer, attn_mask=mask, **call)[0])


def test_dropout_inside_is_that_of_the_weights():
    """Values that are unit vectors show the weights: each is 0, or divided by 1 - p; the gradient has the same mask."""
    pt.manual_seed(0)
    t = 40
    query, key = pt.randn(1, 2, t, 8), pt.randn(1, 2, t, 8)
    value = pt.eye(t).expand(1, 2, t, t).clone().requires_grad_()
    full = F.scaled_dot_product_attention(query, key, value).detach().numpy()
    y = F.scaled_dot_product_attention(query, key, value, dropout_p=0.25)
    ratio = y.detach().numpy() / full
    dropped = ratio == 0
    np.testing.assert_allclose(ratio[~dropped], 1 / 0.75, rtol=1e-4)
    assert 0.2 < dropped.mean() < 0.3
    y.sum().backward()
    np.testing.assert_allclose(value.grad.numpy()[..., 0], (full * ratio).sum(2), rtol=1e-4)
    again = F.scaled_dot_product_attention(query, key, value, dropout_p=0.25).detach().numpy()
    assert not np.array_equal(again == 0, dropped)
    assert not F.scaled_dot_product_attention(query, key, value, dropout_p=1.0).detach().numpy().any()


def test_long_sequences_take_no_matrix_of_weights():
    """4096 steps of 2 heads: their weights would be 128 MiB."""
    x = pt.randn(1, 2, 4096, 4).requires_grad_()
    tracemalloc.start()
    F.scaled_dot_product_attention(x, x, x, is_causal=True, dropout_p=0.1).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: F.scaled_dot_product_attention(x, x[..., :2], x), "expected query [..., t, d]"),
        (lambda x: F.scaled_dot_product_attention(x[0, 0], x, x), "at least two dimensions"),
        (lambda x: F.scaled_dot_product_attention(x, x.double(), x), "one floating-point type"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, pt.ones(3, 5)), "attn_mask [3, 5] does not broadcast"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, pt.ones(3, 3), is_causal=True), "exclude each other"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=1.5), "from 0 to 1, got 1.5"),
        (lambda x: F.scaled_dot_product_attention([1.0], x, x), "expected a tensor, got list"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, scale="a"), "scale must be a number, got 'a'"),
        (lambda x: F.scaled_dot_product_attention(x, pt.randn(3, 3, 4), x), "do not broadcast: [2, 3, 4], [3, 3, 4]"),
        (lambda x: pt.nn.MultiheadAttention("4", 2), "embed_dim must be an integer, got '4'"),
        (lambda x: pt.nn.MultiheadAttention(4, 2)(x.double(), x, x), "the parameters are prototorch.float32"),
        (lambda x: pt.nn.MultiheadAttention(5, 2), "divisible by num_heads, got 5 and 2"),
        (lambda x: pt.nn.MultiheadAttention(4, 2)(x, x, x, is_causal=True), "a hint about attn_mask"),
        (lambda x: pt.nn.MultiheadAttention(6, 2)(x, x, x), "embed_dim is 6, but the query has 4"),
        (lambda x: pt.nn.MultiheadAttention(4, 2)(x, x[:1], x), "keys and values must be as many"),
        (lambda x: pt.nn.MultiheadAttention(4, 2)(x, x, x, pt.ones(1, 1)), "key_padding_mask must be [3, 2], got"),
        (lambda x: pt.nn.MultiheadAttention(4, 2)(x, x, x, pt.ones(3, 2, dtype=pt.int64)), "bool or floating-point"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises((UsageError, ShapeError)) as error:
        call(pt.randn(2, 3, 4))
    assert words in str(error.value)
