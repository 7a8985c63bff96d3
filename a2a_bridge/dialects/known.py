"""The versions known to this process: the built-in ones and those of entry points.

An entry point of group `a2a_bridge.dialects` names a `Dialect`. Entry points are loaded on the first read of
the versions and not at import, because a dialect of another distribution imports a2a_bridge itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from threading import RLock
from typing import overload

from a2a_bridge.dialects.detect import normalise
from a2a_bridge.dialects.dialect import Dialect

GROUP = "a2a_bridge.dialects"


class KnownDialects(Sequence[Dialect]):
    """All known versions: those of entry points first, then the built-in ones, newest first.

    The first read raises ValueError for an entry point that names no dialect, and for two dialects of one
    version.
    """

    def __init__(self, built_in: Sequence[Dialect]) -> None:
        self._built_in = tuple(built_in)
        self._all: tuple[Dialect, ...] | None = None
        self._loading = False
        self._lock = RLock()

    def _dialects(self) -> tuple[Dialect, ...]:
        if self._all is not None:
            return self._all
        with self._lock:
            # A module of an entry point may read the versions during its import: it gets the built-in ones.
            if self._all is None and not self._loading:
                self._loading = True
                try:
                    self._all = (*self._of_entry_points(), *self._built_in)
                finally:
                    self._loading = False
            return self._all or self._built_in

    def _of_entry_points(self) -> list[Dialect]:
        taken = {normalise(one.version): "a2a_bridge" for one in self._built_in}
        found = []
        for point in entry_points(group=GROUP):
            dialect = point.load()
            if not isinstance(dialect, Dialect) or normalise(dialect.version) is None:
                raise ValueError(
                    f"the entry point {point.value!r} of group {GROUP} names no Dialect with a version"
                )
            version = normalise(dialect.version)
            if version in taken:
                raise ValueError(
                    f"version {dialect.version} of the entry point {point.value!r} is defined by "
                    f"{taken[version]} too"
                )
            taken[version] = repr(point.value)
            found.append(dialect)
        return found

    @overload
    def __getitem__(self, index: int) -> Dialect: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Dialect]: ...

    def __getitem__(self, index: int | slice) -> Dialect | Sequence[Dialect]:
        return self._dialects()[index]

    def __iter__(self) -> Iterator[Dialect]:
        return iter(self._dialects())

    def __len__(self) -> int:
        return len(self._dialects())

    def __repr__(self) -> str:
        return repr(self._dialects())
