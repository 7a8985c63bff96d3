"""One test for many rows. A row costs a call and no test of its own, and the rows share the fixtures.

It takes the place of `pytest.mark.parametrize` where rows are many and need no fixtures for themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

#: a failed assertion, an error, and what `pytest.fail` and `pytest.raises` raise
_FAILURES = (Exception, pytest.fail.Exception)
#: longest text of a row in a failure
_LONGEST = 300


def each(names: str | Iterable[str], rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Calls a test with each row. Fails after the last one with all failures, each with its row as a note.

    names: of the parameters, or one text with commas between them. rows: values, tuples of values for
    several names, or objects of `pytest.param` with an id and without marks.
    """
    keys = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    alone = isinstance(names, str) and len(keys) == 1
    listed = [_row((row,) if alone and not hasattr(row, "marks") else row, keys) for row in rows]
    if not listed:
        raise ValueError(f"there are no rows of {names}")

    def decorate(test: Callable[..., Any]) -> Any:
        run = _waiting(test, listed) if inspect.iscoroutinefunction(test) else _direct(test, listed)
        signature = inspect.signature(test)
        kept = [one for one in signature.parameters.values() if one.name not in keys]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        for attribute in ("__doc__", "__module__", "__name__", "__qualname__"):
            setattr(run, attribute, getattr(test, attribute))
        # Marks of decorators below this one.
        run.pytestmark = list(getattr(test, "pytestmark", ()))  # type: ignore[attr-defined]
        return run

    return decorate


_Row = tuple[str, dict[str, Any]]


def _row(row: Any, keys: list[str]) -> _Row:
    """The text and the arguments of a row."""
    if hasattr(row, "marks"):
        if row.marks:
            raise ValueError("a row cannot have marks of its own")
        values, label = row.values, row.id
    else:
        values, label = row, None
    arguments = dict(zip(keys, values, strict=True))
    text = label or ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return text[:_LONGEST], arguments


def _direct(test: Callable[..., Any], listed: list[_Row]) -> Callable[..., Any]:
    def run(*args: Any, **fixtures: Any) -> None:
        failures: list[BaseException] = []
        for text, arguments in listed:
            try:
                test(*args, **fixtures, **arguments)
            except _FAILURES as error:
                failures.append(_noted(error, text))
        _judge(failures, len(listed))

    return run


def _waiting(test: Callable[..., Any], listed: list[_Row]) -> Callable[..., Any]:
    async def run(*args: Any, **fixtures: Any) -> None:
        failures: list[BaseException] = []
        for text, arguments in listed:
            try:
                await test(*args, **fixtures, **arguments)
            except _FAILURES as error:
                failures.append(_noted(error, text))
        _judge(failures, len(listed))

    return run


def _noted(error: BaseException, text: str) -> BaseException:
    error.add_note(f"row: {text}")
    return error


def _judge(failures: list[BaseException], rows: int) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {rows} rows failed", failures)
