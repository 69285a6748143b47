"""The paper's two networks, trained as it trains them: 10 epochs, batches of 32, Adam with a rate of 0.001.

Where the paper is silent, we do as Keras, which it used: Glorot's uniform weights, biases of zero, Adam's ε of 1e-7,
and rectified linear units. Dense networks on training sets of the same size are trained together, with their weights in
one tensor; the result is the same as if each were trained alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy, max_pool2d, relu

Ints = NDArray[np.int64]

EPOCHS, BATCH, RATE, TINY = 10, 32, 1e-3, 1e-7
HIDDEN, CLASSES = 128, 10
AT_ONCE = 128


@dataclass(frozen=True)
class Shape:
    """The layers of the network for colored images: channels of the convolutions, widths of the dense layers."""

    channels: tuple[int, ...] = (16, 32, 64)
    widths: tuple[int, ...] = (128, 64)


@dataclass(frozen=True)
class Images:
    """Images of one data set as tensors: pixels between 0 and 1, a class each."""

    pixels: Any
    classes: Any

    @classmethod
    def of(cls, pixels: NDArray[np.uint8], classes: NDArray[Any]) -> Images:
        """Return gray images as rows of pixels, and colored ones channel by channel."""
        scaled = torch.from_numpy(pixels.astype(np.float32) / 255.0)
        # Color images keep their layout, with a pixel's channels next to each other: convolutions are twice as fast.
        scaled = scaled.reshape(len(pixels), -1) if pixels.ndim == 3 else scaled.permute(0, 3, 1, 2)
        return cls(scaled, torch.from_numpy(classes.astype(np.int64)))

    def __len__(self) -> int:
        return len(self.pixels)


def train(
    images: Images,
    sets: Sequence[Ints],
    seed: int,
    epochs: int = EPOCHS,
    *,
    shape: Shape | None = None,
    mirrored: bool = False,
) -> list[nn.Module]:
    """Return a network for each training set, all with the same initialization and the same order of batches.

    shape: the layers, for colored images.
    mirrored: whether colored images are mirrored at random.
    """
    if images.pixels.ndim == 2:
        return train_dense(images, sets, [seed] * len(sets), epochs)
    return [train_alone(conv_network(seed, shape), images, ids, seed, epochs, mirrored=mirrored) for ids in sets]


def train_dense(images: Images, sets: Sequence[Ints], seeds: Sequence[int], epochs: int = EPOCHS) -> list[nn.Module]:
    """Train one dense network per training set, all at once; the sets have the same size."""
    starts = [dense_network(images.pixels.shape[1], seed) for seed in seeds]
    weights = [torch.stack(same).detach() for same in zip(*(start.parameters() for start in starts), strict=True)]
    first, first_bias, last, last_bias = (weight.requires_grad_() for weight in weights)
    adam = torch.optim.Adam(weights, lr=RATE, eps=TINY, fused=True)
    rows = torch.from_numpy(np.stack(sets))
    for batches in zip(*(orders(rows.shape[1], seed, epochs) for seed in seeds), strict=True):
        ids = torch.gather(rows, 1, torch.from_numpy(np.stack(batches)))
        hidden = relu(torch.baddbmm(first_bias[:, None], images.pixels[ids], first.transpose(1, 2)))
        logits = torch.baddbmm(last_bias[:, None], hidden, last.transpose(1, 2))
        # Each network's loss is the mean of its own batch; their sum has the gradient of each in its own weights.
        loss = cross_entropy(logits.flatten(0, 1), images.classes[ids].flatten(), reduction="sum") / ids.shape[1]
        adam.zero_grad()
        loss.backward()
        adam.step()
    for place, start in enumerate(starts):
        with torch.no_grad():
            for parameter, weight in zip(start.parameters(), weights, strict=True):
                parameter.copy_(weight[place])
    return starts


def train_alone(
    network: nn.Module, images: Images, ids: Ints, seed: int, epochs: int = EPOCHS, *, mirrored: bool = False
) -> nn.Module:
    """Train one network of any kind."""
    adam = torch.optim.Adam(network.parameters(), lr=RATE, eps=TINY, fused=True)
    rows = torch.from_numpy(ids)
    coin = np.random.default_rng([seed, 4])
    for batch in orders(len(ids), seed, epochs):
        ids = rows[torch.from_numpy(batch)]
        pixels = images.pixels[ids]
        if mirrored:
            turned = torch.from_numpy(coin.random(len(batch)) < 0.5)[:, None, None, None]
            pixels = torch.where(turned, pixels.flip(3), pixels)
        adam.zero_grad()
        cross_entropy(network(pixels), images.classes[ids]).backward()
        adam.step()
    return network


def orders(count: int, seed: int, epochs: int) -> list[Ints]:
    """Return the positions of every batch, in a new random order each epoch."""
    rng = np.random.default_rng([seed, 2])
    mixed = [rng.permutation(count) for _ in range(epochs)]
    return [order[start : start + BATCH] for order in mixed for start in range(0, count, BATCH)]


def dense_network(inputs: int, seed: int) -> nn.Module:
    """Return a network with one hidden layer of 128."""
    return begin(nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)), seed)


class ConvNetwork(nn.Module):
    """Three convolutions, each followed by pooling, and three dense layers."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        sizes = (3, *shape.channels)
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(sizes))
        widths = (shape.channels[-1] * 4 * 4, *shape.widths, CLASSES)
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, images: Any) -> Any:
        """Return the logits."""
        values = images
        for layer in self.convolutions:
            values = relu(max_pool2d(layer(values), 2))  # the same as pooling after relu, on a quarter of the numbers
        values = values.flatten(1)
        for layer in self.dense[:-1]:
            values = relu(layer(values))
        return self.dense[-1](values)


def conv_network(seed: int, shape: Shape | None = None) -> nn.Module:
    """Return the network for colored images."""
    return begin(ConvNetwork(shape or Shape()), seed).to(memory_format=torch.channels_last)


def begin(network: nn.Module, seed: int) -> nn.Module:
    """Initialize a network like Keras: weights uniform within √(6/(inputs + outputs)), biases zero."""
    rng = np.random.default_rng([seed, 1])
    with torch.no_grad():
        for parameter in network.parameters():
            shape = tuple(parameter.shape)
            if len(shape) == 1:
                parameter.zero_()
                continue
            limit = np.sqrt(6 / ((shape[0] + shape[1]) * np.prod(shape[2:])))
            parameter.copy_(torch.from_numpy(rng.uniform(-limit, limit, shape).astype(np.float32)))
    return network


def probabilities(network: nn.Module, images: Images) -> NDArray[np.float64]:
    """Return the probability of each class for every image."""
    with torch.no_grad():
        batches = [network(pixels).softmax(1) for pixels in images.pixels.split(AT_ONCE)]
    probabilities: NDArray[np.float64] = torch.cat(batches).double().numpy()
    return probabilities


def accuracy(network: nn.Module, images: Images) -> float:
    """Return the share of images whose most likely class is the right one."""
    return float((probabilities(network, images).argmax(1) == images.classes.numpy()).mean())
