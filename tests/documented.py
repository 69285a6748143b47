"""What a docstring of a public name must have."""

import inspect
import re
from dataclasses import fields, is_dataclass

import coresift as cs
from coresift.types import CoverSelection, LearningSelection

SECTIONS = ("Args:", "Attributes:", "Returns:", "Yields:", "Raises:", "Examples:")
# `cs.models` imports torch, so the tests of models look at it.
LIGHT = [name for name in cs.__all__ if name != "models"]
NAMESPACES = [name for name in LIGHT if inspect.ismodule(getattr(cs, name))]


def public(spaces=NAMESPACES):
    """Return every function and class that users reach from `cs`, by the name they write."""
    found = {f"cs.{name}": getattr(cs, name) for name in LIGHT if name not in NAMESPACES}
    for space in spaces:
        module = getattr(cs, space)
        found |= {f"cs.{space}.{name}": getattr(module, name) for name in module.__all__}
    found |= {f"coresift.types.{thing.__name__}": thing for thing in (CoverSelection, LearningSelection)}
    classes = {name: thing for name, thing in found.items() if inspect.isclass(thing)}
    functions = {name: thing for name, thing in found.items() if inspect.isfunction(thing)}
    return classes | functions


def examples(names):
    """Return every docstring in which an example may stand, methods included."""
    found = {name: thing.__doc__ or "" for name, thing in names.items()}
    for name, thing in names.items():
        if inspect.isclass(thing):
            own = {key: part for key, part in vars(thing).items() if inspect.isfunction(part)}
            found |= {f"{name}.{key}": part.__doc__ or "" for key, part in own.items()}
    return found


def sections_of(text):
    """Return the sections of a docstring by title, the text before them under the empty one."""
    parts, title = {"": []}, ""
    for line in inspect.cleandoc(text).splitlines():
        if line in SECTIONS:
            title = line
        parts.setdefault(title, []).append(line)
    return {title: "\n".join(lines) for title, lines in parts.items()}


def parameters_of(thing):
    if inspect.isclass(thing):
        if is_dataclass(thing):
            return [field.name for field in fields(thing) if field.init and not field.name.startswith("_")]
        if thing.__init__ is object.__init__ or issubclass(thing, Exception) or getattr(thing, "_is_protocol", False):
            return []
        thing = thing.__init__
    names = [name for name in inspect.signature(thing).parameters if name != "self"]
    return [name for name in names if name not in ("args", "kwargs")]


def faults(thing):
    """Yield what is missing in a docstring."""
    inherited = [base for base in thing.__mro__[1:] if base.__doc__] if inspect.isclass(thing) else []
    parts = sections_of(thing.__doc__ or "")
    told = parts.get("Args:", "") + parts.get("Attributes:", "")
    needed = parameters_of(thing)
    told += "".join(sections_of(base.__doc__).get("Attributes:", "") for base in inherited)
    if needed and not told:
        yield "no Args or Attributes"
    for parameter in needed if told else ():
        if not re.search(rf"^ {{4}}(\w+, )*\*{{0,2}}{parameter}(, \w+)*( \(.+\))?:", told, re.M):
            yield f"{parameter} is not described"
    if inspect.isfunction(thing):
        returned = inspect.signature(thing).return_annotation
        if returned not in (None, "None") and "Returns:" not in parts and "Yields:" not in parts:
            yield "no Returns"
        if re.match(r"Returns:\n    [A-Za-z][\w ,]*:\s", parts.get("Returns:", "")):
            yield "what comes before the colon in Returns looks like a type"


def examples_outside(names):
    """Return the names whose examples do not stand in their section."""
    outside = []
    for name, text in examples(names).items():
        parts = sections_of(text)
        if any(">>>" in part for title, part in parts.items() if title != "Examples:") or "Example:" in text:
            outside.append(name)
    return outside
