"""Errors name members as the caller's version does, and as the hub does for applications, on every binding."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from a2a_bridge import interface
from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, find
from a2a_bridge.core import operations as ops
from a2a_bridge.core.errors import A2AError, invalid_params, missing_members_error
from a2a_bridge.core.service import reject, reject_stream
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V0_1, V0_2_5, V0_3, V1_0, Row
from a2a_bridge.dialects.dialect import renaming
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.service_contract import invoke

INLINE = "configuration.taskPushNotificationConfig"
FORMS = [(V1_0, JSONRPC), (V1_0, GRPC), (V0_1, JSONRPC)] + [
    (dialect, kind) for dialect in (V0_3, V0_2_5) for kind in (JSONRPC, HTTP_JSON, GRPC)
]
every_form = pytest.mark.parametrize(
    ("dialect", "kind"), FORMS, ids=lambda one: str(getattr(one, "version", getattr(one, "name", "")))
)
#: operation, path in the hub → paths in the shape of JSON-RPC, in a2a.v1, and in 0.1
PATHS = [
    (ops.SEND_MESSAGE, "message.parts", "message.parts", "message.content", "message.parts"),
    (
        ops.SEND_STREAMING_MESSAGE,
        "message.parts[2]",
        "message.parts[2]",
        "message.content[2]",
        "message.parts[2]",
    ),
    (
        ops.SEND_MESSAGE,
        "message.parts[0].data.city",
        "message.parts[0].data.city",
        "message.content[0].data.data.city",
        "message.parts[0].data.city",
    ),
    (
        ops.SEND_MESSAGE,
        f"{INLINE}.url",
        "configuration.pushNotificationConfig.url",
        "configuration.pushNotification.url",
        "pushNotification.url",
    ),
    (
        ops.SEND_MESSAGE,
        f"{INLINE}.authentication.scheme",
        "configuration.pushNotificationConfig.authentication.schemes",
        "configuration.pushNotification.authentication.schemes",
        "pushNotification.authentication.schemes",
    ),
    (ops.SEND_MESSAGE, "message.contextId", "message.contextId", "message.contextId", "sessionId"),
    (
        ops.CREATE_PUSH_CONFIG,
        "authentication.credentials",
        "pushNotificationConfig.authentication.credentials",
        "config.pushNotificationConfig.authentication.credentials",
        "pushNotificationConfig.authentication.credentials",
    ),
    (ops.GET_TASK, "historyLength", "historyLength", "historyLength", "historyLength"),
]


class Rejecting:
    """A service that rejects every call with one error."""

    def __init__(self, error: A2AError) -> None:
        self._error = error

    def unary(self, _: Any, /) -> Any:
        return reject(self._error)

    def stream(self, _: Any, /) -> Any:
        return reject_stream(self._error)


@asynccontextmanager
async def mounted(error: A2AError, dialect: Any, kind: Any) -> AsyncIterator[str]:
    binding = find(kind.name)
    host = binding.host(ListenAddress("127.0.0.1", 0), HostOptions())
    binding.mount(host, "/", Rejecting(error), [dialect])
    await host.start()
    try:
        yield str(host.address)
    finally:
        await host.drain(0)


async def told(error: A2AError, dialect: Any, kind: Any, operation: Any) -> A2AError:
    """The error as a caller of a version receives it."""
    request = operation.request()
    if isinstance(request, hub.SendMessageRequest):
        request.message.message_id, request.message.task_id = "m", "t"
        request.message.role = hub.ROLE_USER
        request.message.parts.add(text="hi")
    elif isinstance(request, hub.TaskPushNotificationConfig):
        request.task_id, request.id, request.url = "t", "v0.1", "https://hook.example/"
    else:
        request.id = "t"
    async with mounted(error, dialect, kind) as address:
        target = interface(
            kind.name, address if kind.name == "GRPC" else f"http://{address}/", version=dialect.version
        )
        async with find(kind.name).dial(target, dialect, DialOptions()) as service:
            with pytest.raises(A2AError) as caught:
                await invoke(service, operation, request)
    return caught.value


@every_form
@pytest.mark.parametrize(
    ("operation", "path", "of_kind", "of_proto", "of_0_1"), PATHS, ids=[one[1] for one in PATHS]
)
async def test_a_member_has_the_name_of_the_version_on_the_wire_only(
    dialect: Any,
    kind: Any,
    operation: Any,
    path: str,
    of_kind: str,
    of_proto: str,
    of_0_1: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = await told(invalid_params(path, "is wrong"), dialect, kind, operation)
    assert [one.field for one in error.violations] == [path]
    assert error.message == f"{path}: is wrong"
    monkeypatch.setattr(Row, "decode_names", lambda _, error: error)
    error = await told(invalid_params(path, "is wrong"), dialect, kind, operation)
    older = of_kind if kind is JSONRPC else of_proto
    expected = path if dialect is V1_0 else of_0_1 if dialect is V0_1 else older
    assert [one.field for one in error.violations] == [expected]
    assert error.message == f"{expected}: is wrong"


async def test_callers_of_http_json_in_the_shape_of_json_rpc_get_its_names() -> None:
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": []}
    error = missing_members_error(["message.parts", f"{INLINE}.url"])
    async with mounted(error, V0_3, HTTP_JSON) as address, aiohttp.ClientSession() as session:
        url = f"http://{address}/v1/message:send"
        async with session.post(url, json={"message": message}) as answer:
            body = await answer.json()
    assert body["message"] == "message.parts, configuration.pushNotificationConfig.url: required"


def test_an_error_that_several_callers_get_is_not_changed() -> None:
    error = missing_members_error(["message.messageId", "message.parts"])
    renamed = renaming((r"^message\.parts\b", "message.content"))(error)
    assert renamed.message == "message.messageId, message.content: required"
    assert [one.field for one in renamed.violations] == ["message.messageId", "message.content"]
    assert error.message == "message.messageId, message.parts: required"
    assert renaming(("^x$", "y"))(error) is error
