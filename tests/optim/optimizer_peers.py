"""An optimizer of ours and PyTorch's, on the same parameters and gradients."""

import numpy as np
import torch

import prototorch as pt

SHAPES = [(13, 5), (7,), (), (3, 4, 5), (1,)]


class Peers:
    """Two optimizers of one name. groups: for each group the settings of its own; the parameters are dealt out."""

    def __init__(self, name, groups, seed=0, dtype="float64", shapes=SHAPES, **settings):
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        arrays = [self.rng.normal(size=shape).astype(dtype) for shape in shapes]
        self.ours = [pt.tensor(a, requires_grad=True) for a in arrays]
        self.theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
        self.optimizer, self.peer = (
            getattr(module, name)(
                [{"params": params[i :: len(groups)], **group} for i, group in enumerate(groups)], **settings
            )
            for module, params in ((pt.optim, self.ours), (torch.optim, self.theirs))
        )

    def step(self, count=1, absent=()):
        """Steps with random gradients; the parameters with these numbers have none."""
        for _ in range(count):
            for i, (ours, theirs) in enumerate(zip(self.ours, self.theirs, strict=True)):
                gradient = self.rng.normal(size=ours.shape).astype(self.dtype)
                ours.grad = None if i in absent else pt.tensor(gradient)
                theirs.grad = None if i in absent else torch.tensor(gradient)
            self.optimizer.step()
            self.peer.step()

    def check(self, rtol=1e-10, atol=1e-12):
        """The parameters and states are equal."""
        for ours, theirs in zip(self.ours, self.theirs, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol, atol)
        check_states(self.optimizer.state_dict(), self.peer.state_dict(), rtol, atol)


def check_states(ours, theirs, rtol=1e-10, atol=1e-12):
    """Two state dicts are equal."""
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for number, state in theirs["state"].items():
        assert ours["state"][number].keys() == state.keys()
        for name, value in state.items():
            np.testing.assert_allclose(ours["state"][number][name].numpy(), value.numpy(), max(rtol, 1e-6), atol)


def as_torch(value):
    """A state dict with PyTorch's tensors."""
    if isinstance(value, pt.Tensor):
        return torch.from_numpy(np.array(value.numpy()))
    if isinstance(value, dict):
        return {key: as_torch(item) for key, item in value.items()}
    return [as_torch(item) for item in value] if isinstance(value, list) else value
