"""gRPC in an ASGI application under Envoy, with other clients: the official SDKs, and grpclib."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from grpclib.client import Channel
from grpclib.const import Cardinality, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError

from a2a_bridge import agent, asgi
from a2a_bridge.core.agent_api import Client
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.equivalence.agent import scripted_agent
from tests.equivalence.scenarios import SCENARIOS
from tests.equivalence.stack import stack
from tests.equivalence.talk import Talk
from tests.interop.deviations import CLIENT_DROPS_DETAILS, differences
from tests.interop.sdk_client import sdk_client
from tests.patience import PATIENCE
from tests.peers.processes import PeerClient
from tests.transports.envoy_scene import envoy

SERVICE = "/lf.a2a.v1.A2AService/"
MESSAGE = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "hi"}]}


@agent(name="words", task=True)
async def words(text: str) -> AsyncIterator[str]:
    """Sends the words one by one; after "wait" nothing more comes."""
    for word in text.split():
        yield word
        if word == "wait":
            await asyncio.Event().wait()


@pytest.mark.sdk
async def test_the_official_client_gets_the_same_as_over_grpc_aio() -> None:
    async with stack() as running, envoy(app := asgi(scripted_agent())) as server:
        card = hub.AgentCard()
        card.CopyFrom(running.card)
        del card.supported_interfaces[:]
        address = f"127.0.0.1:{server.listener_port}"
        card.supported_interfaces.add(url=address, protocol_binding="GRPC", protocol_version="1.0")
        for name, play in SCENARIOS.items():
            expected = Talk(Client(running.ways["in process"]))
            await play(expected)
            async with sdk_client(card, "GRPC") as service:
                talk = Talk(Client(service))
                await play(talk)
            found = differences(name, expected.lines, talk.lines, [CLIENT_DROPS_DETAILS])
            assert not found, "\n".join([name, *found])
        await app.drain(0)


@pytest.mark.parametrize("release", ["0.2.16", "0.3.26"])
async def test_official_clients_of_older_generations(
    release: str, peer_clients: Callable[[str], PeerClient]
) -> None:
    async with envoy(app := asgi(words)) as server:
        client = peer_clients(release).of("GRPC", f"http://127.0.0.1:{server.listener_port}")
        params = {
            "message": MESSAGE | {"parts": [{"kind": "text", "text": "one two"}]},
            "configuration": {"acceptedOutputModes": ["text"], "blocking": True},
        }
        task = await client.unary("message/send", params)
        assert task["status"]["state"] == "completed"
        assert (await client.unary("tasks/get", {"id": task["id"]}))["id"] == task["id"]
        events = [one async for one in client.stream("message/stream", params)]
        assert [one["kind"] for one in events].count("artifact-update") == 2
        assert events[-1]["status"]["state"] == "completed"
        await app.drain(0)


class Plain(CodecBase):
    """Messages of any class of protobuf."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        del message_type
        data: bytes = message.SerializeToString()
        return data

    def decode(self, data: bytes, message_type: Any) -> Any:
        return message_type.FromString(data)


async def test_grpclib() -> None:
    """A second implementation of gRPC, over its own HTTP/2."""
    request = hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="one two three")])
    )
    async with envoy(app := asgi(words)) as server, asyncio.timeout(PATIENCE):
        channel = Channel("127.0.0.1", server.listener_port, codec=Plain())

        def call(name: str, cardinality: Any, request: Any, response: Any) -> Any:
            return channel.request(
                SERVICE + name if "/" not in name else name, cardinality, request, response, timeout=PATIENCE
            )

        try:
            one, many = Cardinality.UNARY_UNARY, Cardinality.UNARY_STREAM
            async with call("SendMessage", one, hub.SendMessageRequest, hub.SendMessageResponse) as stream:
                await stream.send_message(request, end=True)
                task = (await stream.recv_message()).task
            assert [part.text for part in task.artifacts[0].parts] == ["one", "two", "three"]

            name = "SendStreamingMessage"
            async with call(name, many, hub.SendMessageRequest, hub.StreamResponse) as stream:
                await stream.send_message(request, end=True)
                kinds = [event.WhichOneof("payload") async for event in stream]
            assert (kinds[0], kinds.count("artifact_update")) == ("task", 3)

            async with call("GetTask", one, hub.GetTaskRequest, hub.Task) as stream:
                await stream.send_message(hub.GetTaskRequest(id="none"), end=True)
                assert await stream.recv_message() is None
                with pytest.raises(GRPCError) as caught:
                    await stream.recv_trailing_metadata()
            assert caught.value.status is Status.NOT_FOUND

            # A call that is reset, and the next one on the same connection.
            request.message.parts[0].text = "wait"  # so that there is a call to reset
            async with call(name, many, hub.SendMessageRequest, hub.StreamResponse) as stream:
                await stream.send_message(request, end=True)
                await stream.recv_message()
                await stream.cancel()

            path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            kind = Cardinality.STREAM_STREAM
            async with call(path, kind, ServerReflectionRequest, ServerReflectionResponse) as stream:
                for _ in range(2):  # each answer before the next request
                    await stream.send_message(ServerReflectionRequest(list_services=""))
                    listed = (await stream.recv_message()).list_services_response.service
                    assert "lf.a2a.v1.A2AService" in [one.name for one in listed]
                await stream.end()
        finally:
            channel.close()
        await app.drain(0)
