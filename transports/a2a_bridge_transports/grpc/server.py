"""The server side: rows of dialects as raw-bytes handlers of a grpc.aio server. It opens no socket.

Every decision about an error is taken here and none by grpcio, which would answer UNKNOWN with a class name.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from a2a_bridge.core.call import NO_PARAMETERS, VERSION_PARAMETER, Call, CallContext, Origin
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error, request_too_large
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import GRPC, Dialect, Form, Row
from a2a_bridge.dialects.detect import detect, version_not_supported
from a2a_bridge_transports.grpc.wire import metadata_of, parameters_of, status_of

log = logging.getLogger("a2a_bridge.grpc")

_STATUS = {int(code.value[0]): code for code in grpc.StatusCode}
#: how many spellings of the version one dialect remembers as good
_SPELLINGS = 16
#: every version's service is called this; its package tells the version
_SERVICE = ".A2AService"

Handler = Callable[[bytes, Any], Awaitable[Any]]
Answer = Callable[[bytes, Any, CallContext], Awaitable[Any]]


@dataclass(slots=True)
class Running:
    """The calls in progress of one host, so that draining can end them with a word instead of a reset."""

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    ended: bool = False

    def end(self) -> None:
        """Ends every call in progress with UNAVAILABLE."""
        self.ended = True
        for task in self.tasks:
            task.cancel()


class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio is untyped
    """All rows of some dialects, found by full path; unknown operations of their services get an A2A error."""

    def __init__(
        self,
        service: Service,
        dialects: Sequence[Dialect],
        *,
        max_body: int,
        running: Running | None = None,
    ) -> None:
        self._known: dict[str, Any] = {}
        self._prefixes: dict[str, Any] = {}
        self._side: _Side | None = None
        self._other: Any = None
        offered = tuple(dialects)
        for dialect in offered:
            form = dialect.form(GRPC)
            if form is None:
                continue
            side = _Side(service, dialect, form, offered, max_body, running or Running())
            for row in form.rows:
                if row.address in self._known:
                    raise ValueError(f"two dialects with the address {row.address}")
                self._known[row.address] = side.handler(row)
                self._prefixes[row.address.rpartition("/")[0]] = grpc.stream_stream_rpc_method_handler(
                    side.unknown
                )
            self._side = self._side or side

    @property
    def addresses(self) -> frozenset[str]:
        """The full paths served, such as `/lf.a2a.v1.A2AService/SendMessage`."""
        return frozenset(self._known)

    @property
    def services(self) -> tuple[str, ...]:
        """The full names of the protobuf services served."""
        return tuple(prefix.removeprefix("/") for prefix in self._prefixes)

    def refuse_others(self) -> None:
        """Answers calls to A2A services of other packages with VERSION_NOT_SUPPORTED.

        For the last handlers of a server that is ours: elsewhere somebody else may serve those packages.
        """
        if self._side is not None:
            self._other = grpc.stream_stream_rpc_method_handler(self._side.other_version)

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a path; None leaves the path to other handlers, and to grpcio in the end."""
        method: str = handler_call_details.method
        found = self._known.get(method)
        if found is not None:
            return found
        service = method.rpartition("/")[0]
        return self._prefixes.get(service) or (self._other if service.endswith(_SERVICE) else None)


