"""Something to look at: a selection as one HTML page that works offline."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coresift.answers import AnswerFile
from coresift.checks import InputError, named_options, real_vector, refuse
from coresift.comparison import Comparison
from coresift.diagnosis import Diagnosis
from coresift.engine import Engine
from coresift.evaluation import EvaluationRun
from coresift.learning import LearningRun
from coresift.progress import Progress, choose
from coresift.reporting.comparing import report_comparison
from coresift.reporting.evaluating import report_evaluation
from coresift.reporting.facts import Facts, plain
from coresift.reporting.gathering import ReportInputs, Shown, choose_shown, gather
from coresift.reporting.images import thumbnail
from coresift.reporting.learning import report_learning
from coresift.reporting.mapping import draw_map
from coresift.reporting.page import LIMIT, as_page
from coresift.reporting.reading import RowLines
from coresift.rows import Rows, RowsLike, open_rows
from coresift.rows.tables import as_selected
from coresift.tables.npy import map_npy
from coresift.tables.places import hide_secrets
from coresift.tables.writing import check_target, write_bytes
from coresift.types import Clustering, CoverSelection, Floats, Ints, Selection, WeightedSelection

__all__ = ["Facts", "facts_of", "report"]

# Of a text so many characters are shown.
LONGEST = 300
# More images than this would not fit on any page.
MOST_IMAGES = 6_000
SUFFIXES = (".html", ".htm")


@named_options
def report(
    selection: Selection | LearningRun | EvaluationRun | Comparison,
    path: str | os.PathLike[str],
    *,
    rows: RowsLike | None = None,
    clustering: Clustering | None = None,
    losses: Any = None,
    table: Any = None,
    text: str | None = None,
    image: Any = None,
    label: str | None = None,
    diagnosis: Diagnosis | str | os.PathLike[str] | None = None,
    title: str | None = None,
    facts: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Path:
    """Write one HTML page that shows a selection; it works offline and loads nothing.

    For a run of `active_learning` the page shows the learning curve, a map by round and the class balance; for a run
    of `evaluate` width against answers, groups, models and stages; for a comparison error against budget and the
    differences. These take `title` alone, and active learning `engine` and `progress` too.

    Each part of the page needs something to show; a part that has nothing is left out, and the page says so.

    Args:
        selection: The selection, the run, or what `compare_methods` returned.
        path: The page to write, `.html`.
        rows: The rows that were selected from, for the map; of a table, the columns that were used.
        clustering: The clusters, for exact sizes and for their centers; without it they are estimated from the weights.
        losses: Of the selected rows or of all rows (an array, or a file with row or id, and loss), for the total, the
            mean and Hölder ratios.
        table: A table with one line per row (anything that `open_rows` takes), by default that of `rows`. Its columns
            `row` or `id` say which row a line is about. A table with neither must be in the order of the rows; another
            order is refused if it has the columns that were used.
        text: The column of the table with a text to show next to each row.
        image: The column with encoded images; or an array of pixels, or a `.npy` file.
        label: The column with classes.
        diagnosis: What `diagnose` returned, or a file that `coresift diagnose --json` wrote.
        title: The title of the page.
        facts: A `.json` file to write as well, with everything that the page says.
        engine: What runs the row blocks: threads, or a Ray cluster.
        progress: Whether to show a progress bar.

    Returns:
        The path of the page.

    Examples:
        >>> import numpy as np, tempfile, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> picked = cs.select(rows, losses=np.abs(rows[:, 0]), budget=50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = cs.report(picked, folder + "/picked.html", rows=rows, losses=np.abs(rows[:, 0]))
        ...     page.stat().st_size < 2_000_000
        True
    """
    path = Path(path)
    check_target(path, SUFFIXES, "a report")
    if facts is not None:
        check_target(Path(facts), (".json",), "a file of facts")
    if isinstance(selection, LearningRun | EvaluationRun | Comparison):
        if any(part is not None for part in (rows, clustering, losses, table, text, image, label, diagnosis, facts)):
            raise InputError(
                "The report of a run takes a title, an engine and progress; the rest belongs to selections."
            )
        if isinstance(selection, Comparison):
            return report_comparison(selection, path, title=title)
        if isinstance(selection, EvaluationRun):
            return report_evaluation(selection, path, title=title)
        return report_learning(selection, path, title=title, engine=engine, progress=progress)
    found = facts_of(
        selection,
        rows=rows,
        clustering=clustering,
        losses=losses,
        table=table,
        text=text,
        image=image,
        label=label,
        diagnosis=diagnosis,
        title=title,
        engine=engine,
        progress=progress,
    )
    write_bytes(as_page(found, LIMIT).encode(), path)
    if facts is not None:
        content = json.dumps(plain(found), indent=1, ensure_ascii=False, allow_nan=False)
        write_bytes(content.encode("utf-8", "replace") + b"\n", Path(facts))
    return path


def facts_of(
    selection: Selection,
    *,
    rows: RowsLike | None = None,
    clustering: Clustering | None = None,
    losses: Any = None,
    table: Any = None,
    text: str | None = None,
    image: Any = None,
    label: str | None = None,
    diagnosis: Diagnosis | str | os.PathLike[str] | None = None,
    title: str | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
) -> Facts:
    """Read the inputs of a report, and return everything that the page will say."""
    if not isinstance(selection, Selection):
        refuse(
            "selection", "a Selection, a run of active_learning or evaluate, or a Comparison", type(selection).__name__
        )
    source = _Source(selection, None if rows is None else as_selected(open_rows(rows), selection.provenance), table)
    _check(selection, source.rows, clustering)
    shown, progress = choose_shown(selection, clustering), choose(progress)
    own, every = _losses(selection, losses)
    ids = np.concatenate([selection.ids[shown.places], shown.others])
    points = None
    if source.rows is not None and own is not None and every is None:
        points = source.view.take(selection.ids)
    given = ReportInputs(
        clustering=clustering,
        losses=own,
        every_loss=every,
        points=points,
        center_losses=None if every is None or clustering is None else every[clustering.centers],
        classes=None if label is None else (label, *source.lines("label").classes(label)),
        verdict=_verdict(diagnosis),
    )
    picture = None if source.rows is None else draw_map(source.view, ids, engine, progress)
    images = {} if image is None else _images(source, image, ids[:MOST_IMAGES])
    return gather(
        selection,
        given,
        shown,
        title=title or f"{len(selection):,} of {selection.population:,} rows",
        picture=picture,
        texts={} if text is None else _texts(source.lines("text").cells(text, ids), ids),
        images=images,
        left_out=_left_out(selection, given, source, text=text, image=image, shown=shown),
        sources=(_quoted(rows, "rows"), _quoted(losses, "losses")),
        command_sources=(_said(rows, "ROWS"), _said(losses, "LOSSES"), "picked.parquet"),
    )


@dataclass(frozen=True)
class _Source:
    """Where the rows, and texts about them, come from."""

    selection: Selection
    rows: Rows | None
    table: Any

    @property
    def view(self) -> Rows:
        """The rows as they were clustered."""
        assert self.rows is not None
        return (
            self.rows.normalized()
            if self.selection.recipe is not None and self.selection.recipe.normalize
            else self.rows
        )

    def lines(self, argument: str) -> RowLines:
        """Return the table for this argument, or say that there is none."""
        if self.table is not None:
            return RowLines.open(self.table, self.selection, self._names)
        found = None if self.rows is None else RowLines.of_rows(self.rows)
        return found or refuse(argument, "given together with a table, or with rows that come from one", "neither")

    def _names(self, ids: Ints) -> Any:
        if self.rows is not None:
            return self.rows.names(ids)
        if self.selection.names is None:
            return None
        names = np.full(self.selection.n, None, object)
        names[self.selection.ids] = list(self.selection.names)
        return names[ids].tolist()


def _check(selection: Selection, rows: Rows | None, clustering: Clustering | None) -> None:
    if rows is not None and rows.n != selection.n:
        refuse("rows", f"the {selection.n} rows that were selected from", f"{rows.n} rows")
    content = selection.provenance.content
    if rows is not None and content is not None and rows.content(selection.ids) != content:
        refuse("rows", "the rows that were selected from, in their order", "other numbers in the selected rows")
    if clustering is None:
        return
    if not isinstance(clustering, Clustering):
        refuse("clustering", "a Clustering", type(clustering).__name__)
    same = clustering.n == selection.n and np.array_equal(clustering.labels[selection.ids], selection.clusters)
    if not same:
        raise InputError("clustering must be the one that the selection was made with; this is another.")


def _losses(selection: Selection, losses: Any) -> tuple[Floats | None, Floats | None]:
    """Return the losses of the selected rows and, where they are known, of all rows."""
    if losses is None:
        known = selection.losses
        return (known if len(selection) and np.isfinite(known).all() else None), None
    if isinstance(losses, str | os.PathLike):
        answers = AnswerFile(Path(losses), id_column=selection.provenance.id_column)
        answers.require("loss")
        # Many users have only the file with the pilot's answers: it is not a mistake, but not enough.
        if 0 < answers.known(selection.ids, selection.names).size < len(selection):
            return None, None
        found = answers.numbers("loss")(selection.ids, selection.names)
        return real_vector("losses", found, len(selection)), None
    values = np.asarray(losses)
    if values.shape == (selection.n,):
        every = real_vector("losses", values, selection.n)
        return every[selection.ids], every
    if values.shape != (len(selection),):
        allowed = f"one number for each of {len(selection)} selected or of all {selection.n} rows, or a file"
        refuse("losses", allowed, f"shape {values.shape}")
    return real_vector("losses", values, len(selection)), None


def _verdict(diagnosis: Any) -> tuple[str, str] | None:
    if diagnosis is None:
        return None
    if isinstance(diagnosis, Diagnosis):
        return _text(diagnosis.verdict), _text(diagnosis.reason)
    if not isinstance(diagnosis, str | os.PathLike):
        refuse("diagnosis", "a Diagnosis, or a file that diagnose --json wrote", type(diagnosis).__name__)
    if not Path(diagnosis).is_file():
        raise InputError(f"There is no file {diagnosis}.")
    try:
        content = json.loads(Path(diagnosis).read_bytes())
        return _text(content["verdict"]), _text(content["reason"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{diagnosis} must be a file that diagnose --json wrote; it has no verdict.") from error


def _text(part: Any) -> str:
    """Return a part of a verdict, which is a text that says something."""
    if not isinstance(part, str) or not part:
        refuse("diagnosis", "one with a verdict and a reason", repr(part))
    return part


def _texts(cells: list[Any], ids: Ints) -> dict[int, str]:
    return {row: _short(cell) for row, cell in zip(ids.tolist(), cells, strict=True) if cell is not None}


def _short(cell: Any) -> str:
    words = cell if isinstance(cell, str) else str(cell)
    return words if len(words) <= LONGEST else words[: LONGEST - 1].rstrip() + "…"


def _images(source: _Source, image: Any, ids: Ints) -> dict[int, str]:
    if isinstance(image, str) and not image.endswith(".npy"):
        cells: Any = source.lines("image").cells(image, ids)
    else:
        pixels = _pixels(image)
        if len(pixels) != source.selection.n:
            refuse("image", f"one picture for each of {source.selection.n} rows", f"{len(pixels)} of them")
        cells = (pixels[row] for row in ids.tolist())
    found = ((row, thumbnail(cell)) for row, cell in zip(ids.tolist(), cells, strict=True))
    return {row: address for row, address in found if address is not None}


def _pixels(image: Any) -> NDArray[Any]:
    if isinstance(image, str | os.PathLike):
        if not Path(image).is_file():
            raise InputError(f"There is no file {image}.")
        image = map_npy(Path(image))
    if not isinstance(image, np.ndarray) or image.ndim not in (3, 4):
        refuse(
            "image",
            "a column's name, or pixels of n pictures: an array or .npy file of 3 or 4 axes",
            type(image).__name__,
        )
    return image


def _left_out(
    selection: Selection, given: ReportInputs, source: _Source, *, text: str | None, image: Any, shown: Shown
) -> list[tuple[str, str]]:
    clustered = bool(len(selection)) and bool(selection.clusters.min() >= 0)
    found = []
    weighted = isinstance(selection, WeightedSelection)
    if source.rows is None:
        found.append(("The map", "it needs the rows that were selected from (--rows, or rows=)."))
    if given.losses is None and weighted:
        known = int(np.isfinite(selection.losses).sum())
        some = f"the losses of {known:,} of {len(selection):,} selected rows are known; " if known else ""
        found.append(
            ("The estimated loss, and losses against distances", f"{some}give all of them (--losses, or losses=).")
        )
    elif not weighted:
        found.append(("The estimated loss", "this method defines no weights."))
    if not clustered and not isinstance(selection, CoverSelection):
        found.append(("Clusters", "the method that made this selection has none."))
    elif clustered and given.clustering is None:
        found.append(
            (
                "Exact clusters with their centers",
                "sizes are estimated; give what cluster wrote (--clusters, or clustering=).",
            )
        )
    if given.verdict is None and weighted:
        found.append(("The verdict of a diagnosis", "give what diagnose found (--diagnosis, or diagnosis=)."))
    if text is None and image is None:
        found.append(("Texts or images of the rows", "name a column of a table (--table, --text, --image)."))
    if given.classes is None:
        found.append(("Classes", "name a column of a table (--label, or label=)."))
    if shown.places.size < len(selection):
        rest = len(selection) - shown.places.size
        found.append((f"{rest:,} rows", f"the page lists the {shown.places.size:,} with the largest weights."))
    return found


def _said(source: Any, otherwise: str) -> str:
    return hide_secrets(str(source)) if isinstance(source, str | os.PathLike) else otherwise


def _quoted(source: Any, otherwise: str) -> str:
    return repr(hide_secrets(str(source))) if isinstance(source, str | os.PathLike) else otherwise
