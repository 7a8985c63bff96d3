"""One test for many rows, in place of `pytest.mark.parametrize` where the rows share their fixtures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from reprlib import repr  # noqa: A004  short, and bounded in depth
from typing import Any

import pytest

#: a failed assertion, an error, and what `pytest.fail` and `pytest.raises` raise
_FAILURES = (Exception, pytest.fail.Exception)


def each(names: str | Iterable[str], rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Calls a test with each row. Fails after the last row with all failures, each with its row as a note.
    names: of the parameters, or one text with commas. rows: values, tuples of values for several names, or
    objects of `pytest.param` with an id and without marks.
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


@dataclass(frozen=True, slots=True)
class _Row:
    """label: the id of a `pytest.param`, else empty. arguments: by parameter."""

    label: str
    arguments: dict[str, Any]

    def note(self, error: BaseException) -> BaseException:
        """The failure of this row, which names it."""
        shown = self.label or ", ".join(f"{key}={repr(value)}" for key, value in self.arguments.items())
        error.add_note(f"row: {shown}")
        return error


def _row(row: Any, keys: list[str]) -> _Row:
    """The row of one element of `rows`."""
    if not hasattr(row, "marks"):
        return _Row("", dict(zip(keys, row, strict=True)))
    if row.marks:
        raise ValueError("a row cannot have marks of its own")
    return _Row(row.id or "", dict(zip(keys, row.values, strict=True)))


def _direct(test: Callable[..., Any], rows: list[_Row]) -> Callable[..., Any]:
    def run(*args: Any, **fixtures: Any) -> None:
        failures: list[BaseException] = []
        for row in rows:
            try:
                test(*args, **fixtures, **row.arguments)
            except _FAILURES as error:
                failures.append(row.note(error))
        _judge(failures, len(rows))

    return run


def _waiting(test: Callable[..., Any], rows: list[_Row]) -> Callable[..., Any]:
    async def run(*args: Any, **fixtures: Any) -> None:
        failures: list[BaseException] = []
        for row in rows:
            try:
                await test(*args, **fixtures, **row.arguments)
            except _FAILURES as error:
                failures.append(row.note(error))
        _judge(failures, len(rows))

    return run


def _judge(failures: list[BaseException], rows: int) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {rows} rows failed", failures)
