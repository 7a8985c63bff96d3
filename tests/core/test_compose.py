"""compose: the first listed middleware acts first on the way in, and last on the way out."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.service import Events, Middleware, Service, compose
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding

CALL: Call[Any, Any] = Call(ops.GET_TASK, hub.GetTaskRequest(id="t"), CallContext())
MESSAGES = [hub.StreamResponse(task=hub.Task(id=name)) for name in "ab"]


def marking(name: str, notes: list[str]) -> Middleware:
    class Marking:
        def __init__(self, service: Service) -> None:
            self._service = service

        async def unary(self, call: Call[Any, Any], /) -> Any:
            notes.append(f"{name} in")
            answer = await self._service.unary(call)
            notes.append(f"{name} out")
            return answer

        async def stream(self, call: Call[Any, Any], /) -> Events:
            notes.append(f"{name} in")
            async for event in self._service.stream(call):
                yield event
            notes.append(f"{name} out")

    return Marking


@pytest.mark.parametrize("streaming", [True, False])
async def test_the_first_listed_acts_first(streaming: bool) -> None:
    notes: list[str] = []
    probe = Probe()
    probe.on_unary = answering("answer")
    probe.on_stream = yielding(*MESSAGES)
    service = compose(probe, marking("one", notes), marking("two", notes))
    if streaming:
        assert [event.message async for event in service.stream(CALL)] == MESSAGES
    else:
        assert await service.unary(CALL) == "answer"
    assert notes == ["one in", "two in", "two out", "one out"]
    assert probe.calls == [CALL]


def test_nothing_composed_is_the_service_itself() -> None:
    probe = Probe()
    assert compose(probe) is probe
