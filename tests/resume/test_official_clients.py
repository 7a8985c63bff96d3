"""The official SDKs' clients, which do not use ids, accept the card with the extension and numbered streams."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver

from a2a_bridge.core.call import LAST_EVENT_PARAMETER, Call
from a2a_bridge.core.messages import TERMINAL
from a2a_bridge.core.resume import RESUME_URI
from a2a_bridge.dialects import KNOWN
from a2a_bridge.stores import MemoryStore
from tests.interop.sdk_client import sdk_client
from tests.peers.callers import RESUBSCRIBE, STREAM, PeerCaller
from tests.peers.processes import CLIENTS, PATIENCE, PeerClient
from tests.resume.hosted import EVENTS, Scene, begun, sending, served
from tests.resume.scene import BINDINGS, subscribing

pytestmark = pytest.mark.sdk

MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "go"}]}
KINDS = ["task", "status-update", *["artifact-update"] * (EVENTS - 3), "status-update"]


async def numbered_stream(scene: Scene) -> None:
    """Checks that the streams have ids and the card the extension: otherwise this test would show nothing."""
    async with httpx.AsyncClient(base_url=f"http://{scene.server.http}") as http:
        card = (await http.get("/.well-known/agent-card.json")).json()
        offered = [one["uri"] for one in card["capabilities"]["extensions"]]
        assert offered == [RESUME_URI]
        assert not card["capabilities"]["extensions"][0].get("required")
        params = {"message": MESSAGE}
        body = {"jsonrpc": "2.0", "id": 1, "method": STREAM, "params": params}
        answer = await http.post("/", json=body)
        ids = [line for line in answer.text.splitlines() if line.startswith("id: ")]
        assert ids == [f"id: {number}" for number in range(1, EVENTS + 1)]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_newest_client(binding: str) -> None:
    async with asyncio.timeout(PATIENCE), served(MemoryStore(), KNOWN) as scene:
        await numbered_stream(scene)
        async with httpx.AsyncClient(verify=False) as http:  # noqa: S501  no TLS here
            card = await A2ACardResolver(http, f"http://{scene.server.http}").get_agent_card()
        assert [one.uri for one in card.capabilities.extensions] == [RESUME_URI]
        async with sdk_client(card, binding) as service:
            async with aclosing(service.stream(sending())) as stream:
                streamed = [event.message async for event in stream]
            assert [event.WhichOneof("payload") for event in streamed] == [
                kind.replace("-", "_") for kind in KINDS
            ]
            scene.steps.hold_after(3)
            task_id = await begun(service)
            async with aclosing(service.stream(subscribing(task_id))) as stream:
                snapshot = (await anext(stream)).message.task
                assert RESUME_URI not in snapshot.metadata.fields
                scene.steps.allow(EVENTS)
                states = [event.message.status_update.status.state async for event in stream]
                assert states[-1] in TERMINAL
            # A caller that sends the header itself resumes: it is only a service parameter.
            call: Call[Any, Any] = subscribing(task_id, "2")
            assert call.context.parameters[LAST_EVENT_PARAMETER] == "2"
            async with aclosing(service.stream(call)) as stream:
                assert len([event async for event in stream]) == EVENTS - 2


@pytest.mark.parametrize(
    ("release", "binding"),
    [(release, binding) for release, program in CLIENTS.items() for binding in program.bindings],
)
async def test_older_clients(release: str, binding: str, peer_clients: Callable[[str], PeerClient]) -> None:
    async with asyncio.timeout(PATIENCE), served(MemoryStore(), KNOWN) as scene:
        await numbered_stream(scene)
        origin = f"http://{scene.server.http}"
        caller = PeerCaller(peer_clients(release), release, binding, origin=origin)
        events = [event async for event in caller.stream(STREAM, {"message": MESSAGE})]
        assert [event["kind"] for event in events] == KINDS
        if RESUBSCRIBE not in caller.operations:
            return
        scene.steps.hold_after(3)
        stream = caller.stream(STREAM, {"message": MESSAGE | {"messageId": "m-2"}})
        task_id = (await anext(stream))["id"]
        again = caller.stream(RESUBSCRIBE, {"id": task_id})
        assert (await anext(again))["kind"] == "task"
        scene.steps.allow(EVENTS)
        rest = [event async for event in again]
        assert rest[-1]["status"]["state"] == "completed"
        await stream.aclose()
