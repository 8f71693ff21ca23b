"""Samplers and random_split: what they give, in which shares, and what they refuse; lengths as PyTorch's."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError
from prototorch.utils import data

torch_data = pytest.importorskip("torch.utils.data")


def seeded(seed=0):
    return pt.Generator().manual_seed(seed)


def test_random_orders_hold_each_index_once():
    sampler = data.RandomSampler(range(50), generator=seeded())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(data.RandomSampler(range(50), generator=seeded())) == first
    assert sorted(data.SubsetRandomSampler([4, 2, 9], seeded())) == [2, 4, 9]
    assert list(data.SequentialSampler(range(4))) == [0, 1, 2, 3]


def test_more_samples_than_the_set_has():
    order = list(data.RandomSampler(range(4), num_samples=10, generator=seeded()))
    assert sorted(order[:4]) == sorted(order[4:8]) == [0, 1, 2, 3]
    assert len(order) == 10
    order = list(data.RandomSampler(range(4), replacement=True, num_samples=4000, generator=seeded()))
    assert np.all(np.abs(np.bincount(order, minlength=4) - 1000) < 150)


def test_weights_are_probabilities():
    order = list(data.WeightedRandomSampler([1, 0, 3], 8000, generator=seeded()))
    counts = np.bincount(order, minlength=3)
    assert counts[1] == 0
    assert abs(counts[2] - 6000) < 200
    assert sorted(data.WeightedRandomSampler([5, 1, 0.1, 0], 3, replacement=False, generator=seeded())) == [0, 1, 2]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("replicas", [1, 2, 3, 7])
def test_shares_of_processes_are_those_of_pytorch(replicas, drop_last):
    for rank in range(replicas):
        options = {"num_replicas": replicas, "rank": rank, "shuffle": False, "drop_last": drop_last}
        ours, theirs = (m.DistributedSampler(range(10), **options) for m in (data, torch_data))
        assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)


def test_shares_of_one_epoch_are_parts_of_one_order():
    samplers = [data.DistributedSampler(range(10), 2, rank) for rank in range(2)]
    first = [list(s) for s in samplers]
    assert sorted(first[0] + first[1]) == list(range(10))
    for sampler in samplers:
        sampler.set_epoch(1)
    assert [list(s) for s in samplers] != first


@pytest.mark.parametrize("make", [
    lambda: data.RandomSampler([]), lambda: data.RandomSampler(range(3), num_samples=0),
    lambda: data.RandomSampler(range(3), num_samples=1.5), lambda: data.WeightedRandomSampler([1.0], 0),
    lambda: data.WeightedRandomSampler([1.0, 2.0], 3, replacement=False), lambda: data.WeightedRandomSampler([-1.0], 1),
    lambda: data.WeightedRandomSampler([[1.0]], 1), lambda: data.WeightedRandomSampler([float("nan")], 1),
    lambda: data.BatchSampler(range(3), 0, False), lambda: data.BatchSampler(range(3), True, False),
    lambda: data.DistributedSampler(range(3)), lambda: data.DistributedSampler(range(3), 2, 2),
    lambda: data.RandomSampler(range(3), generator=np.random.default_rng()),
])  # fmt: skip
def test_wrong_arguments_are_refused(make):
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize("count", [10, 11, 17, 100])
@pytest.mark.parametrize("lengths", [[0.5, 0.5], [1 / 3] * 3, [0.7, 0.2, 0.1], [1.0], [3, 7]], ids=str)
def test_random_split_has_pytorchs_lengths_and_each_sample_once(count, lengths):
    if lengths == [3, 7] and count != 10:
        with pytest.raises(UsageError, match=f"sum {count}"):
            data.random_split(range(count), lengths)
        return
    parts = data.random_split(range(count), lengths, generator=seeded())
    assert [len(p) for p in parts] == [len(p) for p in torch_data.random_split(range(count), lengths)]
    assert sorted(i for part in parts for i in part) == list(range(count))
    assert [p.indices for p in data.random_split(range(count), lengths, seeded())] == [p.indices for p in parts]


def test_random_split_refuses_wrong_lengths_and_warns_of_an_empty_part():
    for lengths in ([0.5, 0.6], [-1, 11], [1.5, 8.5], [2.0, -1.0]):
        with pytest.raises(UsageError):
            data.random_split(range(10), lengths)
    with pytest.warns(UserWarning, match="part 1 has no samples"):
        data.random_split(range(3), [0.9, 0.1])


def test_a_generator_goes_on_from_its_state():
    generator = seeded(9)
    list(data.RandomSampler(range(5), generator=generator))
    state = generator.get_state()
    first = list(data.RandomSampler(range(50), generator=generator))
    generator.set_state(state)
    assert list(data.RandomSampler(range(50), generator=generator)) == first
    assert generator.initial_seed() == 9
    with pytest.raises(UsageError, match="16"):
        generator.set_state(pt.tensor([1.0]))
    for seed in ("a", 1.5, 2**64, -(2**63) - 1):
        with pytest.raises(UsageError, match="seed"):
            generator.manual_seed(seed)
    assert generator.seed() == generator.initial_seed()
