"""A recurrent net with a stopping rule: it thinks until it is sure (adaptive computation time; Graves, 2016).

The task: is the number of ones in a row of bits even? The net reads one bit a step, and may stop early on rows that end
in padding; the number of steps is decided by the data, one row at a time.
There is no version by hand: the trained net's answers are compared with the true ones.
"""

import random

import prototorch as torch
from prototorch import nn

END = 2


class StoppingNet(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.embed = nn.Embedding(3, 8)
        self.cell = nn.GRUCell(8, size)
        self.stop = nn.Linear(size, 1)
        self.classify = nn.Linear(size, 2)

    def forward(self, tokens):
        h = torch.zeros(1, self.cell.hidden_size)
        total, halted, steps = torch.zeros(1, 2), torch.zeros(1), 0
        for token in tokens:
            h = self.cell(self.embed(torch.tensor([token])), h)
            p = torch.sigmoid(self.stop(h)).squeeze(1)
            steps += 1
            if (halted + p).item() > 0.99 or steps == len(tokens):
                total = total + (1 - halted).unsqueeze(1) * self.classify(h)
                break
            total = total + p.unsqueeze(1) * self.classify(h)
            halted = halted + p
        return total, steps


def row(length):
    bits = [random.randint(0, 1) for _ in range(random.randint(1, length))]
    return [*bits, END, *[END] * 3], sum(bits) % 2


random.seed(1)
torch.manual_seed(1)
net = StoppingNet()
with torch.no_grad():
    net.stop.bias.fill_(-3)  # begin patient
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for t in range(500):
    losses = []
    for _ in range(4):
        tokens, parity = row(3)
        scores, steps = net(tokens)
        losses.append(nn.functional.cross_entropy(scores, torch.tensor([parity])) + 0.002 * steps)
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()

rows = [row(3) for _ in range(200)]
with torch.no_grad():
    results = [net(tokens) for tokens, _ in rows]
right = sum(int(scores.argmax(dim=1).item() == parity) for (scores, _), (_, parity) in zip(results, rows, strict=True))
print(f"accuracy {right / len(rows):.3f}, {sum(steps for _, steps in results) / len(rows):.2f} steps a row")
assert right > 180
