"""Calls in the terms of 0.3 JSON-RPC: raw, by an SDK's client, by ours. Rejections are Rejected."""

import json
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from typing import Any, Protocol

import httpx

from a2a_bridge.codec import dumps, loads_exact
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.service import Service
from tests.peers.processes import PeerClient, PeerError

SEND, STREAM, GET, CANCEL, RESUBSCRIBE = (
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
)
PUSH_SET, PUSH_GET, PUSH_LIST, PUSH_DELETE = (
    f"tasks/pushNotificationConfig/{verb}" for verb in ("set", "get", "list", "delete")
)
EXTENDED_CARD = "agent/getAuthenticatedExtendedCard"
ALL = (SEND, STREAM, GET, CANCEL, RESUBSCRIBE, PUSH_SET, PUSH_GET, PUSH_LIST, PUSH_DELETE, EXTENDED_CARD)

CODES = {
    -32700: "PARSE_ERROR",
    -32600: "INVALID_REQUEST",
    -32601: "METHOD_NOT_FOUND",
    -32602: "INVALID_PARAMS",
    -32603: "INTERNAL_ERROR",
    -32001: "TASK_NOT_FOUND",
    -32002: "TASK_NOT_CANCELABLE",
    -32003: "PUSH_NOTIFICATION_NOT_SUPPORTED",
    -32004: "UNSUPPORTED_OPERATION",
    -32005: "CONTENT_TYPE_NOT_SUPPORTED",
    -32006: "INVALID_AGENT_RESPONSE",
    -32007: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
}
#: HTTP status of 0.3 -> its reason; 501 and 404 have more than one
STATUSES = {
    400: "INVALID_REQUEST",
    404: "TASK_NOT_FOUND",
    409: "TASK_NOT_CANCELABLE",
    415: "CONTENT_TYPE_NOT_SUPPORTED",
    422: "INVALID_PARAMS",
    500: "INTERNAL_ERROR",
    501: "UNSUPPORTED_OPERATION",
    502: "INVALID_AGENT_RESPONSE",
}
#: gRPC statuses that SDKs send without the name of an error
GRPC_STATUSES = {"UNKNOWN": "INTERNAL_ERROR", "INTERNAL": "INTERNAL_ERROR"}


class Rejected(Exception):  # noqa: N818  an outcome, not an error of the test
    """An error of the agent in place of a result."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


class Caller(Protocol):
    """operations: the supported ones. The two methods take one of them and its params."""

    operations: frozenset[str]

    async def unary(self, operation: str, params: Any) -> Any: ...

    def stream(self, operation: str, params: Any) -> AsyncIterator[Any]: ...


def rejection(error: dict[str, Any]) -> Rejected:
    """A JSON-RPC error."""
    return Rejected(CODES.get(error["code"], str(error["code"])), error["message"])


class BareCaller:
    """JSON-RPC as it is on the wire, without a library that could change a tree."""

    operations = frozenset(ALL)

    def __init__(self, http: httpx.AsyncClient, url: str, card: str = "") -> None:
        """card: the URL of the extended card (0.2), if there is no method for it."""
        self._http, self._url, self._card = http, url, card

    async def unary(self, operation: str, params: Any) -> Any:
        if operation == EXTENDED_CARD and self._card:
            return (await self._http.get(self._card)).json()
        response = await self._http.post(self._url, json=self._request(operation, params))
        answer = response.json()
        if "error" in answer:
            raise rejection(answer["error"])
        return answer.get("result")

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        request = self._request(operation, params)
        async with self._http.stream("POST", self._url, json=request) as response:
            if not response.headers["content-type"].startswith("text/event-stream"):
                raise rejection(json.loads(await response.aread())["error"])
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    answer = json.loads(line.removeprefix("data:"))
                    if "error" in answer:
                        raise rejection(answer["error"])
                    yield answer["result"]

    def _request(self, operation: str, params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": 1, "method": operation, "params": params}
        return {name: value for name, value in request.items() if value is not None}


#: release -> (binding -> the operations of the SDK's client)
_OLD = frozenset({SEND, STREAM, GET, CANCEL, PUSH_SET, PUSH_GET})
OPERATIONS = {
    "0.2.16": {"JSONRPC": _OLD | {EXTENDED_CARD}, "GRPC": _OLD},
    "0.3.26": dict.fromkeys(("JSONRPC", "HTTP+JSON", "GRPC"), _OLD | {RESUBSCRIBE, EXTENDED_CARD}),
}


#: the newest SDK's client by (version, binding): its missing operations
LACKING = {("0.3", "HTTP+JSON"): (PUSH_LIST, PUSH_DELETE)}


class PeerCaller:
    """An SDK's client in a process of its own."""

    def __init__(self, client: PeerClient, release: str, binding: str, *, origin: str) -> None:
        self.operations = OPERATIONS[release][binding]
        self._client = client.of(binding, origin)
        self._binding = binding

    async def unary(self, operation: str, params: Any) -> Any:
        try:
            return await self._client.unary(operation, params)
        except PeerError as error:
            raise self._rejected(error) from error

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        events = self._client.stream(operation, params)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        except PeerError as error:
            raise self._rejected(error) from error

    def _rejected(self, error: PeerError) -> Rejected:
        tree = error.tree
        if "code" in tree:
            return rejection(tree)
        name, colon, rest = tree["message"].partition(": ")
        if self._binding == "GRPC" and isinstance(tree.get("status"), str):
            if colon and name.endswith("Error"):
                return Rejected(_reason(name), rest)
            return Rejected(GRPC_STATUSES.get(tree["status"], tree["status"]), tree["message"])
        if "status" in tree:
            body = json.loads(tree["body"]) if tree.get("body", "").startswith("{") else {}
            said = body.get("error", body)
            for detail in said.get("details", ()) if isinstance(said, dict) else ():
                if "reason" in detail:
                    return Rejected(detail["reason"], said["message"])
            message = body.get("message", "")
            return Rejected(STATUSES.get(tree["status"], str(tree["status"])), message)
        return Rejected(tree["type"], tree["message"])


