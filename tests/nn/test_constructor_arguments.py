"""Every argument that a constructor of a module or an optimizer takes is read; what has no effect stands in a list."""

import ast
import inspect
import textwrap

import pytest

import prototorch as pt
from prototorch import nn, optim
from prototorch.errors import ModelWarning

#: (class, argument) -> why it has no effect
WITHOUT_EFFECT = {
    ("nn.TransformerEncoder", "enable_nested_tensor"): "PyTorch's way to skip padded rows; the results are the same",
    ("nn.TransformerEncoder", "mask_check"): "whether PyTorch looks at the mask for that",
}


def _classes():
    for package, base in ((nn, nn.Module), (optim, optim.Optimizer)):
        for name in sorted(package.__all__):
            value = getattr(package, name, None)
            if inspect.isclass(value) and issubclass(value, base):
                yield f"{package.__name__.rpartition('.')[2]}.{name}", value


def _tree(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _reads(tree):
    """The names that are read, and the attributes of ``self`` that are read and that are set."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    names |= {k.value for n in ast.walk(tree) if isinstance(n, ast.Dict) for k in n.keys if isinstance(k, ast.Constant)}
    attributes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    return names, {a.attr for a in attributes if isinstance(a.ctx, ast.Load)}


def _stored_as(tree, argument):
    """The attributes that an argument is stored in, where that is all that is done with it; else None."""
    stores, uses = set(), 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == argument and isinstance(node.ctx, ast.Load):
            uses += 1
        if isinstance(node, ast.Assign):
            pairs = []
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs += list(zip(target.elts, node.value.elts, strict=False))
                else:
                    pairs.append((target, node.value))
            for target, value in pairs:
                if isinstance(value, ast.Name) and value.id == argument and isinstance(target, ast.Attribute):
                    stores.add(target.attr)
                    uses -= 1
    return stores if stores and uses == 0 else None


def _ignored(cls):
    """The constructor's arguments that nothing reads but ``extra_repr``."""
    owner = next((c for c in cls.__mro__ if "__init__" in vars(c)), object)
    if owner is object or not owner.__module__.startswith("prototorch"):
        return []
    tree = _tree(owner.__init__)
    names, _ = _reads(tree)
    attributes = set()
    for base in cls.__mro__:
        if base.__module__.startswith("prototorch"):
            for name, value in vars(base).items():
                function = getattr(value, "fget", None) or getattr(value, "__func__", value)
                if inspect.isfunction(function) and name not in ("extra_repr", "__repr__"):
                    attributes |= _reads(_tree(function))[1]
    result = []
    for name, parameter in inspect.signature(owner.__init__).parameters.items():
        if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        stores = _stored_as(tree, name)
        if name not in names or (stores is not None and not stores & attributes):
            result.append(name)
    return result


CLASSES = dict(_classes())


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_is_read(name):
    assert [a for a in _ignored(CLASSES[name]) if (name, a) not in WITHOUT_EFFECT] == []


def test_the_list_has_no_row_too_many():
    assert [key for key in WITHOUT_EFFECT if key[1] not in _ignored(CLASSES[key[0]])] == []


@pytest.mark.parametrize("cls", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_are_dense_with_a_note(cls):
    torch = pytest.importorskip("torch")
    with pytest.warns(ModelWarning, match=r"sparse=True\): gradients are dense tensors here, of the same numbers"):
        ours = cls(5, 3, sparse=True)
    theirs = getattr(torch.nn, cls.__name__)(5, 3, sparse=True)
    theirs.load_state_dict({"weight": torch.tensor(ours.weight.detach().numpy())})
    ids = [[1, 4], [1, 2]]
    steps = {}
    for module, library in ((ours, pt), (theirs, torch)):
        (module(library.tensor(ids)) ** 2).sum().backward()
        library.optim.SGD(module.parameters(), lr=0.1).step()
        steps[library] = module.weight.detach().numpy()
    assert not ours.weight.grad.is_sparse
    assert (abs(steps[pt] - steps[torch]) < 1e-6).all()
    with pytest.warns(ModelWarning, match="sparse=True"):
        nn.functional.embedding(pt.tensor([0]), ours.weight, sparse=True)


def test_the_check_finds_an_argument_that_is_stored_alone():
    class Ignores(nn.Module):
        def __init__(self, width, depth, height=2, *, unread=None):
            super().__init__()
            self.width, self.depth = width, depth
            self.height = height + 1

        def forward(self, x):
            return x * self.width

        def extra_repr(self):
            return f"{self.depth}"

    Ignores.__module__ = "prototorch.nn"
    assert _ignored(Ignores) == ["depth", "unread"]
