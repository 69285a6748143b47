"""Begin a job whose answers come later: from people, from files, or from another process days from now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coresift import diagnosis, multiround, regression, selection
from coresift.checks import named_options, refuse
from coresift.engine import Engine
from coresift.oracle.driving import Prepared
from coresift.oracle.run import Run
from coresift.progress import Progress, choose
from coresift.rows import RowsLike

# What can be started, and how it is prepared up to its first question.
STARTERS: dict[Callable[..., Any], Callable[..., Prepared[Any]]] = {
    selection.select: selection.begin,
    regression.select: regression.begin,
    diagnosis.diagnose: diagnosis.begin,
    multiround.rounds: multiround.begin,
}


@named_options
def start(
    function: Callable[..., Any],
    rows: RowsLike | None = None,
    budget: int | None = None,
    seed: int = 0,
    *,
    state: str | Path | None = None,
    engine: Engine | None = None,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Run[Any]:
    """Begin `select`, `rounds`, `diagnose` or `regression.select` without its answers, and return a run.

    Args:
        function: The function to begin, such as `cs.select`.
        rows: As in that function.
        budget: As in that function.
        seed: As in that function.
        state: A file that keeps every answer. With the same arguments, the same file continues the run, in this
            process or a later one.
        engine: As in that function.
        progress: As in that function.
        **options: The other options of that function, except the losses or labels.

    Returns:
        A run. `ask()` returns the rows to answer next, `tell(ids, answers)` takes answers, `result` is what the
        function would have returned.

    Examples:
        >>> import numpy as np, coresift as cs
        >>> rows = np.random.default_rng(0).normal(size=(1000, 4))
        >>> run = cs.start(cs.select, rows, budget=50)
        >>> ids = run.ask()
        >>> run.tell(ids, rows[ids, 0] ** 2)
        >>> run.result
        WeightedSelection(50 of 1000 rows, 10 losses asked, seed=0)
    """
    if function not in STARTERS:
        names = ", ".join(f"{known.__module__.rpartition('.')[2]}.{known.__name__}" for known in STARTERS)
        refuse("function", f"one of {names}", repr(function))
    shown = choose(progress)
    prepared = STARTERS[function](rows, budget, seed, engine=engine, progress=shown, **options)
    return prepared.run(state=state, progress=shown)
