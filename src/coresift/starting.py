"""Start a job whose answers come later: from people, from files, or from another process days from now."""

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

# The functions that can be started, and for each the function that prepares its job.
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
    """Start `select`, `rounds`, `diagnose` or `regression.select` without its answers, and return a run.

    Args:
        function: The function to start, such as `cs.select`.
        rows: As in that function.
        budget: As in that function.
        seed: As in that function.
        state: A file that stores every answer. To continue the run, in this process or a later one, use the same
            arguments and the same file.
        engine: As in that function.
        progress: As in that function.
        **options: The other options of that function, except the losses or labels.

    Returns:
        A run. `ask()` returns the rows to answer next, `tell(ids, answers)` passes in their answers, and `result` is
        what the function would have returned.

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
        names = ", ".join(f"{starter.__module__.rpartition('.')[2]}.{starter.__name__}" for starter in STARTERS)
        refuse("function", f"one of {names}", repr(function))
    chosen_progress = choose(progress)
    prepared = STARTERS[function](rows, budget, seed, engine=engine, progress=chosen_progress, **options)
    return prepared.run(state=state, progress=chosen_progress)