@dataclass(slots=True, eq=False)
class _Side:
    """One dialect at one service. Makes a handler for each row."""

    service: Service
    dialect: Dialect
    form: Form[str, bytes]
    offered: tuple[Dialect, ...]
    max_body: int
    running: Running
    spellings: set[str | None] = field(default_factory=set)

    def handler(self, row: Row[str, bytes]) -> Any:
        if row.streaming:
            return grpc.unary_stream_rpc_method_handler(self._guarded(self._stream(row)))
        return grpc.unary_unary_rpc_method_handler(self._guarded(self._unary(row)))

    def _unary(self, row: Row[str, bytes]) -> Answer:
        operation, decode, encode = row.operation, row.decode_request, row.encode_response
        answer = self.service.unary

        async def handle(wire: bytes, context: Any, call_context: CallContext) -> bytes:
            request = decode(wire)
            call_context.tenant = request.tenant
            response = encode(await answer(Call(operation, request, call_context)))
            if call_context.reply:
                await context.send_initial_metadata(metadata_of(call_context.reply))
            return response

        return handle

    def _stream(self, row: Row[str, bytes]) -> Answer:
        operation, decode, encode = row.operation, row.decode_request, row.encode_response
        answer = self.service.stream

        # Writing from here, instead of being an async generator that grpcio iterates: when grpcio cancels the
        # call, the cancellation then arrives inside this frame and closes `events` at once.
        async def handle(wire: bytes, context: Any, call_context: CallContext) -> None:
            request = decode(wire)
            call_context.tenant = request.tenant
            reply, write = call_context.reply, context.write
            started = False
            async with aclosing(answer(Call(operation, request, call_context))) as events:
                async for event in events:
                    if not started:
                        started = True
                        if reply:
                            await context.send_initial_metadata(metadata_of(reply))
                    # Waits until the transport took it, which is the backpressure, and gives way to others.
                    await write(encode(event))
            if reply and not started:
                await context.send_initial_metadata(metadata_of(reply))

        return handle

    async def unknown(self, _requests: Any, context: Any) -> None:
        """Answers an operation that this version's service does not have."""

        async def handle(_wire: bytes, _context: Any, _call_context: CallContext) -> None:
            raise A2AError(Reason.METHOD_NOT_FOUND)

        await self._guarded(handle)(b"", context)

    async def other_version(self, _requests: Any, context: Any) -> None:
        """Answers a caller of the A2A service in a package, and so a version, that is not served here."""

        async def handle(_wire: bytes, _context: Any, _call_context: CallContext) -> None:
            raise version_not_supported("", self.offered)

        await self._guarded(handle)(b"", context)

    def accept(self, size: int, context: Any) -> CallContext:
        """The context of an arriving call. Raises REQUEST_TOO_LARGE and VERSION_NOT_SUPPORTED, in this order."""
        if size > self.max_body:
            raise request_too_large(self.max_body)
        parameters = parameters_of(context.invocation_metadata())
        declared = parameters.get(VERSION_PARAMETER)
        if declared not in self.spellings:
            detect(declared, self.offered, address=self.dialect)
            if len(self.spellings) < _SPELLINGS:
                self.spellings.add(declared)
        remaining = context.time_remaining()
        return CallContext(
            parameters=parameters,
            deadline=None if remaining is None else time.monotonic() + remaining,
            origin=Origin(GRPC.name, self.dialect.version, context.peer()),
        )

    def _guarded(self, answer: Answer) -> Handler:
        """`answer` inside the error boundary: whatever it raises becomes a status with details."""
        running, tasks = self.running, self.running.tasks

        async def guarded(wire: bytes, context: Any) -> Any:
            reply: Mapping[str, str] = NO_PARAMETERS
            task = _this_task()
            tasks.add(task)
            try:
                call_context = self.accept(len(wire), context)
                reply = call_context.reply
                return await answer(wire, context, call_context)
            except A2AError as raised:
                error = raised
            except asyncio.CancelledError:
                if running.ended:
                    error = _going_away()
                elif task.cancelling():
                    raise  # the caller left, or its deadline passed
                else:
                    log.exception("a service raised CancelledError although nobody cancelled it")
                    error, reply = internal_error(), NO_PARAMETERS
            except Exception:
                log.exception("a call failed unexpectedly")
                error, reply = internal_error(), NO_PARAMETERS
            finally:
                tasks.discard(task)
            await self._refuse(error, reply, context)
            return None

        return guarded

    async def _refuse(self, error: A2AError, reply: Mapping[str, str], context: Any) -> None:
        trailers: tuple[tuple[str, str | bytes], ...]
        try:
            status, text, trailers = status_of(error, self.form.encode_error)
            # In the trailers, because the initial metadata may be gone already.
            trailers += metadata_of(reply)
        except Exception:
            log.exception("an error could not be encoded")
            status, text, trailers = status_of(internal_error(), self.form.encode_error)
        await context.abort(_STATUS.get(status, grpc.StatusCode.UNKNOWN), text, trailers)


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a gRPC handler runs in a task")
    return task


def _going_away() -> A2AError:
    return A2AError(Reason.UNAVAILABLE, "The server is shutting down", blame=Blame.SELF)
