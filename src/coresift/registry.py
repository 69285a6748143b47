"""Strategies by name: from text and JSON to objects. Nothing that a file names is ever run or imported."""

from __future__ import annotations

import ast
import difflib
from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from coresift.checks import InputError
from coresift.types import REGISTERED, Opaque, Strategy

# The entry points of other packages' strategies. They are imported when a user names a strategy, never for a file.
GROUP = "coresift.strategies"
# Coresift's own strategies register when their modules are imported, which may not have happened when a file is read.
OWN_MODULES = ("coresift.pilots", "coresift.scores", "coresift.designs")


def known(kind: str, *, installed: bool = True) -> dict[str, type[Strategy]]:
    """Return the strategies of a kind by name; `installed` adds those that other packages declare."""
    for module in OWN_MODULES:
        import_module(module)
    if installed:
        _import_declared()
    return dict(REGISTERED.get(kind, {}))


def parse(kind: str, text: str, *, argument: str) -> Any:
    """Return the strategy for a text such as "Sensitivity(holder=0.1)"; options must be literals, and no code is run.

    Args:
        kind: "pilot", "score" or "design".
        text: A class name, with or without options.
        argument: The name of the argument in error messages, such as "--score".
    """
    try:
        return from_node(kind, ast.parse(text.strip(), mode="eval").body, argument)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{argument} must be {_allowed(kind)}; got {text}.") from None


def from_node(kind: str, node: ast.expr, argument: str) -> Any:
    """Return the strategy for a parsed name or call."""
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(call.func, ast.Name) or call.args or not all(keyword.arg for keyword in call.keywords):
        raise ValueError
    cls = known(kind).get(call.func.id)
    if cls is None:
        raise InputError(f"{argument} must be {_allowed(kind)}; got {ast.unparse(node)}.{_nearest(kind, call.func.id)}")
    options = {str(keyword.arg): _literal(keyword.value) for keyword in call.keywords}
    try:
        return cls(**options)
    except InputError:
        raise
    except (TypeError, ValueError):
        takes = ", ".join(field.name for field in fields(cls)) or "no options"  # type: ignore[arg-type]
        raise InputError(f"{argument} {ast.unparse(node)} cannot be used; {cls.__name__} takes {takes}.") from None


def restore(kind: str, record: Any) -> Any:
    """Return the strategy of a file's record, or an opaque one; no other package is imported for it."""
    if record is None:
        return None
    name, options = str(record["name"]), dict(record["options"])
    cls = known(kind, installed=False).get(name)
    if cls is None:
        return Opaque(kind, name, options)
    try:
        strategy = cls(**{option: _plain(value) for option, value in options.items()})
    except (TypeError, ValueError):
        strategy = None
    if strategy is None or strategy.record() != {"name": name, "options": options}:
        # An option was an array, and the file has only its digest.
        return Opaque(kind, name, options, theorem=bool(getattr(cls, "theorem", False)))
    return strategy


def _plain(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) and "float" in value else value


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal; `inf` is allowed, because a score's Λ may be infinite."""
    return float("inf") if isinstance(node, ast.Name) and node.id == "inf" else ast.literal_eval(node)


def _allowed(kind: str) -> str:
    names = known(kind)
    return f"one of {', '.join(names)}, with or without options such as {_example(names)}"


def _example(names: dict[str, type[Strategy]]) -> str:
    for cls in names.values():
        try:
            return repr(cls())
        except TypeError:
            continue
    return "Name(option=1)"


def _nearest(kind: str, name: str) -> str:
    close = difflib.get_close_matches(name, known(kind), 1)
    return f" Did you mean {close[0]}?" if close else ""


def _import_declared() -> None:
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:  # importing another package can raise anything
            raise InputError(
                f"The strategies of {entry.name} ({entry.value}) cannot be imported: {type(error).__name__}: {error}."
            ) from error
