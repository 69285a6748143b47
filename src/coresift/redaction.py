"""Keep secrets inside the process: anything that looks like a key or a password is hidden in stored and shown text."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"

# Every pattern starts at few positions or has a length limit; otherwise a long text could take quadratic time.

_NAMES = r"(?:key|token|secret|password|passwd|pwd|credential|signature|authorization)s?"
_PLAIN = r"(?!\[hidden\]|bearer\b|basic\b|\d{1,6}\b)"  # max_tokens=100 is not a secret
_PATTERNS = (
    # A user and a password in a URL.
    (re.compile(r"(?<=://)[^\s/@]+(?=@)"), HIDDEN),
    (re.compile(r"(?<![\w/])[\w.+-]{1,100}:[^\s/@:]+(?=@[\w\[])"), HIDDEN),
    (re.compile(r"\b(bearer|basic)\s+[^\s\"',;]+", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # name=value, name: value, "name": "value"; also in the query of a URL.
    (re.compile(rf"({_NAMES}[\"']?\s*[=:]\s*[\"']?){_PLAIN}[^\s\"'&,;)}}\]]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # The key formats of well-known services.
    (re.compile(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{6,}"), HIDDEN),
    (re.compile(r"\b(?:ghp|gho|ghs|ghu|github_pat|glpat|hf|xox[abprs])[-_][A-Za-z0-9_-]{10,}"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b|\bAIza[A-Za-z0-9_-]{20,}"), HIDDEN),
    # JSON web tokens.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{1,2000}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), HIDDEN),
)


def redact(text: str) -> str:
    """Return a text without anything that looks like a key, a token or a password.

    Args:
        text: Any text that is about to be shown or written to a file.

    Returns:
        The same text with each secret replaced by `[hidden]`.

    Examples:
        >>> redact("401 for https://me:hunter2@api.example.com/v1?api_key=abc123&page=2")
        '401 for https://[hidden]@api.example.com/v1?api_key=[hidden]&page=2'
        >>> redact("Authorization: Bearer abc.def was refused")
        'Authorization: Bearer [hidden] was refused'
    """
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def holds_secret(error: BaseException | None) -> bool:
    """Return whether an exception, or one that led to it, has a secret in its text.

    Args:
        error: The exception; its causes and contexts are checked too.

    Returns:
        True if a traceback of it would show a secret.

    Examples:
        >>> holds_secret(ValueError("no such model")), holds_secret(ValueError("bad key sk-abcdefgh12345678"))
        (False, True)
    """
    seen: set[int] = set()
    pending = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        text = "\n".join([str(current), repr(current), *getattr(current, "__notes__", ())])
        if redact(text) != text:
            return True
        pending += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]
    return False
