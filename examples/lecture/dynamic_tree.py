"""A recursive net: the value of an arithmetic expression, computed along its tree (Socher et al., 2011).

Each node of a tree joins the vectors of its two branches; the shape of the computation is that of the datum.
There is no version by hand: the trained net's values are compared with the true ones.
"""

import random

import prototorch as torch
from prototorch import nn

OPERATORS = "+-"


def random_tree(depth):
    """A digit, or (operator, left, right)."""
    if depth == 0 or random.random() < 0.2:
        return random.randint(0, 9)
    return random.choice(OPERATORS), random_tree(depth - 1), random_tree(depth - 1)


def value_of(tree):
    if isinstance(tree, int):
        return tree
    operator, left, right = tree
    return value_of(left) + value_of(right) if operator == "+" else value_of(left) - value_of(right)


class TreeNet(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.digits = nn.Embedding(10, size)
        self.join = nn.ModuleDict({"plus": nn.Linear(2 * size, size), "minus": nn.Linear(2 * size, size)})
        self.read = nn.Linear(size, 1)

    def encode(self, tree):
        if isinstance(tree, int):
            return self.digits(torch.tensor(tree))
        operator, left, right = tree
        both = torch.cat([self.encode(left), self.encode(right)])
        return self.join["plus" if operator == "+" else "minus"](both)

    def forward(self, tree):
        return self.read(self.encode(tree))


random.seed(0)
torch.manual_seed(0)
net = TreeNet()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
trees = [random_tree(3) for _ in range(200)]


def mean_error(some):
    with torch.no_grad():
        return sum(abs(net(tree).item() - value_of(tree)) for tree in some) / len(some)


before = mean_error(trees[:50])
for epoch in range(8):
    for start in range(0, len(trees), 10):
        batch = trees[start : start + 10]
        loss = sum((net(tree) - value_of(tree)).pow(2).sum() for tree in batch) / len(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
new = mean_error([random_tree(3) for _ in range(100)])
print(f"mean error of the value: {before:.2f} -> {mean_error(trees[:50]):.2f}, of new trees {new:.2f}")
assert new < 0.5 * before
