"""gRPC and gRPC-Web as part of an ASGI application. It opens no socket and has no grpcio.

The methods are those of `server`; this is the second host below them, beside grpc.aio. Rules:
1. A call is an ASGI request whose content type is one of gRPC. HTTP/2, TLS, flow control, keep-alives and
   limits of connections belong to the ASGI server.
2. The status is in trailers. A server that cannot send them gets a status in the headers that says so;
   gRPC-Web has its trailers in the body, and works on every server.
3. A caller that leaves cancels its call. The deadline of a call is kept by the middleware.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing
from typing import NamedTuple
from urllib.parse import quote

from multidict import CIMultiDict

from a2a_bridge.bindings.asgi import Receive, Scope, Send, certificate_of
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.offload import run_in_worker
from a2a_bridge.core.errors import A2AError, GrpcStatus, request_too_large
from a2a_bridge_transports._http.asgi import TRAILERS, AsgiHost
from a2a_bridge_transports._http.asgi_request import AsgiRequest, is_head_too_large
from a2a_bridge_transports._http.sse import run_flushing
from a2a_bridge_transports.grpc.frames import (
    CODINGS,
    FrameError,
    Headers,
    OversizeError,
    Unframer,
    from_web_text,
    headers_of_metadata,
    metadata_of_headers,
    prefix,
    status_headers,
    timeout_of,
    web_trailers,
)
from a2a_bridge_transports.grpc.server import GOING_AWAY, Method, Rejection
from a2a_bridge_transports.grpc.services import REFLECTION_PATHS, HostMethods, Reflection

_NO_TRAILERS = (
    "this server sends no HTTP trailers, which gRPC needs; use a server that sends them, gRPC-Web, or "
    "another binding"
)
_ACCEPTED = (b"grpc-accept-encoding", b"identity,deflate,gzip")
#: headers that scripts of other origins may read
_EXPOSED = b"grpc-status, grpc-message, grpc-status-details-bin, a2a-extensions, a2a-event-id, a2a-resume"
_OK = (b"grpc-status", b"0")
_OK_FRAME = web_trailers([_OK])

Trailing = Iterable[tuple[str, str | bytes]]


class _Kind(NamedTuple):
    """A content type of gRPC."""

    head: tuple[tuple[bytes, bytes], ...]
    #: the trailers are in the body
    web: bool = False
    #: the body is base64
    text: bool = False


def _kinds(cors: str) -> dict[bytes, _Kind]:
    """The content types that are answered. cors: the origins whose scripts may call gRPC-Web; empty: none."""
    allowed = [
        (b"access-control-allow-origin", cors.encode("ascii")),
        (b"access-control-expose-headers", _EXPOSED),
    ]
    made = {}
    for start in (b"application/grpc", b"application/grpc-web", b"application/grpc-web-text"):
        for media in (start, start + b"+proto"):
            web = start != b"application/grpc"
            head = ((b"content-type", media), _ACCEPTED, *(allowed if web and cors else ()))
            made[media] = _Kind(head, web, start.endswith(b"text"))
    return made


class GrpcCalls(HostMethods):
    """The gRPC calls of one ASGI application; implements `asgi.Calls`."""

    def __init__(self, options: HostOptions) -> None:
        super().__init__(options)
        self._kinds = _kinds(options.cors)
        self.paths: Collection[str] = self.methods

    def retire(self) -> None:
        """Health reports NOT_SERVING from here on, and its watches end."""
        self.health.retired.set()

    def end(self) -> None:
        """Calls that are cancelled from here on end as UNAVAILABLE."""
        self.running.ended = True

    def begin(
        self, host: AsgiHost, scope: Scope, receive: Receive, send: Send, path: str
    ) -> AsgiRequest | None:
        """The call of a request; None if the request is none."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["method"] == "OPTIONS":
            is_preflight = b"access-control-request-method" in headers and path in self.methods
            return _Preflight(host, scope, receive, send) if is_preflight and self.options.cors else None
        media = headers.get(b"content-type", b"")
        kind = self._kinds.get(media) or self._kinds.get(media.partition(b";")[0].strip().lower())
        if kind is None or scope["method"] != "POST":
            return None
        call = _Call(host, scope, receive, send, kind, headers)
        call.method = self.methods.get(path)
        if call.method is None:
            if path in REFLECTION_PATHS:
                call.reflection = Reflection(self.services)
            else:
                call.method = self.find_rejecting(path)
        return call


