"""The data of a report's script as JSON: rows, map, clusters, classes, and as many texts and images as fit."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from coresift.reporting.facts import Facts, Row, plain
from coresift.reporting.markup import NOTHING
from coresift.reporting.sections import HEAVIEST
from coresift.types import ORIGINS


def data_of(facts: Facts) -> dict[str, Any]:
    """Return the data of the script; columns of numbers are packed as bytes, to save space."""
    listed = facts.listed
    data: dict[str, Any] = {
        "n": facts.rows,
        "weighted": facts.weights is not None or any(row.represents is not None for row in listed),
        "rows": {
            "row": _packed([row.row for row in listed], "<f8"),
            "cluster": _packed([-1 if row.cluster is None else row.cluster for row in listed], "<i4"),
            "weight": _packed([_stands_for(row) for row in listed], "<f4"),
            "distance": _packed([row.distance for row in listed], "<f4"),
            "loss": _packed([np.nan if row.loss is None else row.loss for row in listed], "<f4"),
            "origin": _packed([ORIGINS.index(row.origin) for row in listed], "<u1"),
        },
        "origins": list(ORIGINS),
        "losses": any(row.loss is not None for row in listed),
    }
    if any(row.name is not None for row in listed):
        data["names"] = [None if row.name is None else NOTHING.sub("\ufffd", row.name[:200]) for row in listed]
    if facts.map is not None:
        data["map"] = _map_data(facts.map)
    if facts.clusters is not None:
        data["clusters"] = _cluster_data(facts)
    if facts.coverage is not None:
        coverage = facts.coverage
        data["classes"] = {
            "name": [NOTHING.sub("\ufffd", name[:200]) for name in coverage.names],
            "rows": coverage.rows,
            "selected": coverage.selected,
            "uniform": [_short(value) for value in coverage.by_uniform],
        }
        if coverage.estimated is not None:
            data["classes"]["estimated"] = [_short(value) for value in coverage.estimated]
    return data


def _stands_for(row: Row) -> float:
    if row.weight is not None:
        return row.weight
    return 1.0 if row.represents is None else float(row.represents)


def _map_data(picture: dict[str, Any]) -> dict[str, Any]:
    height, width = picture["shades"].shape
    places = {name: _packed(np.round(65_535 * picture[name]), "<u2") for name in ("x", "y", "other_x", "other_y")}
    other = _packed(picture["other_rows"], "<f8")
    return {
        "width": width,
        "height": height,
        "shades": _packed(picture["shades"].ravel(), "<u1"),
        "other": other,
        **places,
    }


def _cluster_data(facts: Facts) -> dict[str, Any]:
    clusters = facts.clusters
    assert clusters is not None
    columns: dict[str, Any] = {
        name: [_short(value) for value in getattr(clusters, name)] for name in ("size", "cost", "share")
    }
    columns |= {
        "number": clusters.number,
        "selected": clusters.selected,
        "exact": clusters.exact,
        "cover": clusters.cover,
    }
    columns |= {"representative": clusters.representative, "examples": clusters.examples}
    for name in ("loss", "total"):
        values = getattr(clusters, name)
        if values is not None:
            columns[name] = [_short(value) for value in values]
    return columns


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _packed(values: Any, kind: str) -> str:
    with np.errstate(over="ignore"):  # what exceeds a float32 is off the map anyway
        return base64.b64encode(np.asarray(values, kind).tobytes()).decode()


def fitting_words(facts: Facts, room: int) -> tuple[dict[str, str], dict[str, str], bool]:
    """Return the texts and images that fit, by row number, with the largest weights and the centers first."""
    listed = [row.row for row in facts.listed]
    centers = list(facts.clusters.representative) if facts.clusters else []
    order = dict.fromkeys([*listed[:HEAVIEST], *_interleaved(listed[HEAVIEST:], centers)])
    order |= dict.fromkeys([*facts.texts, *facts.images])
    texts: dict[str, str] = {}
    images: dict[str, str] = {}
    for row in order:
        for source, taken in ((facts.texts, texts), (facts.images, images)):
            if row not in source:
                continue
            value = NOTHING.sub("\ufffd", source[row])
            room -= len(safe_json(value).encode()) + len(str(row)) + 4
            if room < 0:
                return texts, images, False
            taken[str(row)] = value
    return texts, images, True


def _interleaved(rows: Sequence[int], centers: Sequence[int]) -> list[int]:
    """Take four rows, then one center, so that an open cluster shows texts, too."""
    order: list[int] = []
    for turn in range(max(-(-len(rows) // 4), len(centers))):
        order += [*rows[4 * turn : 4 * turn + 4], *centers[turn : turn + 1]]
    return order


def safe_json(value: Any) -> str:
    """Return JSON that is safe inside a script element, whatever it contains."""
    encoded = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return encoded
