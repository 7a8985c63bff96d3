"""connect() and its result, for every kind of target and interface."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from a2a_bridge import connect, interface, serve
from a2a_bridge.app.peer import Reply, reply_of, request_of
from a2a_bridge.app.runtime import connect as runtime_connect
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.rejections import rejected
from tests.runtime.scene import BINDINGS, PATIENCE, agent


async def test_a_url_an_address_a_card_an_interface_and_an_agent() -> None:
    one = agent()
    async with serve(one) as server:
        card = server.card
        base = f"http://{server.http}"
        targets: list[Any] = [
            base,
            base + "/",
            base + "/some/where",
            base + "/.well-known/agent-card.json",
            base.replace("http", "HTTP", 1),
            str(server.grpc),
            f"grpc://{server.grpc}",
            card,
            *card.supported_interfaces,
            one,
        ]
        for target in targets:
            async with asyncio.timeout(PATIENCE), connect(target) as peer:
                assert (await peer.send("hi")).text == "hi!", target


async def test_properties_of_a_peer() -> None:
    async with serve(agent()) as server:
        async with connect(f"http://{server.http}") as peer:
            assert (peer.card, peer.interface) == (server.card, server.card.supported_interfaces[0])
        async with connect(server.card, binding="GRPC", version="1.0") as peer:
            assert peer.interface == server.card.supported_interfaces[2]
        async with connect(str(server.grpc)) as peer:
            assert peer.card.supported_interfaces == [peer.interface]
    async with connect(agent()) as peer:
        assert (peer.interface, peer.card.name) == (None, "shows")


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"binding": "GRPC"}, Reason.UNSUPPORTED_OPERATION), ({"version": "0.3"}, Reason.UNSUPPORTED_OPERATION)],
)
async def test_operations_that_the_card_does_not_offer(options: dict[str, str], reason: Reason) -> None:
    card = hub.AgentCard(supported_interfaces=[interface("JSONRPC", "http://127.0.0.1:1/")])
    with rejected(reason):
        async with connect(card, **options):
            pytest.fail("it was connected")


@pytest.mark.parametrize("target", ["ftp://a.example", "ws://a.example"])
async def test_invalid_addresses(target: str) -> None:
    with pytest.raises(ValueError, match=target):
        async with connect(target):
            pytest.fail("it was connected")


async def test_no_listener(unused_tcp_port: int) -> None:
    with rejected(Reason.UNAVAILABLE):
        async with connect(f"http://127.0.0.1:{unused_tcp_port}"):
            pytest.fail("it was connected")


@pytest.mark.parametrize("closed", BINDINGS)
async def test_the_next_interface_when_the_first_takes_no_connection(
    closed: str, unused_tcp_port: int
) -> None:
    async with serve(agent()) as server:
        address = f"127.0.0.1:{unused_tcp_port}"
        dead = interface(closed, address if closed == "GRPC" else f"http://{address}/")
        card = hub.AgentCard(supported_interfaces=[dead, *server.card.supported_interfaces])
        async with connect(card) as peer:
            assert (await peer.send("hi")).text == "hi!"
            assert [one async for one in peer.stream_text("words")] == ["one ", "two"]
        async with connect(card) as peer:
            assert [one async for one in peer.stream_text("words")] == ["one ", "two"]


async def test_an_error_is_an_answer() -> None:
    first, second = agent(), agent()
    async with serve(first) as one, serve(second) as two:
        card = hub.AgentCard(
            supported_interfaces=[one.card.supported_interfaces[0], two.card.supported_interfaces[0]]
        )
        async with connect(card) as peer:
            with rejected(Reason.TASK_NOT_FOUND):
                await peer.get_task(hub.GetTaskRequest(id="none"))
            await peer.send("hi")
    assert (len(first.executor.runs), len(second.executor.runs)) == (1, 0)  # type: ignore[attr-defined]


async def test_all_interfaces_down(unused_tcp_port_factory: Callable[[], int]) -> None:
    card = hub.AgentCard(
        supported_interfaces=[
            interface("JSONRPC", f"http://127.0.0.1:{unused_tcp_port_factory()}/"),
            interface("GRPC", f"127.0.0.1:{unused_tcp_port_factory()}"),
        ]
    )
    async with connect(card) as peer:
        with pytest.raises(A2AError) as caught:
            await peer.send("hi")
    assert (caught.value.reason, caught.value.metadata["phase"]) == (Reason.UNAVAILABLE, "connect")


@pytest.mark.parametrize("binding", ["", *BINDINGS])
async def test_a_conversation_of_several_turns(binding: str) -> None:
    one = agent()
    async with serve(one) as server, connect(server.card if binding else one, binding=binding) as peer:
        asked = await peer.send("ask")
        assert (asked.state, asked.text) == ("input-required", "which?")
        assert asked.task is not None
        told = await peer.send("this", task=asked.task)
        assert (told.state, told.text) == ("completed", "you said this")
        assert told.task is not None
        assert (told.task.id, told.task.context_id) == (asked.task.id, asked.task.context_id)
        again = await peer.send("ask", context_id=asked.task.context_id)
        assert again.task is not None
        assert again.task.context_id == asked.task.context_id
        last = await peer.send("that", task=again.task.id)
        assert last.text == "you said that"
        with rejected(Reason.UNSUPPORTED_OPERATION):
            await peer.send("more", task=last.task)


@pytest.mark.parametrize("binding", ["", *BINDINGS])
async def test_streams(binding: str) -> None:
    one = agent()
    async with serve(one) as server, connect(server.card if binding else one, binding=binding) as peer:
        async with aclosing(peer.stream("words")) as events:
            found = [event.WhichOneof("payload") async for event in events]
        assert (found[0], found[-1], found.count("artifact_update")) == ("task", "status_update", 2)
        assert [text async for text in peer.stream_text("words")] == ["one ", "two"]
        assert [text async for text in peer.stream_text("hi", context=CallContext())] == ["hi!"]


async def test_answers_at_once() -> None:
    async with connect(agent()) as peer:
        reply = await peer.send("hang", return_immediately=True)
        assert reply.state in ("submitted", "working")
        assert reply.task is not None
        assert (await peer.cancel_task(hub.CancelTaskRequest(id=reply.task.id))).status.state == (
            hub.TASK_STATE_CANCELED
        )


@pytest.mark.parametrize("binding", ["", *BINDINGS])
async def test_an_agents_own_error(binding: str) -> None:
    one = agent()
    async with serve(one) as server, connect(server.card if binding else one, binding=binding) as peer:
        with pytest.raises(A2AError) as caught:
            await peer.send("fail")
        assert (caught.value.reason, caught.value.message) == (Reason.CONTENT_TYPE_NOT_SUPPORTED, "not that")


def test_replies_in_words() -> None:
    assert (Reply().text, Reply().state) == ("", "")
    message = hub.Message(parts=[hub.Part(text="a"), hub.Part(raw=b"b"), hub.Part(text="c")])
    assert (Reply(message=message).text, Reply(message=message).state) == ("ac", "")
    states = {
        hub.TASK_STATE_COMPLETED: "completed",
        hub.TASK_STATE_AUTH_REQUIRED: "auth-required",
        hub.TASK_STATE_UNSPECIFIED: "unspecified",
        99: "99",
    }
    for state, word in states.items():
        task = hub.Task(status=hub.TaskStatus(state=state))  # type: ignore[arg-type]
        assert Reply(task=task).state == word


def test_an_answer_that_holds_nothing() -> None:
    with pytest.raises(A2AError) as caught:
        reply_of(hub.SendMessageResponse())
    assert (caught.value.reason, caught.value.blame) == (Reason.INVALID_AGENT_RESPONSE, Blame.PEER)


def test_messages_are_made_of_texts_parts_and_files() -> None:
    request = request_of(["text", b"raw", {"a": [1]}, 5, None, hub.Part(url="http://x")], context_id="c")
    kinds = [part.WhichOneof("content") for part in request.message.parts]
    assert kinds == ["text", "raw", "data", "data", "data", "url"]
    assert (request.message.role, request.message.context_id) == (hub.ROLE_USER, "c")
    assert request.message.message_id != request_of(["text"]).message.message_id
    task = hub.Task(id="t", context_id="c")
    assert request_of([], task=task).message.context_id == "c"
    assert request_of([], task=task, context_id="d").message.context_id == "d"
    assert not request_of([]).HasField("configuration")
    with pytest.raises(ValueError, match="JSON"):
        request_of([object()])


def test_the_name_of_the_library() -> None:
    assert connect is runtime_connect
