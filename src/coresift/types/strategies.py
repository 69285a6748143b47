"""The interchangeable strategies. Everything that depends on a strategy is one of its methods or class attributes.

A strategy is a frozen dataclass that derives from `Pilot`, `Score` or `Design`; its fields are its options. Subclassing
registers it, so files, the command line and comparisons know it by its class name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from coresift.types.values import Bools, Floats, Ints, Singles, Value, digest

if TYPE_CHECKING:
    from coresift.types.flow import Clustering, Evidence, Frame, PilotPlan, Scores

# The estimators of Λ that a score can name.
ESTIMATES = ("estimate", "free", "robust")
# kind → name → class, for every strategy defined so far.
REGISTERED: dict[str, dict[str, type[Strategy]]] = {}


class Strategy(Value):
    """A frozen dataclass whose fields are its options.

    Two strategies are equal if they have the same record, so a strategy that was loaded from a file is equal to the one
    that was saved, even if the file has only the digest of an array.
    """

    kind: ClassVar[str] = ""
    __hash__ = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in vars(cls) and cls.kind and not cls.__name__.startswith("_"):
            REGISTERED.setdefault(cls.kind, {})[cls.__name__] = cls

    def record(self) -> dict[str, Any]:
        """Return the name and the options as JSON; an array becomes its shape and digest."""
        options = {f.name: recorded(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return {"name": type(self).__name__, "options": options}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strategy) or self.kind != other.kind:
            return NotImplemented
        return self.record() == other.record()

    def __repr__(self) -> str:
        return shown(self.record())


def recorded(value: Any) -> Any:
    """Return an option as JSON."""
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "digest": digest(value)}
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [recorded(item) for item in value]
    return {"repr": repr(value)}


def shown(record: dict[str, Any]) -> str:
    """Return a record in the form of a Python call.

    >>> shown({"name": "Proxy", "options": {"losses": {"shape": [9], "digest": "4f"}, "floor": 0.2}})
    "Proxy(losses=array(shape=(9,), digest='4f'), floor=0.2)"
    """
    options = ", ".join(f"{name}={_option(value)}" for name, value in record["options"].items())
    return f"{record['name']}({options})"


def _option(value: Any) -> str:
    if isinstance(value, dict) and "digest" in value:
        return f"array(shape={tuple(value['shape'])}, digest={value['digest']!r})"
    if isinstance(value, dict):
        return str(value.get("float", value.get("repr", value)))
    return repr(value)


@dataclass(frozen=True)
class Moments:
    """Estimated variance and third moment of a total, and the sum of squares of the variance's terms."""

    variance: float = 0.0
    third: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.variance + other.variance, self.third + other.third, self.squares + other.squares)

    @property
    def effective(self) -> float:
        """The number of equal terms whose sum would be as precise an estimate of the variance as this one."""
        return self.variance**2 / self.squares if self.squares > 0 else np.inf

    @classmethod
    def of(cls, parts: Floats, third: Floats) -> Moments:
        """Sum up the terms of each row or each draw."""
        return cls(float(parts.sum()), float(third.sum()), float((parts**2).sum()))


