"""A modular net: the question chooses the modules that answer it (Andreas et al., 2016).

The data are rows of numbers; a question is a list of words such as ["absolute", "largest"], each word a module.
There is no version by hand: the answers of the trained net are compared with the true ones.
"""

import random

import prototorch as torch
from prototorch import nn

WORDS = {
    "negative": lambda x: -x,
    "absolute": lambda x: x.abs(),
    "halved": lambda x: x / 2,
}
LAST = {"largest": lambda x: x.max(dim=1)[0], "sum": lambda x: x.sum(dim=1)}


class ModularNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.steps = nn.ModuleDict(
            {word: nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1)) for word in WORDS}
        )
        self.last = nn.ModuleDict(
            {word: nn.Sequential(nn.Linear(4, 2 * width), nn.ReLU(), nn.Linear(2 * width, 1)) for word in LAST}
        )

    def forward(self, x, question):
        *words, last = question
        for word in words:
            x = self.steps[word](x.unsqueeze(2)).squeeze(2)
        return self.last[last](x).squeeze(1)


def answer(x, question):
    *words, last = question
    for word in words:
        x = WORDS[word](x)
    return LAST[last](x)


random.seed(0)
torch.manual_seed(0)
net = ModularNet()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
first = None
for t in range(900):
    question = [*random.choices(list(WORDS), k=random.randint(0, 2)), random.choice(list(LAST))]
    x = torch.rand(32, 4) * 2 - 1
    loss = (net(x, question) - answer(x, question)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    unused = [n for n, p in net.named_parameters() if p.grad is None and n.split(".")[1] in question]
    assert not unused  # exactly the modules that were chosen have gradients
    optimizer.step()
x = torch.rand(200, 4) * 2 - 1
question = ["absolute", "negative", "largest"]
error = (net(x, question) - answer(x, question)).abs().mean().item()
print(f"mean error of {' '.join(question)}: {error:.3f}")
assert error < 0.15
