"""Losses, gradient norms and errors of image classifiers that saw a small part of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from benchmarks.problems.base import Arrays, Floats, Labels, Matrix, cross_entropy, data_folder, head

HEAD_ROWS, HEAD_SEEN, HEAD_COMPONENTS = 21_000, 1_000, 50


def squared_gradient_norms(model: MLPClassifier, pixels: Matrix, hidden: Floats, labels: Labels) -> Floats:
    """Each row's squared gradient norm, in all parameters of a network with one hidden ReLU layer."""
    output_error = model.predict_proba(pixels).astype(np.float64)
    output_error[np.arange(len(labels)), labels] -= 1.0
    hidden_error = (output_error @ model.coefs_[1].T) * (hidden > 0)
    output_part = (output_error**2).sum(1) * ((hidden**2).sum(1) + 1.0)
    hidden_part = (hidden_error**2).sum(1) * ((pixels.astype(np.float64) ** 2).sum(1) + 1.0)
    return np.asarray(output_part + hidden_part)


def image_arrays(pixels: Matrix, labels: Labels, seen: int, width: int, epochs: int) -> Arrays:
    """Hidden layer, losses, gradient norms and proxy losses of a network trained on `seen` random rows."""
    part = np.random.default_rng(11).permutation(len(pixels))[:seen]
    model = MLPClassifier((width,), batch_size=32, learning_rate_init=1e-3, random_state=11)
    for _ in range(epochs):
        model.partial_fit(pixels[part], labels[part], classes=np.unique(labels))
    hidden = np.maximum(pixels @ model.coefs_[0] + model.intercepts_[0], 0.0).astype(np.float64)
    return {
        "rows": hidden.astype(np.float32),
        "losses": cross_entropy(model.predict_proba(pixels), labels),
        "gradients": squared_gradient_norms(model, pixels, hidden, labels),
        "proxy": cheap_losses(pixels, labels, part),
    }


def cheap_losses(pixels: Matrix, labels: Labels, part: Labels) -> Floats:
    """Losses, on every row, of a logistic regression on twenty principal components of a small part."""
    components = PCA(20, random_state=11).fit(pixels[part])
    model = LogisticRegression(max_iter=500).fit(components.transform(pixels[part]), labels[part])
    return cross_entropy(model.predict_proba(components.transform(pixels)), labels)


def mnist_like(folder: str) -> Arrays:
    """The arrays of MNIST or Fashion-MNIST: 60,000 rows, a network that saw 2,000 of them."""
    with np.load(data_folder() / folder / f"{folder}.npz", allow_pickle=False) as file:
        pixels = file["X_train"]
    pixels = (pixels.reshape(len(pixels), -1) / 255.0).astype(np.float32)
    return image_arrays(pixels, mnist_like_classes(folder), seen=2_000, width=128, epochs=10)


def mnist_like_classes(folder: str) -> Labels:
    """The digit, or the kind of garment, of each row."""
    with np.load(data_folder() / folder / f"{folder}.npz", allow_pickle=False) as file:
        return np.asarray(file["y_train"], dtype=np.int64)


def digits() -> Arrays:
    """The arrays of the 1,797 digits that come with scikit-learn: a network that saw 300 of them."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16.0).astype(np.float32)
    return image_arrays(pixels, labels.astype(np.int64), seen=300, width=64, epochs=40)


def mnist() -> Arrays:
    """MNIST."""
    return mnist_like("mnist")


def fashion_mnist() -> Arrays:
    """Fashion-MNIST."""
    return mnist_like("fashion_mnist")


def mnist_classes() -> Labels:
    """MNIST's digits."""
    return mnist_like_classes("mnist")


def fashion_classes() -> Labels:
    """Fashion-MNIST's garments."""
    return mnist_like_classes("fashion_mnist")


def digits_classes() -> Labels:
    """The digits of scikit-learn's."""
    return np.asarray(load_digits(return_X_y=True)[1], dtype=np.int64)


def mnist_head() -> Arrays:
    """A linear classifier on MNIST's principal components."""
    with np.load(data_folder() / "mnist" / "mnist.npz", allow_pickle=False) as file:
        pixels, labels = file["X_train"][:HEAD_ROWS], file["y_train"][:HEAD_ROWS]
    return image_head(pixels, labels, seed=31)


def cifar_head() -> Arrays:
    """A linear classifier on the principal components of CIFAR-10; it is right on a third of the images."""
    labels = np.load(data_folder() / "cifar10" / "train_labels.npy")[:HEAD_ROWS]
    return image_head(cifar_images(HEAD_ROWS), labels, seed=32)


def image_head(pixels: NDArray[np.uint8], labels: NDArray[Any], seed: int) -> Arrays:
    """A linear classifier that saw 1,000 images by their principal components, which are the rows."""
    flat = (pixels.reshape(len(pixels), -1) / 255.0).astype(np.float32)
    rows = PCA(HEAD_COMPONENTS, random_state=seed).fit_transform(flat).astype(np.float32)
    return head(rows, labels.astype(np.int64), HEAD_SEEN, seed)


def cifar_images(count: int) -> NDArray[np.uint8]:
    """The first training images; a file is a sheet of 50 × 50 tiles in row order."""
    sheets = []
    for number in range(-(-count // 2_500)):
        with Image.open(data_folder() / "cifar10" / f"train_{number:02d}.webp") as image:
            tiles = np.asarray(image).reshape(50, 32, 50, 32, 3)
        sheets.append(tiles.transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3))
    return np.concatenate(sheets)[:count]
