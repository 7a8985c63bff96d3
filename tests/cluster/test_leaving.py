"""A call about a task of a replica that stops waits until that has left, and is not turned away."""

import asyncio
from typing import Any

import pytest

from a2a_bridge.cluster.cluster import BURY, Membership
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import NotOwnerError, OwnerLostError, Reason
from a2a_bridge.core.service import no_events
from a2a_bridge.hosting.replicas import ForwardingService
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.cluster.virtual_loop import VirtualLoop
from tests.cluster.world import Database
from tests.rejections import rejected

CANCEL: Call[Any, Any] = Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id="t"), CallContext())


class Scene:
    """A replica, and the holder of a task, which stops and holds the task for some seconds longer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0
        unused: Any = None
        leaving: Any = Leaving(self)
        self.forwarding = ForwardingService(self, lambda _: leaving, unused, unused)

    async def unary(self, _: Call[Any, Any], /) -> Any:
        if asyncio.get_running_loop().time() < self.seconds:
            raise NotOwnerError("leaving", hub.Task(id="t"))
        return hub.Task(id="t", status=hub.TaskStatus(state=hub.TASK_STATE_CANCELED))

    def stream(self, _: Call[Any, Any], /) -> Any:
        return no_events()


class Leaving:
    """Implements Replica."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def unary(self, _: Call[Any, Any]) -> Any:
        self._scene.asked += 1
        raise OwnerLostError


def _cancel(scene: Scene) -> hub.Task:
    loop = VirtualLoop()
    try:
        task: hub.Task = loop.run_until_complete(scene.forwarding.unary(CANCEL))
        return task
    finally:
        loop.close()


@pytest.mark.parametrize("seconds", [0.01, 1.0, 5.0])
def test_a_call_waits_until_a_stopping_replica_has_left(seconds: float) -> None:
    scene = Scene(seconds)
    assert _cancel(scene).status.state == hub.TASK_STATE_CANCELED
    assert scene.asked <= 20  # no busy waiting


def test_the_wait_has_an_end() -> None:
    scene = Scene(3600.0)
    with rejected(Reason.UNAVAILABLE) as caught:
        _cancel(scene)
    assert caught.value.retry_after


# Who is alive, as a replica tells its store, with a clock of the test.


LEASE = 4.0


class Late:
    """A session whose other replica sends its next heartbeat just before it would be declared dead."""

    def __init__(self) -> None:
        self.database = Database()
        self.database.replicas["other"] = 0
        self.buried = 0

    async def run(self, statement: Any, values: Any, _: float = 0, /) -> list[tuple[Any, ...]]:
        if statement is BURY:
            self.buried += 1
            self.database.replicas["other"] += 1
        return self.database.run(statement, values)

    async def close(self) -> None:
        pass


class Told:
    """What Membership calls of a Cluster."""

    def __init__(self) -> None:
        self.alive: list[frozenset[str]] = []
        self.orphans = 0

    def on_members(self, alive: frozenset[str], _: float, /) -> None:
        self.alive.append(alive)

    def on_orphans(self) -> None:
        self.orphans += 1

    def on_rename(self, me: str, /) -> None:
        raise AssertionError(me)

    def unreachable(self) -> None:
        raise AssertionError

    def tell(self) -> None:
        raise AssertionError


def test_a_replica_whose_heartbeat_comes_in_the_last_moment_is_alive() -> None:
    session, told = Late(), Told()
    membership = Membership(
        session, told, lambda function, *values: function(*values), lambda: "me", lease=LEASE
    )

    async def live() -> None:
        await membership.join()
        for _ in range(6):
            await asyncio.sleep(LEASE / 4)
            await membership.beat()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(live())
    finally:
        loop.close()
    assert session.buried == 1
    assert set(told.alive) == {frozenset({"me", "other"})}
    assert told.orphans == 1  # of the start
