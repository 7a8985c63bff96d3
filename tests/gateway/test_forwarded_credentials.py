"""Callers whom only the agent checks: the gateway remembers nothing of one for another."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import pytest
from aiohttp import web

from a2a_bridge import connect
from a2a_bridge.app.peer import Peer
from a2a_bridge.bindings.binding import IMPERSONAL, DialOptions
from a2a_bridge.cards import interface
from a2a_bridge.codec import loads
from a2a_bridge.core.call import CallContext
from a2a_bridge.gateway.tasks import scopes_by, visible_to
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.raw_echo import gateway_before
from tests.patience import PATIENCE

HEADERS = ("authorization", "x-api-key", "x-user")


class Agent:
    """An agent of 0.3 whose tasks belong to the value of a header."""

    def __init__(self, header: str) -> None:
        self._header = header
        self._numbers = count(1)
        self._owners: dict[str, str] = {}

    async def handle(self, request: web.Request) -> web.Response:
        """One JSON-RPC call."""
        frame: Any = loads(await request.read())
        caller = request.headers.get(self._header, "")
        task_id = frame["params"].get("id", "")
        if frame["method"] == "message/send":
            task_id = f"t{next(self._numbers)}"
            self._owners[task_id] = caller
        answer: Any = {"error": {"code": -32001, "message": "Task not found"}}
        if self._owners.get(task_id) == caller:
            status = {"state": "input-required"}
            answer = {
                "result": {"kind": "task", "id": task_id, "contextId": f"c-{task_id}", "status": status}
            }
        return web.json_response({"jsonrpc": "2.0", "id": frame["id"], **answer})


@asynccontextmanager
async def gateway(header: str) -> AsyncIterator[dict[str, Peer]]:
    """Two callers of a gateway that forwards a header and checks nobody."""
    dialling = DialOptions(timeout=PATIENCE, forward=IMPERSONAL | {"authorization", header})
    agent = gateway_before(Agent(header).handle, "0.3", [interface("JSONRPC")], dial_options=dialling)
    async with agent as server, AsyncExitStack() as stack:
        callers = {}
        for name in ("ann", "bob"):
            options = DialOptions(timeout=PATIENCE, parameters={header: name}, forward=frozenset())
            callers[name] = await stack.enter_async_context(connect(server.card, options=options))
        yield callers


@pytest.mark.parametrize("header", HEADERS)
async def test_a_list_of_one_caller_takes_nothing_from_another_one(header: str) -> None:
    async with gateway(header) as callers:
        ann, bob = callers.values()
        begun = (await ann.send("mine")).task
        assert begun is not None
        for _ in range(2):
            of_bob = await bob.list_tasks(hub.ListTasksRequest())
            assert (of_bob.total_size, [one.id for one in of_bob.tasks]) == (0, [])
            of_ann = await ann.list_tasks(hub.ListTasksRequest())
            assert (of_ann.total_size, [one.id for one in of_ann.tasks]) == (1, [begun.id])


def test_scopes() -> None:
    scoped = scopes_by({"x-api-key", "authorization", "x-request-id", *IMPERSONAL})

    def of(**parameters: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in parameters.items()}
        return scoped(hub.GetTaskRequest(), CallContext(parameters=named))

    # Relayed configs are stored under this scope.
    context = CallContext(parameters={"authorization": "a"})
    assert of(authorization="a") == visible_to(hub.GetTaskRequest(), context)
    assert of() == of(x_request_id="1") == of(traceparent="1") == of(x_other="1")
    others = [of(), of(authorization="a"), of(x_api_key="a"), of(x_api_key="b")]
    others += [of(authorization="a", x_api_key="a"), of(authorization="b", x_api_key="a")]
    assert len(set(others)) == len(others)