def _reason(name: str) -> str:
    """TaskNotFoundError -> TASK_NOT_FOUND."""
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in name.removesuffix("Error"))
    reason = words.strip("_").upper()
    return {"INTERNAL": "INTERNAL_ERROR"}.get(reason, reason)


#: method -> the operation of the hub
HUB = {
    SEND: ops.SEND_MESSAGE,
    STREAM: ops.SEND_STREAMING_MESSAGE,
    GET: ops.GET_TASK,
    CANCEL: ops.CANCEL_TASK,
    RESUBSCRIBE: ops.SUBSCRIBE_TO_TASK,
    PUSH_SET: ops.CREATE_PUSH_CONFIG,
    PUSH_GET: ops.GET_PUSH_CONFIG,
    PUSH_LIST: ops.LIST_PUSH_CONFIGS,
    PUSH_DELETE: ops.DELETE_PUSH_CONFIG,
    EXTENDED_CARD: ops.GET_EXTENDED_AGENT_CARD,
}


class ServiceCaller:
    """A client with the hub's messages, ours or the newest SDK's; 0.x is only the notation here."""

    def __init__(self, service: Service, version: str = "0.3", without: Collection[str] = ()) -> None:
        """version: that it speaks. without: operations that this client lacks."""
        from a2a_bridge.dialects import JSONRPC, by_version

        form = by_version(version).form(JSONRPC)
        self._rows = {method: form.row(operation) for method, operation in HUB.items()}
        self.operations = frozenset(ALL) - frozenset(without)
        self._service = service

    async def unary(self, operation: str, params: Any) -> Any:
        try:
            return self._tree(operation, await self._service.unary(self._call(operation, params)))
        except A2AError as error:
            raise Rejected(error.reason.name, error.message) from error

    async def stream(self, operation: str, params: Any) -> AsyncIterator[Any]:
        try:
            async with aclosing(self._service.stream(self._call(operation, params))) as events:
                async for event in events:
                    yield self._tree(operation, event.message)
        except A2AError as error:
            raise Rejected(error.reason.name, error.message) from error

    def _call(self, operation: str, params: Any) -> Call[Any, Any]:
        request = self._rows[operation].decode_request(loads_exact(json.dumps(params).encode()))
        return Call(HUB[operation], request, CallContext())

    def _tree(self, operation: str, message: Any) -> Any:
        return json.loads(dumps(self._rows[operation].encode_response(message)))
