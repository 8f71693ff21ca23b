"""Every module of PyTorch's module_db that exists here: outputs and states, compared with PyTorch's."""

import copy
from functools import cache

import numpy as np
import pytest
import torch

import prototorch as pt
from tests.eager.op_db.torch_op_db import op_infos

#: modules whose results are random
RANDOM = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"}
NAMES = sorted(set(pt.nn.__all__) & set(dir(torch.nn)) - RANDOM)


@cache
def module_infos():
    op_infos()  # it makes PyTorch's own tests importable
    from torch.testing._internal.common_modules import module_db

    return {info.name[3:]: info for info in module_db if info.name.startswith("nn.")}


def ours(value):
    if isinstance(value, torch.nn.Parameter):
        return pt.nn.Parameter(pt.tensor(value.detach().numpy()))
    if isinstance(value, torch.Tensor):
        return pt.tensor(value.detach().numpy())
    if isinstance(value, torch.dtype):
        return getattr(pt, str(value).split(".")[1])
    if isinstance(value, tuple | list):
        return type(value)(ours(v) for v in value)
    return {k: ours(v) for k, v in value.items()} if isinstance(value, dict) else value


def flat(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in flat(v)] if isinstance(value, tuple | list) else [value]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_modules_of_module_db(name):
    info = module_infos().get(name)
    if info is None:
        pytest.skip("not in module_db")
    count = 0
    for training in (True, False):
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=False, training=training
        )
        for sample in samples:
            args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
            forward = sample.forward_input
            if forward is None or any(
                callable(a) and not isinstance(a, torch.Tensor) for a in [*args, *kwargs.values()]
            ):
                continue
            theirs = info.module_cls(*args, **kwargs).double()
            mine = getattr(pt.nn, name)(*ours(args), **ours(kwargs)).double()
            mine.load_state_dict(theirs.state_dict())
            theirs.train(training), mine.train(training)
            if any(getattr(m, "dropout", 0) and training for m in theirs.modules()):
                continue
            y = theirs(*copy.deepcopy(forward.args), **copy.deepcopy(forward.kwargs))
            z = mine(*ours(forward.args), **ours(forward.kwargs))
            for a, b in zip(flat(z), flat(y), strict=True):
                if b is None:
                    assert a is None
                elif isinstance(b, torch.Tensor):
                    np.testing.assert_allclose(
                        a.numpy(), b.detach().numpy(), rtol=1e-7, atol=1e-9, err_msg=str(sample.desc)
                    )
            count += 1
    assert count or name == "TransformerEncoder"  # its samples are layers
