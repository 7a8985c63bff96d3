"""What an object lacks of a protocol."""

from __future__ import annotations

from typing import Protocol

import pytest

from a2a_bridge.core.kinds import lacks, require


class Inner(Protocol):
    def ask(self) -> int: ...


class Outer(Protocol):
    durable: bool
    inner: Inner

    def get(self) -> int: ...

    async def put(self) -> None: ...


class Asks:
    def ask(self) -> int:
        return 1


class Whole(Outer):
    def __init__(self) -> None:
        self.durable = False
        self.inner = Asks()
        self.put = self.get  # type: ignore[assignment]  # an attribute of the object counts

    def get(self) -> int:
        return 1


def test_a_whole_object_is_accepted() -> None:
    require(Whole(), Outer)


def test_all_missing_members_are_named() -> None:
    class Bare:
        inner = object()

    with pytest.raises(TypeError, match=r"^Bare is no Outer: it lacks durable, inner\.ask, get, put$"):
        require(Bare(), Outer)


def test_a_method_of_the_protocol_itself_counts_as_missing() -> None:
    class Inherits(Outer):
        def get(self) -> int:
            return 1

    assert lacks(Inherits(), Outer, "put")
    assert not lacks(Inherits(), Outer, "get")
