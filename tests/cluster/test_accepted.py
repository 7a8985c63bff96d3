"""A forwarded message whose holder dies is executed once, whenever the holder's last commit comes."""

from collections.abc import Sequence
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import NotOwnerError, OwnerLostError
from a2a_bridge.core.service import no_events
from a2a_bridge.hosting.reading import TaskSnapshot
from a2a_bridge.hosting.replicas import ForwardingService
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope


class Scene:
    """A replica, the log of a task, and its holder, which dies while a message is forwarded to it.

    Implements Service (the engine here), Replica (the holder) and the readers of forwarding.
    """

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
