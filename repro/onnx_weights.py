"""Read the weights of a quantized ONNX file as floats, by layer.

An ONNX file is a protocol-buffer message. This module reads only the fields that hold weights, so it needs no package:
a graph's nodes (operator, inputs, outputs) and its initializers (name, shape, type, numbers). Dynamic quantization
stores a weight as integers q with a scale s and a zero point z; the weight is s (q − z).
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
    """The operations of a model and its stored arrays."""

    nodes: list[Node]
    arrays: dict[str, NDArray[np.generic]]

    def floats(self) -> dict[str, Floats]:
        """Return every stored weight, dequantized, by its name without the suffix."""
        weights: dict[str, Floats] = {}
        for name, array in self.arrays.items():
            if name.endswith(QUANTIZED):
                base = name.removesuffix(QUANTIZED)
                scale, zero = self.arrays[f"{base}_scale"], self.arrays[f"{base}_zero_point"]
                weights[base] = dequantize(array, scale, zero)
            elif array.dtype == np.float32 and not name.endswith("_scale"):
                weights[name] = array.astype(np.float32)
        return weights

    def products(self) -> dict[str, str]:
        """Return the name of the stored array that each quantized product multiplies by."""
        return {
            node.outputs[0]: node.inputs[1].removesuffix(QUANTIZED)
            for node in self.nodes
            if node.operator == "MatMulInteger" and node.inputs[1] in self.arrays
        }


def dequantize(integers: NDArray[np.generic], scale: NDArray[np.generic], zero: NDArray[np.generic]) -> Floats:
    """Return s (q − z), with one scale and zero point for all columns, or one per column.

    Example:
        >>> integers, scale, zero = np.array([[0, 3]], np.uint8), np.array(0.5), np.array(1)
        >>> dequantize(integers, scale, zero)
        array([[-0.5,  1. ]], dtype=float32)
    """
    shifted = integers.astype(np.int32) - zero.astype(np.int32)
    return (shifted * scale.astype(np.float32)).astype(np.float32)


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
    """Return the name and numbers of an initializer, which are raw bytes or a packed list of floats or integers."""
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
        raise DataError(f"The type of the initializer {name} must be one of {sorted(TYPES)}; got {kind}.")
    return name, numbers.astype(TYPES[kind]).reshape(shape)


# ------------------------------------------------------------------ protocol buffers


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the number and value of every field of a message; a value is an integer, or bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire == 2:
            size, position = _varint(message, position)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise DataError(f"A protocol-buffer field must have the wire type 0, 1, 2 or 5; got {wire}.")
        yield number, message[position : position + size]
        position += size


def _messages(message: memoryview, field_number: int) -> Iterator[memoryview]:
    return (_chunk(value) for number, value in fields(message) if number == field_number)


def _chunk(value: Value) -> memoryview:
    if isinstance(value, int):
        raise DataError("A protocol-buffer field must hold bytes here; got an integer.")
    return value


def _varints(packed: memoryview) -> list[int]:
    values, position = [], 0
    while position < len(packed):
        value, position = _varint(packed, position)
        values.append(value - (1 << 64) if value >> 63 else value)  # negative numbers are in two's complement
    return values


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return an integer (seven bits per byte, the lowest first) and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position
