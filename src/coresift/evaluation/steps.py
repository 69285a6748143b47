"""Everything that an evaluation depends on, except the answers."""

from __future__ import annotations

from dataclasses import dataclass

from coresift.evaluation.course import Course, Steps
from coresift.evaluation.estimating import Setup
from coresift.evaluation.sequences import AnytimeCourse
from coresift.evaluation.stages import Wish

__all__ = ["Steps", "Task"]


@dataclass(frozen=True)
class Task:
    """What is evaluated, to which half-width or budget, and how rows are drawn."""

    setup: Setup
    wish: Wish
    seed: int
    anytime: bool = False

    def begin(self) -> Course:
        """Return an evaluation that has asked nothing yet."""
        return AnytimeCourse(self.setup, self.seed) if self.anytime else Course(self.setup, self.seed)
