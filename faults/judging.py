"""What an outcome must look like: a result, or one sentence."""

from __future__ import annotations

import re
import signal

from faults.processes import MEMORY, UNEXPECTED, Outcome

SENTENCE = re.compile(r"Error: [^\n]+[.?]\n")
WARNING = re.compile(r"(Warning: [^\n]+\n)*")
LONGEST = 6_000  # characters of a sentence
# What a terminal would obey; the command line escapes it.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def crashed(outcome: Outcome) -> str | None:
    """Return what is wrong with the way in which a child ended, whatever it was to do."""
    if outcome.late or outcome.status == -signal.SIGXCPU:
        return "hang"
    if outcome.status < 0:
        return f"death by {signal.Signals(-outcome.status).name}"
    if outcome.status == UNEXPECTED or "Traceback (most recent call last)" in outcome.err:
        return f"traceback: {last_line(outcome.err)}"
    return f"{outcome.peak / 2**30:.1f} GB of memory" if outcome.peak > MEMORY else None


def misbehaved(outcome: Outcome) -> str | None:
    """Return what is wrong with the outcome of a command: it must succeed, or refuse in one sentence."""
    if problem := crashed(outcome):
        return problem
    if found := CONTROL.search(outcome.out + outcome.err):
        return f"prints the control character {found[0]!r}"
    if outcome.status == 2:
        if outcome.out:
            return f"refuses, but prints {outcome.out[:100]!r}"
        if len(outcome.err) > LONGEST:
            return f"a sentence of {len(outcome.err):,} characters: {outcome.err[:100]!r}"
        warned = WARNING.match(outcome.err)
        rest = outcome.err[warned.end() if warned else 0 :]
        return None if SENTENCE.fullmatch(rest) else f"not one sentence: {outcome.err[:300]!r}"
    if outcome.status != 0:
        return f"exit {outcome.status}: {outcome.err[-300:]!r}"
    return None if WARNING.fullmatch(outcome.err) else f"succeeds, but says {outcome.err[:300]!r}"


def last_line(text: str) -> str:
    """Return the last line that is not empty."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")[:300]
