"""Convert a column's values to numbers, strings or ids, by the same rules for every Arrow type."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coresift.types import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

# Cells of a text file that mark a missing number.
NO_NUMBER = ("", "NA", "N/A", "#N/A", "null", "NULL", "None", "nan", "NaN")


def is_number(kind: pa.DataType | None) -> bool:
    """Return whether the values are numbers; booleans are not."""
    import pyarrow.types as kinds

    return kind is not None and bool(kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_decimal(kind))


def is_boolean(kind: pa.DataType) -> bool:
    """Return whether the values are booleans."""
    import pyarrow.types as kinds

    return bool(kinds.is_boolean(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether the values are strings."""
    import pyarrow.types as kinds

    kind = kind.value_type if kinds.is_dictionary(kind) else kind
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind)) or str(kind) == "string_view"


def is_time(kind: pa.DataType) -> bool:
    """Return whether the values are dates or times."""
    import pyarrow.types as kinds

    return bool(kinds.is_temporal(kind))


def type_name(kind: pa.DataType) -> str:
    """Return the type of a column in plain words.

    >>> import pyarrow as pa
    >>> type_name(pa.dictionary(pa.int8(), pa.large_string())), type_name(pa.timestamp("us")), type_name(pa.int8())
    ('category', 'date or time', 'int8')
    """
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return "category"
    if is_time(kind):
        return "date or time"
    if is_text(kind):
        return "string"
    items = item_type(kind)
    return str(kind) if items is None else f"list of {type_name(items)}"


def is_nested(kind: pa.DataType) -> bool:
    """Return whether the values are lists, structs, maps or unions."""
    import pyarrow.types as kinds

    return bool(kinds.is_nested(bare_type(kind)))


def bare_type(kind: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension type; any other type is returned unchanged."""
    while hasattr(kind, "storage_type"):
        kind = kind.storage_type
    return kind


def item_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the item type of a list type; None for other types."""
    import pyarrow.types as kinds

    kind = bare_type(kind)
    is_list = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    return kind.value_type if is_list else None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return an equivalent type that Arrow's functions support, for types that they do not (views, run-ends).

    >>> import pyarrow as pa
    >>> plain_type(pa.string_view()), plain_type(pa.int64())
    (DataType(large_string), DataType(int64))
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    name = str(kind)
    if "view" not in name and "run_end" not in name:
        return kind
    if name in ("string_view", "binary_view"):
        return pa.large_string() if name == "string_view" else pa.large_binary()
    if kinds.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if kinds.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    return _plain_parts(kind)


def _plain_parts(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type), kind.list_size)
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if kinds.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    return pa.large_list(plain_type(kind.value_type)) if hasattr(kind, "value_type") else kind


def plain(array: pa.Array) -> pa.Array:
    """Return an array cast to its plain type; an array that has a plain type is returned unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    kind = plain_type(array.type)
    if kind == array.type:
        return array
    if kinds.is_run_end_encoded(array.type):
        return plain(pc.run_end_decode(array))
    if kinds.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary), ordered=array.type.ordered)
    # Arrow's own cast of a list_view (26.0) ignores its offsets.
    if str(array.type).startswith(("list_view", "large_list_view")):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.cumsum([0, *lengths], dtype=np.int64))
        return pa.LargeListArray.from_arrays(offsets, plain(array.flatten()), mask=array.is_null()).cast(kind)
    return pa.array(array.to_pylist(), kind) if "list_view" in str(array.type) else array.cast(kind)


def text_of(array: pa.Array) -> pa.Array:
    """Return the values as strings, the form in which ids and labels are compared.

    Whole numbers are written without a decimal point whatever their type, bytes in base64, times in ISO 8601.

    >>> import pyarrow as pa
    >>> text_of(pa.array([7.0, None, 8.0])).to_pylist(), text_of(pa.array([b"ab"])).to_pylist()
    (['7', None, '8'], ['YWI='])
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([text_of(chunk) for chunk in array.chunks], pa.large_string())
    array = plain(array)
    kind = array.type
    if kinds.is_dictionary(kind):
        return text_of(array.dictionary).take(array.indices)
    if hasattr(kind, "storage_type"):
        return _map_to_text(array, str) if str(kind) == "extension<arrow.uuid>" else text_of(array.storage)
    if _is_binary(kind):
        return _map_to_text(array, base64_of)
    if kinds.is_nested(kind) or kinds.is_interval(kind):
        return _map_to_text(array, str)
    if kinds.is_floating(kind):
        with suppress(pa.ArrowInvalid):  # a column with fractions stays one of floats
            array = array.cast(pa.int64())
    texts = array.cast(pa.large_string())
    if kinds.is_time(kind) or kinds.is_timestamp(kind):
        # Trailing zeros of a second's fraction are removed, because a file may store the same time in another unit.
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]*?)0+($|[^0-9])", r"\1\2")
        texts = pc.replace_substring_regex(texts, r"\.($|[^0-9])", r"\1")
    return texts


