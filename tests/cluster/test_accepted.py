"""A forwarded message whose holder dies is executed once, whenever the holder's last commit comes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from a2a_bridge.cluster import calls
from a2a_bridge.cluster.calls import (
    UNKNOWN,
    Frame,
    FrameKind,
    ReplicaServer,
    document,
    encode_context,
    form,
    undocument,
)
from a2a_bridge.cluster.tails import Committed
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import NotOwnerError, OwnerLostError
from a2a_bridge.core.service import no_events
from a2a_bridge.hosting.reading import TaskSnapshot
from a2a_bridge.hosting.replicas import ForwardingService
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope
from a2a_bridge.stores.records import Place, TaskChange, TaskRow
from a2a_bridge.stores.sql.rows import _commit
from tests.patience import PATIENCE


class Scene:
    """A replica, the log of a task, and its holder, which dies while a message is forwarded to it."""

    def __init__(self, accepted_by_the_dead: bool) -> None:
        self.task = hub.Task(id="t")
        self.late = accepted_by_the_dead
        self.taken_over = False
        self.done: list[str] = []

    async def unary(self, call: Call[Any, Any], /) -> Any:
        if not self.done:
            self.done.append("found another holder")
            before = hub.Task()
            before.CopyFrom(self.task)
            raise NotOwnerError("dead", before)
        self.done.append("executed")
        self.task.history.append(call.request.message)
        return hub.SendMessageResponse(task=self.task)

    def replica(self, _: str) -> Any:
        return Dead()

    async def recover(self, _: Scope, __: str) -> None:
        # The last moment at which a commit of the dead holder can succeed.
        if self.late:
            self.task.history.add(message_id="m")
        self.taken_over = True

    async def snapshot_of(self, _: Scope, __: str) -> TaskSnapshot:
        return TaskSnapshot(self.task, len(self.task.history))

    def begin(self, _: Scope, __: str, ___: int | None, /) -> Any:
        raise AssertionError

    async def outcome(self, _: Scope, snapshot: TaskSnapshot, /) -> TaskSnapshot:
        return snapshot

    def stream(self, _: Call[Any, Any], /) -> Any:
        return no_events()


class Dead:
    """Implements Replica."""

    async def unary(self, _: Call[Any, Any]) -> Any:
        raise OwnerLostError


@pytest.mark.parametrize(
    ("late", "done"), [(True, ["found another holder"]), (False, ["found another holder", "executed"])]
)
async def test_a_commit_of_a_holder_that_was_declared_dead_counts(late: bool, done: Sequence[str]) -> None:
    scene = Scene(late)
    service = ForwardingService(scene, scene.replica, scene, scene.recover)
    request = hub.SendMessageRequest(message=hub.Message(task_id="t", message_id="m", role=hub.ROLE_USER))
    answer = await service.unary(Call(ops.SEND_MESSAGE, request, CallContext()))
    assert [one.message_id for one in answer.task.history] == ["m"]
    assert scene.done == done
    assert scene.taken_over


# What a replica does late, after it was declared dead: others may have done the same meanwhile.


REQUEST = hub.CancelTaskRequest(id="t")


class Agent:
    """Implements Service: a call waits until `works` is set."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended: list[str] = []
        self.began = asyncio.Event()
        self.works = asyncio.Event()

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.begun += 1
        self.began.set()
        try:
            await self.works.wait()
        except asyncio.CancelledError:
            self.ended.append("canceled")
            raise
        self.ended.append(call.request.id)
        return hub.Task(id=call.request.id)

    async def stream(self, _: Call[Any, Any], /) -> AsyncIterator[Any]:
        raise AssertionError
        yield


class LateScene:
    def __init__(self) -> None:
        self.agent = Agent()
        self.me = "before"
        self.server = ReplicaServer(self.agent, lambda: self.me, lambda: 1000)

    async def response(self, call_id: bytes, *, holder: str | None) -> dict[str, Any]:
        """The head of the response to a call for a holder; None: the caller's version does not name it."""
        frame = await self.frame(call_id, holder=holder)
        assert frame.kind is FrameKind.DONE
        return undocument(frame.body)[0]

    async def frame(self, call_id: bytes, *, holder: str | None) -> Frame:
        row = form().row(ops.CANCEL_TASK)
        assert row is not None
        head: dict[str, Any] = {
            "operation": row.operation.name,
            "context": encode_context(CallContext(), None),
        }
        if holder is not None:
            head["holder"] = holder
        body = document(head, row.encode_request(REQUEST))
        async with asyncio.timeout(PATIENCE):
            return await self.server.answer(Frame(FrameKind.CALL, call_id, body=body))


async def test_a_call_for_the_earlier_name_is_not_executed() -> None:
    scene = LateScene()
    scene.me = "after"
    assert (await scene.response(b"c" * 16, holder="before"))["elsewhere"]
    assert not scene.agent.begun


async def test_a_call_for_the_present_name_is_executed() -> None:
    scene = LateScene()
    scene.agent.works.set()
    assert "elsewhere" not in await scene.response(b"c" * 16, holder="before")
    assert "elsewhere" not in await scene.response(b"d" * 16, holder=None)
    assert scene.agent.ended == ["t", "t"]


#: case → seconds that pass, bounds, and what a repeat of the first call gets
FORGETTING = {
    "at once": (0.0, {}, "its result"),
    "later": (31.0, {}, "nothing"),
    "after large results": (0.0, {"_KEPT_BYTES": 1}, "nothing"),
    "much later": (601.0, {}, "another execution"),
    "after many calls": (0.0, {"_KEPT_BYTES": 1, "_MOST": 2}, "another execution"),
}


@pytest.mark.parametrize("case", FORGETTING)
async def test_results_are_kept_for_a_while_and_ids_for_longer(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, bounds, found = FORGETTING[case]
    for name, bound in bounds.items():
        monkeypatch.setattr(calls, name, bound)
    scene = LateScene()
    scene.agent.works.set()
    await scene.response(b"a" * 16, holder=None)
    await scene.response(b"b" * 16, holder=None)
    loop = asyncio.get_running_loop()
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + seconds)
    await scene.response(b"c" * 16, holder=None)
    again = await scene.frame(b"a" * 16, holder=None)
    executed = scene.agent.begun - 3
    assert (again.kind, executed) == {
        "its result": (FrameKind.DONE, 0),
        "nothing": (UNKNOWN.kind, 0),
        "another execution": (FrameKind.DONE, 1),
    }[found]


async def test_a_call_that_has_begun_ends_with_the_name() -> None:
    scene = LateScene()
    response = asyncio.ensure_future(scene.response(b"c" * 16, holder="before"))
    async with asyncio.timeout(PATIENCE):
        await scene.agent.began.wait()
    scene.me = "after"
    scene.server.on_rename()
    assert (await response)["elsewhere"]
    assert scene.agent.ended == ["canceled"]
    # Its caller repeats it.
    assert (await scene.response(b"c" * 16, holder="before"))["elsewhere"]
    assert scene.agent.begun == 1


def test_the_events_of_a_change_that_was_not_stored_are_sent_to_nobody() -> None:
    scope, place = Scope("", ""), Place("c", hub.TASK_STATE_COMPLETED, 0)
    row = TaskRow(scope, "t", place, 4, 7, 5, "", None, None)
    change = TaskChange(row, (), place, (b"6", b"7"))
    assert _commit(change) == Committed("t", 4, 6, (b"6", b"7"), True, True)
    assert _commit(change, lost=True) == Committed("t", 4, 8, (), False, True)
