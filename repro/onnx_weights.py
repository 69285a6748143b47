"""The weights of a quantized ONNX file, as floats by the names of the layers that multiply by them.

A file of ONNX is a protocol-buffer message. Of its few hundred kinds of fields this reads the six that hold weights, so
that no package is needed for it: a graph's nodes (operator, inputs, outputs) and its initializers (name, shape, type,
numbers). Dynamic quantization keeps a weight as integers q with a scale s and a zero point z; the weight is s (q − z).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from repro.data import DataError

Floats = NDArray[np.float32]
Value = int | memoryview

GRAPH, NODE, INITIALIZER = 7, 1, 5  # fields of a model, and of its graph
TYPES: dict[int, str] = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8"}
QUANTIZED = "_quantized"


@dataclass
class Node:
    """One operation of a graph."""

    operator: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Graph:
    """The operations of a model and the arrays that are stored in it."""

    nodes: list[Node]
    arrays: dict[str, NDArray[np.generic]]

    def floats(self) -> dict[str, Floats]:
        """Return every stored array that is a weight, de-quantized, by its name without the suffix."""
        found: dict[str, Floats] = {}
        for name, array in self.arrays.items():
            if name.endswith(QUANTIZED):
                base = name.removesuffix(QUANTIZED)
                scale, zero = self.arrays[f"{base}_scale"], self.arrays[f"{base}_zero_point"]
                found[base] = dequantized(array, scale, zero)
            elif array.dtype == np.float32 and not name.endswith("_scale"):
                found[name] = array.astype(np.float32)
        return found

    def products(self) -> dict[str, str]:
        """Return the stored array that each quantized product multiplies by, by the name of the product."""
        return {
            node.outputs[0]: node.inputs[1].removesuffix(QUANTIZED)
            for node in self.nodes
            if node.operator == "MatMulInteger" and node.inputs[1] in self.arrays
        }


def dequantized(integers: NDArray[np.generic], scale: NDArray[np.generic], zero: NDArray[np.generic]) -> Floats:
    """Return s (q − z), with one scale and zero point for all, or one per column.

    Example:
        >>> integers, scale, zero = np.array([[0, 3]], np.uint8), np.array(0.5), np.array(1)
        >>> dequantized(integers, scale, zero)
        array([[-0.5,  1. ]], dtype=float32)
    """
    whole = integers.astype(np.int32) - zero.astype(np.int32)
    return (whole * scale.astype(np.float32)).astype(np.float32)


def read_graph(content: bytes) -> Graph:
    """Return the nodes and stored arrays of an ONNX file."""
    nodes, arrays = [], {}
    for graph in _messages(memoryview(content), GRAPH):
        nodes += [_node(message) for message in _messages(graph, NODE)]
        arrays |= dict(_array(message) for message in _messages(graph, INITIALIZER))
    if not arrays:
        raise DataError("An ONNX file must have a graph with initializers; this one has none.")
    return Graph(nodes, arrays)


def _node(message: memoryview) -> Node:
    node = Node()
    for number, value in fields(message):
        if number in (1, 2, 4):
            text = bytes(_chunk(value)).decode()
            if number == 4:
                node.operator = text
            else:
                (node.inputs if number == 1 else node.outputs).append(text)
    return node


def _array(message: memoryview) -> tuple[str, NDArray[np.generic]]:
    """Return the name and numbers of one initializer: raw bytes, or a packed list of floats or of whole numbers."""
    shape: list[int] = []
    name, kind, numbers = "", 0, np.empty(0)
    for number, value in fields(message):
        if number == 1:
            shape += [value] if isinstance(value, int) else _varints(value)
        elif number == 2:
            kind = value if isinstance(value, int) else 0
        elif number == 4:
            numbers = np.frombuffer(_chunk(value), "<f4")
        elif number == 5:
            numbers = np.array([value] if isinstance(value, int) else _varints(value))
        elif number == 8:
            name = bytes(_chunk(value)).decode()
        elif number == 9:
            numbers = np.frombuffer(_chunk(value), TYPES[kind])
    if kind not in TYPES:
        raise DataError(f"The initializer {name} must be of one of the types {sorted(TYPES)}; got {kind}.")
    return name, numbers.astype(TYPES[kind]).reshape(shape)


# ------------------------------------------------------------------ protocol buffers


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the number and value of every field of a message: a whole number, or the bytes of anything else."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if wire == 2:
            size, place = _varint(message, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise DataError(f"A protocol-buffer field must have the wire type 0, 1, 2 or 5; got {wire}.")
        yield number, message[place : place + size]
        place += size


def _messages(message: memoryview, wanted: int) -> Iterator[memoryview]:
    return (_chunk(value) for number, value in fields(message) if number == wanted)


def _chunk(value: Value) -> memoryview:
    if isinstance(value, int):
        raise DataError("A protocol-buffer field must hold bytes here; got a whole number.")
    return value


def _varints(packed: memoryview) -> list[int]:
    found, place = [], 0
    while place < len(packed):
        value, place = _varint(packed, place)
        found.append(value - (1 << 64) if value >> 63 else value)  # negative numbers are kept as two's complement
    return found


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return a whole number, seven bits per byte beginning with the least, and where the next field begins."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place
