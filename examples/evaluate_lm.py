"""Measure a language model on ARC from its answers to a few hundred questions, chosen with the help of a smaller model.

    python examples/evaluate_lm.py                          stored answers, seconds
    python examples/evaluate_lm.py --live --budget 60       the larger model answers now, a minute

SmolLM2-135M has answered all questions, which is cheap. Which of them must Gemma 3 270M answer so that we know its
accuracy on all of them? The stored answers are log-likelihoods of the choices, without texts
(`benchmarks/results/evaluation/answers-arc.npz`). They cover all questions, so the truth is printed, too. With
`--live`, the larger model runs, but only on the questions that are asked; that needs the packages that
`benchmarks/language_models.py` names.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import coresift as cs

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "benchmarks" / "results" / "evaluation" / "answers-arc.npz"
SMALL, LARGE = "smollm2-135m", "gemma3-270m"


def probabilities_of(scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the probability of each choice from log-likelihoods per character; a question may have fewer choices."""
    per_character = np.where(lengths > 0, scores / np.maximum(lengths, 1), -np.inf)
    odds = np.exp(10 * (per_character - per_character.max(axis=1, keepdims=True)))
    return odds / odds.sum(axis=1, keepdims=True)


def signals_of(probabilities: np.ndarray, gold: np.ndarray) -> dict[str, np.ndarray]:
    """Return the signals of the smaller model: was it right, how likely is the right choice, how sure was it?"""
    return {
        "right": probabilities.argmax(axis=1) == gold,
        "target_probability": probabilities[np.arange(gold.size), gold],
        **cs.signals.from_probabilities(probabilities),
    }


class LiveAnswers:
    """The larger model, run when it is asked."""

    def __init__(self, numbers: np.ndarray) -> None:
        sys.path.insert(0, str(ROOT))
        from benchmarks.language_models import Scorer, read_items  # noqa: PLC0415

        items = read_items("arc")
        self.items, self.scorer = [items[number] for number in numbers], Scorer(LARGE)

    def __call__(self, ids: np.ndarray) -> list[bool]:
        """Return whether the model is right on each question: the right choice is the likeliest one per character."""
        return [self._is_right(self.items[row]) for row in ids]

    def _is_right(self, item) -> bool:
        scores = self.scorer.log_likelihoods(item.prompt, item.choices)
        return bool(np.argmax(np.divide(scores, [len(choice) for choice in item.choices])) == item.gold)


def main() -> None:
    """Evaluate, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=300, help="how many questions the larger model answers")
    parser.add_argument("--live", action="store_true", help="run the larger model instead of reading its answers")
    options = parser.parse_args()
    with np.load(STORED, allow_pickle=False) as file:
        both = np.isfinite(file[SMALL][:, 0]) & np.isfinite(file[LARGE][:, 0])
        scores = {name: file[name][both].astype(np.float64) for name in (SMALL, LARGE)}
        gold, lengths, numbers = file["gold"][both], file["lengths"][both], np.flatnonzero(both)
    signals = signals_of(probabilities_of(scores[SMALL], lengths), gold)
    right = probabilities_of(scores[LARGE], lengths).argmax(axis=1) == gold
    answers = LiveAnswers(numbers) if options.live else right

    informed = cs.evaluate(values=answers, signals=signals, budget=options.budget, metric="rate").complete()
    print(f"{LARGE} is right on {100 * informed.value:.1f} % of {gold.size:,} questions of ARC,")
    print(f"95 % interval {100 * informed.low:.1f} to {100 * informed.high:.1f}, from {informed.asked} answers.")
    print(f"They are worth {informed.effective_sample_size:.0f} random ones.")
    print(f"For half the width: about {informed.answers_for(informed.half_width / 2):,} answers.")
    if not options.live:
        plain = cs.evaluate(values=right, n=gold.size, budget=options.budget, metric="rate").complete()
        print(f"Without {SMALL} the interval is {100 * plain.low:.1f} to {100 * plain.high:.1f}.")
        print(f"The truth, from the answers to all questions: {100 * right.mean():.1f} %.")


if __name__ == "__main__":
    main()
