"""Report pages: a selection, a run or a comparison as one HTML page that works offline."""

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
from coresift.evaluation import Evaluation, EvaluationRun
from coresift.learning import LearningRun
from coresift.progress import Progress, choose
from coresift.regression import RegressionSelection
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
from coresift.rows.checking import as_selected
from coresift.rows.tables import ColumnChoice, rows_of_table
from coresift.tables.npy import map_npy
from coresift.tables.places import hide_secrets
from coresift.tables.writing import check_target, write_bytes
from coresift.types import Clustering, CoverSelection, Floats, Ints, Selection, WeightedSelection, check_labels

__all__ = ["Facts", "facts_of", "report"]

# The page shows this many characters of a text.
LONGEST = 300
# More images than this would not fit on a page.
MOST_IMAGES = 6_000
SUFFIXES = (".html", ".htm")


@named_options
def report(
    selection: Selection | RegressionSelection | LearningRun | EvaluationRun | Comparison,
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

    For a run of `active_learning`, the page shows the learning curve, a map by round and the class balance. For a run
    of `evaluate`, it shows width against answers, groups, models and stages. For a comparison, it shows error against
    budget and the differences. These take only `title`, and active learning also `engine` and `progress`.

    Parts of the page whose input is missing are left out, and the end of the page lists them.

    Args:
        selection: The selection, the run, or the result of `compare_methods`.
        path: The page to write, `.html`.
        rows: The rows that were selected from, for the map. Of a table, the columns that were used are read, and they
            are standardized if they were for the selection.
        clustering: The clusters, for exact sizes and centers; without it, sizes are estimated from the weights.
        losses: The losses of the selected rows or of all rows (an array, or a file with the columns row or id, and
            loss), for the total, the mean and Hölder ratios.
        table: A table with one line per row (anything that `open_rows` takes), by default that of `rows`. Its column
            `row` or `id` says which row a line is about. A table with neither must be in the order of the rows;
            another order is refused if the table has the columns that were used.
        text: The column of the table with a text to show beside each row.
        image: The column of encoded images, an array of pixels, or a `.npy` file.
        label: The column of classes.
        diagnosis: The result of `diagnose`, or a file that `coresift diagnose --json` wrote.
        title: The title of the page.
        facts: A `.json` file for everything that the page says.
        engine: Where the row blocks are processed: threads, or a Ray cluster.
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
    selection = selection.selection if isinstance(selection, RegressionSelection) else selection
    check_target(path, SUFFIXES, "a report")
    if facts is not None:
        check_target(Path(facts), (".json",), "a file of facts")
    if isinstance(selection, LearningRun | EvaluationRun | Comparison):
        if any(part is not None for part in (rows, clustering, losses, table, text, image, label, diagnosis, facts)):
            raise InputError("The report of a run takes only title, engine and progress: a run knows its rows already.")
        if isinstance(selection, Comparison):
            return report_comparison(selection, path, title=title)
        if isinstance(selection, EvaluationRun):
            return report_evaluation(selection, path, title=title)
        return report_learning(selection, path, title=title, engine=engine, progress=progress)
    contents = facts_of(
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
    write_bytes(as_page(contents, LIMIT).encode(), path)
    if facts is not None:
        text_of_facts = json.dumps(plain(contents), indent=1, ensure_ascii=False, allow_nan=False)
        write_bytes(text_of_facts.encode("utf-8", "replace") + b"\n", Path(facts))
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
        run = "; give the run that returned it: cs.report(run, path)" if isinstance(selection, Evaluation) else ""
        allowed = "a Selection, a run of active_learning or evaluate, or a Comparison"
        refuse("selection", allowed, f"{type(selection).__name__}{run}")
    source = _Source(selection, None if rows is None else as_selected(open_rows(rows), selection), table)
    _check(selection, clustering)
    shown, progress = choose_shown(selection, clustering), choose(progress)
    own, every = _losses(selection, losses)
    ids = np.concatenate([selection.ids[shown.places], shown.others])
    points = None
    if source.rows is not None and own is not None and every is None:
        points = source.view.take(selection.ids)
    inputs = ReportInputs(
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
        inputs,
        shown,
        title=title or f"{len(selection):,} of {selection.population:,} rows",
        picture=picture,
        texts={} if text is None else _texts(source.lines("text").cells(text, ids), ids),
        images=images,
        left_out=_left_out(selection, inputs, source, text=text, image=image, shown=shown),
        sources=(_quoted(rows, "rows"), _quoted(losses, "losses")),
        command_sources=(_said(rows, "ROWS"), _said(losses, "LOSSES"), "picked.parquet"),
        exclude_columns=_columns_to_exclude(selection, source.rows),
    )


@dataclass(frozen=True)
class _Source:
    """Where the rows and the table about them come from."""

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
        """Return the table for this argument, or refuse the argument if there is none."""
        if self.table is not None:
            return RowLines.open(self.table, self.selection, self._names)
        lines = None if self.rows is None else RowLines.of_rows(self.rows)
        return lines or refuse(argument, "given together with a table, or with rows that come from one", "neither")

    def _names(self, ids: Ints) -> Any:
        if self.rows is not None:
            return self.rows.names(ids)
        if self.selection.names is None:
            return None
        names = np.full(self.selection.n, None, object)
        names[self.selection.ids] = list(self.selection.names)
        return names[ids].tolist()


def _check(selection: Selection, clustering: Clustering | None) -> None:
    if clustering is None:
        return
    if not isinstance(clustering, Clustering):
        refuse("clustering", "a Clustering", type(clustering).__name__)
    same = clustering.n == selection.n and np.array_equal(clustering.labels[selection.ids], selection.clusters)
    if not same:
        raise InputError("clustering must be the one that the selection was made with; this is another one.")


def _columns_to_exclude(selection: Selection, rows: Rows | None) -> list[str] | None:
    """Return the columns of the rows' table that are used by default, but were not; None if that cannot be known."""
    used, table = selection.provenance.columns, None if rows is None else rows.table
    if used is None:
        return []
    if table is None:
        return None
    try:
        columns = rows_of_table(table, ColumnChoice()).columns or ()
    except InputError:
        return None
    return (
        [name for name in columns if name not in used]
        if [name for name in columns if name in used] == list(used)
        else None
    )


def _losses(selection: Selection, losses: Any) -> tuple[Floats | None, Floats | None]:
    """Return the losses of the selected rows and, if they are known, of all rows."""
    if losses is None:
        known = selection.losses
        return (known if len(selection) and np.isfinite(known).all() else None), None
    if isinstance(losses, str | os.PathLike):
        answers = AnswerFile(Path(losses), id_column=selection.provenance.id_column)
        answers.require("loss")
        # Many users have only the file of the pilot's answers. That is not an error, but not enough.
        if 0 < answers.known(selection.ids, selection.names).size < len(selection):
            return None, None
        values = answers.numbers("loss")(selection.ids, selection.names)
        return real_vector("losses", values, len(selection)), None
    check_labels("losses", losses, selection.ids, selection.names)
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
    """Return a part of a verdict, which must be a text that is not empty."""
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
    thumbnails = ((row, thumbnail(cell)) for row, cell in zip(ids.tolist(), cells, strict=True))
    return {row: address for row, address in thumbnails if address is not None}


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
    selection: Selection, inputs: ReportInputs, source: _Source, *, text: str | None, image: Any, shown: Shown
) -> list[tuple[str, str]]:
    clustered = bool(len(selection)) and bool(selection.clusters.min() >= 0)
    missing = []
    weighted = isinstance(selection, WeightedSelection)
    if source.rows is None:
        missing.append(("The map", "it needs the rows that were selected from (--rows, or rows=)."))
    if inputs.losses is None and weighted:
        known = int(np.isfinite(selection.losses).sum())
        partial = f"only the losses of {known:,} of {len(selection):,} selected rows are known; " if known else ""
        missing.append(
            ("The estimated loss, and losses against distances", f"{partial}give all of them (--losses, or losses=).")
        )
    elif not weighted:
        missing.append(("The estimated loss", "this method defines no weights."))
    if not clustered and not isinstance(selection, CoverSelection):
        missing.append(("Clusters", "the method of this selection does not use clusters."))
    elif clustered and inputs.clustering is None:
        missing.append(
            (
                "Exact clusters with their centers",
                "sizes are estimated; give the clustering (--clusters, or clustering=).",
            )
        )
    if inputs.verdict is None and weighted:
        missing.append(("The verdict of a diagnosis", "give the result of diagnose (--diagnosis, or diagnosis=)."))
    if text is None and image is None:
        missing.append(("Texts or images of the rows", "name a column of a table (--table, --text, --image)."))
    if inputs.classes is None:
        missing.append(("Classes", "name a column of a table (--label, or label=)."))
    if shown.places.size < len(selection):
        rest = len(selection) - shown.places.size
        missing.append((f"{rest:,} rows", f"the page lists the {shown.places.size:,} with the largest weights."))
    return missing


def _said(source: Any, otherwise: str) -> str:
    return hide_secrets(str(source)) if isinstance(source, str | os.PathLike) else otherwise


def _quoted(source: Any, otherwise: str) -> str:
    return repr(hide_secrets(str(source))) if isinstance(source, str | os.PathLike) else otherwise