UNKNOWN = Moments(np.inf, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class PhaseSample:
    """What the variance of one phase depends on: the rows that it drew, in the order of the draw.

    `expanded` is a·y/π of each row: its value y times the phase's share a of the row's total, over its inclusion
    probability π. `carried` (a·y), `weights`, `clusters` and `distances` are of *all* selected rows, and `places` are
    the positions of the phase's rows among them: a pilot estimates the spread within its clusters from all selected
    rows.
    """

    expanded: Floats
    inclusion: Floats
    multiplicity: Ints
    places: Ints
    carried: Floats
    weights: Floats
    clusters: NDArray[np.int32]
    distances: Singles

    def chosen(self, member: Bools) -> PhaseSample:
        """Return the sample with only those of the phase's rows that are members."""
        return PhaseSample(
            self.expanded[member],
            self.inclusion[member],
            self.multiplicity[member],
            self.places[member],
            self.carried,
            self.weights,
            self.clusters,
            self.distances,
        )


class Uniforms(Protocol):
    """A source of uniform random numbers, such as numpy's Generator."""

    def random(self, size: int) -> Floats:
        """Return `size` numbers in [0, 1)."""
        ...


class Design(Strategy):
    """A way to draw rows with given sizes: inclusion probabilities, the draw, and the variance of its totals.

    A design uses its generator only through `random(count)`, so that tests can enumerate its outcomes.

    Attributes:
        distinct: Whether no row can be drawn twice.
        fixed_size: Whether exactly the requested number of rows is drawn.
        independent: Whether the draws are independent of each other, as the paper's theorem assumes.
        variance_note: A few words on how the variance is estimated.
    """

    kind: ClassVar[str] = "design"
    distinct: ClassVar[bool] = True
    fixed_size: ClassVar[bool] = True
    independent: ClassVar[bool] = False
    variance_note: ClassVar[str] = ""

    def inclusion(self, sizes: Floats, count: int) -> Floats:
        """Return each row's inclusion probability (the expected count if a row can be drawn twice)."""
        raise TypeError(f"{type(self).__name__} must define inclusion(sizes, count).")

    def draw(self, inclusion: Floats, uniforms: Uniforms) -> tuple[Ints, Ints]:
        """Return positions in the order of the draw, and how often each was drawn."""
        raise TypeError(f"{type(self).__name__} must define draw(inclusion, uniforms).")

    def moments(self, sample: PhaseSample) -> Moments | None:
        """Return the moments of Σ expanded·multiplicity, or None, which means totals without an interval."""
        return None

    def expected_terms(self, expanded: Floats, inclusion: Floats, left: Floats, strata: Ints) -> Floats:
        """Return one term per row; their sum is the expected variance, which `diagnose` uses.

        Args:
            expanded: Each row's value over its inclusion probability.
            inclusion: The inclusion probabilities.
            left: The probability that no earlier phase drew the row.
            strata: Rows with the same number are neighbors in the order of the draw.
        """
        # The variance of independent draws; designs that spread out their rows have less.
        terms: Floats = left * inclusion * np.maximum(1 - inclusion, 0.0) * expanded**2
        return terms


class Pilot(Strategy):
    """A way to choose the rows that are asked first.

    Attributes:
        keep: Whether the pilot's rows are part of the selection.
        asks_centers: Whether the pilot's rows are the centers, so that rounds can add to them.
        variance_note: A few words on how the variance is estimated.
    """

    kind: ClassVar[str] = "pilot"
    fixed_size: ClassVar[bool] = True
    independent: ClassVar[bool] = False
    keep: bool = True
    asks_centers: ClassVar[bool] = False
    variance_note: ClassVar[str] = ""

    def size(self, clusters: int, budget: int) -> int:
        """Return how many rows will be asked."""
        raise TypeError(f"{type(self).__name__} must define size(clusters, budget).")

    def plan(self, clustering: Clustering, frame: Frame, budget: int) -> PilotPlan:
        """Plan the first draw from the frame's open rows; both draws together will select `budget` rows."""
        raise TypeError(f"{type(self).__name__} must define plan(clustering, frame, budget).")

    def moments(self, sample: PhaseSample) -> Moments | None:
        """Return the moments of Σ expanded over the pilot, or None, which means totals without an interval."""
        return None


@dataclass(frozen=True)
class Needs:
    """What a score needs before it can score rows.

    Attributes:
        pilot: Whether a pilot is drawn and asked.
        answers: Whether the pilot's answers change the scores.
        probes: How to estimate Λ first ("free", "robust" or "estimate"); empty if it is not needed.
        leverage: The ridge of the leverage scores that it needs, or None.
        components: How many leading components of the rows it needs.
        signals: Whether signals change the scores, if there are any.
    """

    pilot: bool = True
    answers: bool = True
    probes: str = ""
    leverage: float | None = None
    components: int = 0
    signals: bool = False


class Score(Strategy):
    """A rule that says how much each row is worth drawing: a pure function of the evidence.

    Attributes:
        theorem: Whether the paper's theorem applies to independent draws by this score.
    """

    kind: ClassVar[str] = "score"
    theorem: ClassVar[bool] = False

    @property
    def needs(self) -> Needs:
        """What must be available before `scores` can be called."""
        return Needs()

    def scores(self, evidence: Evidence) -> Scores:
        """Return the sizes of all rows and the order of the draw."""
        raise TypeError(f"{type(self).__name__} must define scores(evidence).")

    def check_clusters(self, count: int) -> None:
        """Refuse options that do not fit this many clusters."""

    def for_centers(self, count: int) -> Score:
        """Return the score for the first `count` centers of several rounds."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Opaque(Strategy):
    """A strategy from a file that this process cannot restore: it has a record but cannot be run.

    Attributes:
        kind: "pilot", "score" or "design".
        name: The class name.
        options: The options, as JSON.
        theorem: Whether the class is known and the paper's theorem applies to it; only an option's array is missing.
    """

    kind: str = ""  # type: ignore[misc]
    name: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    theorem: bool = False
    variance_note: ClassVar[str] = ""
    # Nothing can be assumed about a strategy that cannot be run.
    independent: ClassVar[bool] = False
    fixed_size: ClassVar[bool] = False

    def record(self) -> dict[str, Any]:
        """Return the record from the file."""
        return {"name": self.name, "options": self.options}

    def moments(self, sample: PhaseSample) -> Moments | None:
        """Return None: the variance of its draws is unknown."""
        return None
