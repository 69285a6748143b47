"""Rows whose words try everything that a page could stumble over."""

from __future__ import annotations

import numpy as np

NASTY = [
    "<script>window.broken = 1</script>",
    "</script><script>window.broken = 2</script>",
    "<img src=x onerror='window.broken = 3'>",
    '" onmouseover="window.broken = 4" x="',
    "' autofocus onfocus='window.broken = 5",
    "<!--<script>window.broken = 6",
    "]]><svg onload=window.broken=7>",
    "<style>body { display: none }</style><base href='https://example.invalid/'>",
    "<a href='javascript:window.broken=8'>click</a>",
    "\u202eright to left override\u202c and שלום עולם, مرحبا بالعالم",
    "👩‍👩‍👧‍👦 🏳️‍🌈 é ü 漢字 \U0001f600",
    "line\nbreaks\r\nand\ttabs\x00and\x07bells\u2028and\u2029separators",
    "x" * 100_000,
    "word " * 20_000,
    "\\u003cscript>window.broken = 9\\u003c/script>",
    "%s %d {0} ${window.broken = 10} `",
    "",
]


def data(n=2_000, d=8, seed=0):
    """Return embeddings, texts, ids, classes and losses for n rows, every row with nasty words."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, d))[rng.integers(12, size=n)] * 3 + rng.normal(size=(n, d))
    texts = [f"{NASTY[row % len(NASTY)]}" for row in range(n)]
    ids = [f"{row}{NASTY[row % 11]}" for row in range(n)]
    classes = [NASTY[row % 13][:60] for row in range(n)]
    return rows.astype(np.float32), texts, ids, classes, np.abs(rows[:, 0]) + rng.exponential(size=n)
