"""The CIFAR demo: a LeNet with SGD 0.001 and momentum 0.9, on images of CIFAR's size.

Adapted: the images are made here, [3, 32, 32] of ten classes of patterns, so that nothing is downloaded. There is no
version by hand: the losses of 50 steps and what they change are compared with the same net as a declared model, which
shares no code with autograd's tape.
"""

import numpy as np
from by_hand import ByHand, check

import prototorch as torch
import prototorch.nn as nn
import prototorch.nn.functional as F
from prototorch import optim
from prototorch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 16 * 5 * 5)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def make_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Stripes of a direction and a colour for each class, with noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    rows, columns = np.mgrid[0:32, 0:32] / 32
    angle = labels[:, None, None] * np.pi / 10
    waves = np.sin(25 * (rows * np.cos(angle) + columns * np.sin(angle)) + rng.uniform(0, 6, (count, 1, 1)))
    colour = 0.5 + 0.5 * np.cos(labels[:, None] + np.arange(3))
    images = waves[:, None] * colour[:, :, None, None] + 0.3 * rng.standard_normal((count, 3, 32, 32))
    return images.astype(np.float32), labels.astype(np.int64)


torch.manual_seed(0)
net = Net()
assert sum(p.numel() for p in net.parameters()) == 62_006
x, y = make_images(2000, seed=1)
loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=4)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.001, momentum=0.9)

layers = torch.layers  # the same net as a declared model, with the same weights
model = torch.Sequential([
    torch.Input((3, 32, 32)),
    layers.Conv2D(6, 5, activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(16, 5, activation="relu"), layers.MaxPooling2D(2),
    layers.Flatten(), layers.Dense(120, activation="relu"), layers.Dense(84, activation="relu"), layers.Dense(10),
])  # fmt: skip
for ours, (name, weight) in zip(model.get_weights(), net.named_parameters(), strict=True):
    value = weight.detach().numpy()
    model.weights[ours] = value.T if name.startswith("fc") and value.ndim == 2 else value
loss = torch.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(torch.optimizers.SGD(0.001, momentum=0.9), loss)
STEPS = 50
start = {name: np.array(value) for name, value in model.get_weights().items()}
expected = [model.train_on_batch(x[i : i + 4], y[i : i + 4])["loss"] for i in range(0, 4 * STEPS, 4)]

losses = []
for epoch in range(4):
    for inputs, labels in loader:
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == STEPS:  # added
            changed = [p.detach().numpy().copy() for p in net.parameters()]
    print(f"epoch {epoch + 1}: loss {np.mean(losses[-500:]):.3f}")
first = np.array(expected)
check(f"the losses of {STEPS} steps", losses[:STEPS], ByHand(first, first * (1 + 1e-6), True), "the declared model")
for value, (name, weight) in zip(changed, model.get_weights().items()):
    value = value.T if value.ndim == 2 else value
    change = np.array(weight, np.float64) - start[name]
    check(f"what they change in {name}", value - start[name], ByHand(change, change * (1 + 1e-4)), "the declared model")

test_x, test_y = make_images(500, seed=2)
with torch.no_grad():
    predicted = net(torch.from_numpy(test_x)).argmax(dim=1)
accuracy = (predicted == torch.from_numpy(test_y)).float().mean().item()
print(f"accuracy on 500 new images: {accuracy:.3f}")
assert accuracy > 0.8