def text_of_names(names: Sequence[Any]) -> pa.Array:
    """Return the user's ids, which may be integers, strings or both, as strings."""
    import pyarrow as pa

    return text_of(pa.array([str(name) if isinstance(name, int | np.integer) else name for name in names]))


def names_of(array: pa.Array) -> list[Any]:
    """Return the values of an id column: integers unchanged, everything else as strings.

    >>> import pyarrow as pa
    >>> names_of(pa.array([7, None])), names_of(pa.array([True])), names_of(pa.array(["7"]).dictionary_encode())
    ([7, None], ['true'], ['7'])
    """
    import pyarrow.types as kinds

    array = plain(array)
    kind = array.type.value_type if kinds.is_dictionary(array.type) else array.type
    names: list[Any] = (array if kinds.is_integer(kind) else text_of(array)).to_pylist()
    return names


def numbers_in(array: pa.Array) -> Floats:
    """Return the values as float64, with NaN for missing ones; strings are parsed."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if isinstance(array, pa.ChunkedArray):
        return np.concatenate([np.zeros(0), *(numbers_in(chunk) for chunk in array.chunks)])
    array = plain(array)
    if kinds.is_dictionary(array.type):
        array = array.dictionary.take(array.indices)
    if is_text(array.type):
        with suppress(pa.ArrowInvalid):  # most such columns hold only numbers, and this is the fast way
            plain_numbers: Floats = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
            return plain_numbers
        trimmed = pc.utf8_trim_whitespace(array)
        array = pc.if_else(pc.is_in(trimmed, value_set=pa.array(NO_NUMBER, trimmed.type)), None, trimmed)
    numbers: Floats = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def features_in(array: pa.Array) -> NDArray[Any]:
    """Return the values of a numeric column, in their own type if numpy has it."""
    import pyarrow.types as kinds

    return numbers_in(array) if kinds.is_decimal(array.type) else np.asarray(array.to_numpy(zero_copy_only=False))


def whole_numbers_in(array: pa.Array) -> Ints:
    """Return row numbers; a string may say 7 or 7.0. A null becomes −1, which no row has."""
    import pyarrow as pa

    array = plain(array)
    if is_text(array.type):
        with suppress(pa.ArrowInvalid):
            return whole_numbers_in(array.cast(pa.int64()))
        array = array.cast(pa.float64())
    numbers: Ints = array.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return numbers


def first_null(array: pa.Array) -> int:
    """Return the position of the first null; the length if there is none."""
    if array.null_count == 0:
        return len(array)
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def base64_of(content: bytes) -> str:
    """Return bytes as base64 text."""
    return base64.b64encode(content).decode()


def _is_binary(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind))


def _map_to_text(array: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else write(value) for value in array.to_pylist()], pa.large_string())
