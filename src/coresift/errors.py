"""What coresift raises and warns of."""


class CoresiftError(Exception):
    """Anything that coresift itself reports to its user; the message is a full sentence.

    Examples:
        >>> import coresift as cs
        >>> try:
        ...     cs.load("missing.parquet")
        ... except cs.CoresiftError as error:
        ...     print(error)
        There is no file missing.parquet.
    """


class InputError(CoresiftError, ValueError):
    """An argument, file or row that cannot be used."""


class AnswerError(CoresiftError, RuntimeError):
    """The source of losses or labels failed, or answered with something that cannot be used."""


class CoresiftWarning(UserWarning):
    """The result is usable, with the stated reservation."""