class _Preflight(AsgiRequest):
    """The question of a browser whether a script of another origin may call."""

    __slots__ = ("_cors",)

    def __init__(self, host: AsgiHost, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(host.watches, scope, receive, send)
        self._cors = host.options.cors.encode("ascii")

    async def answer(self) -> None:
        headers = [
            (b"access-control-allow-origin", self._cors),
            (b"access-control-allow-methods", b"POST"),
            (b"access-control-allow-headers", b"*, authorization"),
            (b"access-control-max-age", b"86400"),
        ]
        await self.put(
            {"type": "http.response.start", "status": 204, "headers": headers},
            {"type": "http.response.body", "body": b""},
        )


class _Call(AsgiRequest):
    """One call; implements `server.Exchange` and answers it."""

    __slots__ = (
        "_deadline",
        "_headers",
        "_host",
        "_initial",
        "_kind",
        "_metadata",
        "_trailing",
        "method",
        "reflection",
    )

    def __init__(
        self,
        host: AsgiHost,
        scope: Scope,
        receive: Receive,
        send: Send,
        kind: _Kind,
        headers: dict[bytes, bytes],
    ) -> None:
        super().__init__(host.watches, scope, receive, send)
        self._host = host
        self._kind = kind
        self._headers = headers
        self._metadata: tuple[tuple[str, str], ...] | None = None
        self._deadline: float | None = None
        self._initial: Headers | None = None
        self._trailing: Headers | None = None
        self.method: Method | None = None
        self.reflection: Reflection | None = None

    # ---------------------------------------------------------------- server.Exchange

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        if self._metadata is None:
            self._metadata = metadata_of_headers(self.scope["headers"])
        return self._metadata

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def peer(self) -> str:
        client = self.scope.get("client")
        return "" if not client else f"{'ipv6' if ':' in client[0] else 'ipv4'}:{client[0]}:{client[1]}"

    def certificate(self) -> bytes | None:
        return certificate_of(self.scope)

    @property
    def base_url(self) -> str:
        """The URL of the application as the caller used it."""
        named = self._headers.get(b"host", b"").decode("latin-1")
        root = self.scope.get("root_path", "").rstrip("/")
        root = quote(root, safe="/:@!$&'()*+,;=~") if root else ""
        known = self._host.bases.get((self.scope.get("scheme", "http"), named, root))
        if known is not None:
            return known
        headers = CIMultiDict(self.invocation_metadata())
        return self._host.base_url(self.scope, named, root, headers)

    async def send_initial_metadata(self, metadata: Iterable[tuple[str, str]]) -> None:
        """Kept until the first message, or the status, is sent."""
        self._initial = headers_of_metadata(metadata)

    def set_trailing_metadata(self, metadata: Trailing) -> None:
        self._trailing = headers_of_metadata(metadata)

    # ---------------------------------------------------------------- the call

    async def answer(self) -> None:
        kind, method = self._kind, self.method
        if not kind.web and TRAILERS not in (self.scope.get("extensions") or ()):
            await self._reject_without_trailers()
            return
        self._host.trailers = self._host.trailers or not kind.web
        try:
            limit = self._headers.get(b"grpc-timeout")
            if limit is not None:
                self._deadline = time.monotonic() + timeout_of(limit)
            coding = self._headers.get(b"grpc-encoding")
            if is_head_too_large(self.scope, self._host.options.max_header):
                await self._end(GrpcStatus.RESOURCE_EXHAUSTED, "the metadata is too large")
            elif coding is not None and coding not in CODINGS:
                await self._end(GrpcStatus.UNIMPLEMENTED, "grpc-encoding is not gzip, deflate or identity")
            elif method is not None:
                self._watches.add(self)
                wire = await self._message() if method.known else b""
                if self._held:
                    self.release()  # the handler counts the message itself
                handled = method.answer(wire, self)
                result = await (run_flushing(handled, self) if method.streaming else handled)  # type: ignore[arg-type]
                if type(result) is bytes:
                    await self._respond(result)
                elif type(result) is Rejection:
                    await self._end(*result)
                else:
                    await self._end(0, "")
            elif self.reflection is not None:
                await run_flushing(self._reflect(self.reflection), self)
                await self._end(0, "")
            else:
                await self._end(GrpcStatus.UNIMPLEMENTED, "Method not found!")
        except OversizeError:
            await self._reject(request_too_large(self._host.options.max_body), GrpcStatus.RESOURCE_EXHAUSTED)
        except A2AError as error:  # a wrong timeout, or a body that came too slowly
            await self._reject(error, GrpcStatus.INVALID_ARGUMENT)
        except FrameError as error:
            await self._end(GrpcStatus.INTERNAL, f"not a gRPC request: {error}")
        except asyncio.CancelledError:
            # The handlers tell it by themselves; here the request was still being read.
            if self.started or self.left or not self.stopping or self._task is None:
                raise
            self._task.uncancel()
            await self._end(GrpcStatus.UNAVAILABLE, GOING_AWAY)

    async def _reject(self, error: A2AError, status: GrpcStatus) -> None:
        """Ends the call with an error in the format of its version; status: for methods that have none."""
        reject = None if self.method is None else self.method.reject
        await self._end(*(Rejection(status, error.message) if reject is None else reject(error, self)))

    async def _message(self) -> bytes:
        """The one message of the request. Raises FrameError, ClientLeftError, A2AError."""
        limit = self._host.options.max_body
        body = await self.body((limit + prefix.size) * (2 if self._kind.text else 1))
        if body is None:
            raise OversizeError("a body that is too large")
        if self._kind.text:
            body = from_web_text(body)
        # The usual body is one message that is not compressed.
        if len(body) >= prefix.size:
            flags, size = prefix.unpack_from(body)
            if flags == 0 and size == len(body) - prefix.size:
                if size > limit:
                    raise OversizeError("a message that is too large")
                return body[prefix.size :]
        frames = Unframer(limit, self._headers.get(b"grpc-encoding"))
        # In a thread, because a few compressed bytes can hold a large message.
        return await run_in_worker(_only, frames, body)

    async def _reflect(self, reflection: Reflection) -> None:
        try:
            async with aclosing(reflection.answers(self._messages())) as answers:
                async for answer in answers:
                    await self.write(answer)
        except ValueError as error:
            raise error if isinstance(error, FrameError) else FrameError("it cannot be read") from None

    async def _messages(self) -> AsyncGenerator[bytes, None]:
        """The messages of a request that is a stream. Raises FrameError, ClientLeftError."""
        frames = Unframer(self._host.options.max_header, self._headers.get(b"grpc-encoding"))
        more, text = True, b""
        while more:
            event = await self.next_part()
            more = event.get("more_body", False)
            data: bytes = event.get("body", b"")
            if self._kind.text:
                # Four characters are one group of base64: a group may arrive in two parts.
                text += b"".join(data.split())
                whole = len(text) // 4 * 4 if more else len(text)
                data, text = from_web_text(text[:whole]), text[whole:]
            for message in frames.feed(data):
                yield message
        frames.end()

    # ---------------------------------------------------------------- the response

    def _start(self) -> dict[str, object]:
        """The head of the response."""
        self.started = True
        kind = self._kind
        headers = [*kind.head, *self._initial] if self._initial else list(kind.head)
        if self._is_late:
            headers += self.last_headers()
        if kind.web:
            return {"type": "http.response.start", "status": 200, "headers": headers}
        return {"type": "http.response.start", "status": 200, "headers": headers, "trailers": True}

    async def _respond(self, message: bytes) -> None:
        """Sends the response of a unary call."""
        kind = self._kind
        data = prefix.pack(0, len(message)) + message
        if kind.web:
            data += _OK_FRAME
            data = b64encode(data) if kind.text else data
            await self.put(self._start(), {"type": "http.response.body", "body": data})
            return
        await self.put(
            self._start(),
            {"type": "http.response.body", "body": data, "more_body": False},
            {"type": TRAILERS, "headers": [_OK], "more_trailers": False},
        )

    def take(self) -> bytes:
        parts, pack = self.parts, prefix.pack
        data = b"".join([piece for message in parts for piece in (pack(0, len(message)), message)])
        parts.clear()
        self._size = 0
        return data

    async def flush(self) -> None:
        data = self.take()
        if not self.started:
            await self.put(self._start())
        data = b64encode(data) if self._kind.text else data
        await self.put({"type": "http.response.body", "body": data, "more_body": True})

    async def _end(self, status: int, text: str, trailing: Trailing = ()) -> None:
        """Sends the status, after the written data."""
        trailers = status_headers(status, text) + (self._trailing or []) + headers_of_metadata(trailing)
        data = self.take() if self.parts else b""
        if not self.started:
            await self.put(self._start())
        if self._kind.web:
            data += web_trailers(trailers)
            data = b64encode(data) if self._kind.text else data
            await self.put({"type": "http.response.body", "body": data})
            return
        await self.put(
            {"type": "http.response.body", "body": data, "more_body": False},
            {"type": TRAILERS, "headers": trailers, "more_trailers": False},
        )

    async def _reject_without_trailers(self) -> None:
        headers = [*self._kind.head, *status_headers(GrpcStatus.UNIMPLEMENTED, _NO_TRAILERS)]
        await self.put(
            {"type": "http.response.start", "status": 200, "headers": headers},
            {"type": "http.response.body", "body": b""},
        )


def _only(frames: Unframer, body: bytes) -> bytes:
    """The one message in a body. Raises FrameError."""
    # Never all of them: a few compressed bytes can hold many large messages.
    found = frames.feed(body)
    message = next(found, None)
    if message is None:
        frames.end()
        raise FrameError("no message")
    if frames.holds_more:
        raise FrameError("more than one message")
    return message
