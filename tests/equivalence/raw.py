"""Invalid requests: raw HTTP bodies and raw gRPC messages, whose answers the dialect's decoders read.

Answers are checked for forbidden content: a 5xx status, UNKNOWN, or internals of the program.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx

from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, V1_0, ErrorReply
from tests.patience import PATIENCE

VERSION = {"A2A-Version": "1.0"}
SERVICE = "/lf.a2a.v1.A2AService/"

#: words about internals of the program
_INSIDE = re.compile(r"Traceback|\.py\b|/site-packages|<class |object at 0x|Error\(|Exception")


@dataclass(frozen=True)
class Answer:
    """An answer. error: None for a success. status: of HTTP, or of gRPC by number."""

    status: int
    error: A2AError | None
    body: Any = None
    headers: Any = field(default_factory=dict)


class RawHttp:
    """HTTP requests to one listener."""

    def __init__(self, base: str) -> None:
        self._client = httpx.AsyncClient(base_url=base, timeout=PATIENCE)

    async def close(self) -> None:
        await self._client.aclose()

    async def jsonrpc(
        self, content: bytes | str | Any, headers: dict[str, str] | None = None, path: str = "/"
    ) -> Answer:
        """POSTs to the JSON-RPC address; `content` that is no text is sent as JSON."""
        response = await self._send("POST", path, content, headers)
        body = _json(response)
        error = body.get("error") if isinstance(body, dict) else None
        if error is None and response.status_code < 400:
            return Answer(response.status_code, None, body, response.headers)
        decoded = V1_0.form(JSONRPC).decode_error(ErrorReply(response.status_code, error, response.text))
        return Answer(response.status_code, decoded, body, response.headers)

    async def rest(
        self,
        method: str,
        path: str,
        content: bytes | str | Any | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """A request to an HTTP+JSON address."""
        response = await self._send(method, path, content, headers)
        body = _json(response)
        if response.status_code < 400:
            return Answer(response.status_code, None, body, response.headers)
        decoded = V1_0.form(HTTP_JSON).decode_error(ErrorReply(response.status_code, body, response.text))
        return Answer(response.status_code, decoded, body, response.headers)

    async def _send(
        self, method: str, path: str, content: Any, headers: dict[str, str] | None
    ) -> httpx.Response:
        given: dict[str, Any] = {}
        if isinstance(content, bytes | str):
            given = {"content": content}
        elif content is not None:
            given = {"content": dumps(content)}
        sent = {"Content-Type": "application/json"} | (VERSION if headers is None else headers)
        response = await self._client.request(method, path, headers=sent, **given)
        assert response.status_code < 500, (response.status_code, response.text)
        assert not _INSIDE.search(response.text), response.text
        return response


class RawGrpc:
    """gRPC messages of any bytes to one server."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)

    async def close(self) -> None:
        await self._channel.close()

    async def unary(
        self, method: str, content: bytes, metadata: dict[str, str] | None = None, service: str = SERVICE
    ) -> Answer:
        """A unary call of a method by name."""
        sent = {"a2a-version": "1.0"} if metadata is None else metadata
        call = self._channel.unary_unary(service + method)(content, metadata=tuple(sent.items()), timeout=20)
        try:
            return Answer(0, None, await call)
        except grpc.aio.AioRpcError as caught:
            error = caught
        assert error.code() not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), error
        assert not _INSIDE.search(error.details()), error
        trailers = dict(error.trailing_metadata())
        status: int = error.code().value[0]
        reply = ErrorReply(status, trailers.get("grpc-status-details-bin"), error.details())
        return Answer(status, V1_0.form(GRPC).decode_error(reply), headers=trailers)


def _json(response: httpx.Response) -> Any:
    kind = response.headers.get("content-type", "").partition(";")[0]
    return response.json() if kind in ("application/json", "application/a2a+json") else None


def rpc(method: str, params: Any = ..., request_id: Any = 1) -> dict[str, Any]:
    """A JSON-RPC frame; without `params` when they are not given."""
    frame = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return frame if params is ... else frame | {"params": params}
