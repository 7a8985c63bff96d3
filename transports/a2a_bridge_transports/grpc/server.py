"""The server side: rows of dialects as methods over bytes, for any host. It has no sockets and no grpcio.

All errors are handled here and none by a host, which would answer UNKNOWN with a class name.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.memory import in_work
from a2a_bridge.bindings.offload import SMALL, encode, needs_worker, run_in_worker
from a2a_bridge.bindings.traffic import log_rejected, received_bytes, sent_bytes
from a2a_bridge.bindings.unknown_events import counts, leave_out
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import (
    EVENT_PARAMETER,
    NO_PARAMETERS,
    RESUME_PARAMETER,
    SIDE_CHANNEL,
    VERSION_PARAMETER,
    Call,
    CallContext,
    Origin,
    ResponseParameters,
)
from a2a_bridge.core.callers import Presented
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error, request_too_large
from a2a_bridge.core.resume import GAP, count_on, gap_of, resume_id
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects import GRPC, Dialect, Form, Row, newest_first
from a2a_bridge.dialects.known import detect_among, version_not_supported
from a2a_bridge.dialects.signed_extras import (
    open_request,
    open_side_channel,
    seal_response,
    seal_side_channel,
)
from a2a_bridge.pb._pool import method_classes
from a2a_bridge_transports._http.rows import read_request, write_response
from a2a_bridge_transports.grpc.wire import (
    Metadata,
    Pairs,
    address_of,
    parameters_of,
    reply_metadata,
    status_of,
)

log = logging.getLogger("a2a_bridge.grpc")

#: accepted variants of its version that one dialect remembers
_VARIANTS = 16
#: the text for calls that the end of the server ends
GOING_AWAY = "The server is shutting down"
#: the service name of every version; the package tells the version
_SERVICE = ".A2AService"


class Exchange(Protocol):
    """One call as its host passes it on. It is the part of grpc.aio.ServicerContext that is used here."""

    def invocation_metadata(self) -> Metadata:
        """The metadata of the request."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline; None without one."""

    def peer(self) -> str:
        """The address of the caller."""

    async def send_initial_metadata(self, metadata: Pairs) -> None:
        """Sends metadata before the first message."""

    def set_trailing_metadata(self, metadata: Pairs) -> None:
        """Keeps metadata for the end of the call."""

    async def write(self, message: bytes) -> None:
        """Sends a message, and waits for the caller to read. Raises an exception of the host if the
        caller has left.
        """


class Rejection(NamedTuple):
    """The end of a call with an error."""

    #: a number of grpc.StatusCode
    status: int
    text: str
    trailers: tuple[tuple[str, str | bytes], ...] = ()


#: (request, call) → the response; None after a stream
Handler = Callable[[bytes, Exchange], Awaitable[bytes | Rejection | None]]
Answer = Callable[[bytes, Exchange, CallContext], Awaitable[bytes | None]]


class Method(NamedTuple):
    """Answers the calls of one path."""

    answer: Handler
    #: whether the response is a stream; the request never is
    streaming: bool
    #: rejects a call whose request is larger than the limit and was not read
    reject: Callable[[A2AError, Exchange], Rejection] | None = None
    #: False for a path that is rejected, whatever the request is
    known: bool = True


@dataclass(slots=True)
class Running:
    """The running calls of one host, so that draining can end them with a status instead of a reset."""

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    ended: bool = False

    def end(self) -> None:
        """Ends every call in progress with UNAVAILABLE."""
        self.ended = True
        for task in self.tasks:
            task.cancel()


class Handlers:
    """All rows of some dialects, found by full path; unknown operations of their services get an A2A error.
    If dialects share a package, the caller's declared version decides; without one, the newest. left: the
    exceptions of the host for a caller that has left. The host gets them back.
    """

    def __init__(
        self,
        service: Service,
        dialects: Sequence[Dialect],
        options: HostOptions,
        *,
        running: Running | None = None,
        left: tuple[type[Exception], ...] = (),
    ) -> None:
        #: the operations by full path, such as `/lf.a2a.v1.A2AService/SendMessage`
        self.methods: dict[str, Method] = {}
        self._prefixes: dict[str, Method] = {}
        #: answers calls to A2A services of other packages with VERSION_NOT_SUPPORTED
        self._other: Method | None = None
        running = running or Running()
        forms = [(one, form) for one in newest_first(dialects) if (form := one.form(GRPC)) is not None]
        offered = tuple(dialect for dialect, _ in forms)
        claims: dict[str, list[tuple[_Side, Row[str, bytes]]]] = {}
        for dialect, form in forms:
            side = _Side(service, dialect, form, offered, options, running, left)
            self._other = self._other or Method(side.other_version, streaming=True, known=False)
            for row in form.rows:
                claims.setdefault(row.address, []).append((side, row))
        for address, rows in claims.items():
            self.methods[address] = _method(rows)
            unknown = Method(rows[0][0].reject_unknown, streaming=True, known=False)
            self._prefixes.setdefault(address.rpartition("/")[0], unknown)

    @property
    def services(self) -> tuple[str, ...]:
        """The full names of the protobuf services served."""
        return tuple(prefix.removeprefix("/") for prefix in self._prefixes)

    def find_rejecting(self, path: str, *, others: bool = False) -> Method | None:
        """The method that rejects a path without an operation; None leaves the path to other handlers.

        others: also reject A2A services of other packages. A server that is not ours may serve these itself.
        """
        service = path.rpartition("/")[0]
        return self._prefixes.get(service) or (self._other if others and service.endswith(_SERVICE) else None)


def _note_rejected(request: str, context: Exchange, error: A2AError) -> None:
    declared = parameters_of(context.invocation_metadata()).get(VERSION_PARAMETER, "")
    log_rejected(request, address_of(context.peer()), declared, error, GRPC.name)


def _method(rows: Sequence[tuple[_Side, Row[str, bytes]]]) -> Method:
    """The method of an address of one dialect, or of several. Raises ValueError if they differ in kind."""
    streaming = {row.streaming for _, row in rows}
    if len(streaming) > 1:
        raise ValueError(f"{rows[0][1].address} is a stream in some versions only")
    guarded = {side.dialect: side.guard(row) for side, row in rows}
    answer = next(iter(guarded.values())) if len(guarded) == 1 else _choose(guarded, rows[0][0].offered)
    return Method(answer, streaming.pop(), rows[0][0].rejection)


def _choose(guarded: Mapping[Dialect, Handler], offered: Sequence[Dialect]) -> Handler:
    """A handler that calls the one of the declared version; the newest one if that is not among them."""
    dialects = tuple(guarded)

    async def choose(wire: bytes, context: Exchange) -> bytes | Rejection | None:
        declared = parameters_of(context.invocation_metadata()).get(VERSION_PARAMETER)
        try:
            dialect = detect_among(declared, dialects, offered, _service_of)
        except A2AError:
            dialect = dialects[0]  # it rejects the call in its own format
        return await guarded[dialect](wire, context)

    return choose


def _service_of(dialect: Dialect) -> str:
    """The path of the service of a version that is served."""
    form = dialect.form(GRPC)
    assert form is not None  # noqa: S101 - for the type checker
    return f"{form.rows[0].address.rpartition('/')[0]}/"


@dataclass(slots=True, eq=False)
class _Side:
    """One dialect at one service. Makes a handler for each row."""

    service: Service
    dialect: Dialect
    form: Form[str, bytes]
    offered: tuple[Dialect, ...]
    options: HostOptions
    running: Running
    left: tuple[type[Exception], ...]
    variants: set[str | None] = field(default_factory=set)

    def guard(self, row: Row[str, bytes]) -> Handler:
        """A handler of a row's calls that handles all errors."""
        answer = self._answer(row) if row.extras.variant is None else self._by_variant(row)
        return self._guard(answer, row)

    def _answer(self, row: Row[str, bytes]) -> Answer:
        return self._stream(row) if row.streaming else self._unary(row)

    def _by_variant(self, row: Row[str, bytes]) -> Answer:
        """Answers each call in its own variant."""
        variant = row.extras.variant

        async def handle(wire: bytes, context: Exchange, call_context: CallContext) -> bytes | None:
            found = row if variant is None else variant(wire, call_context.parameters)
            return await self._answer(found)(wire, context, call_context)

        return handle

    def _unary(self, row: Row[str, bytes]) -> Answer:
        operation, answer = row.operation, self.service.unary
        finish = partial(seal_response, method=row.address)

        async def handle(wire: bytes, context: Exchange, call_context: CallContext) -> bytes:
            request = await self._request(row, wire, context, call_context)
            response = await answer(Call(operation, request, call_context))
            reply = call_context.reply
            data = encode(write_response, row, reply, response, finish, large=reply.large)
            if not isinstance(data, bytes):
                data = await data
            sent_bytes[GRPC.name] += len(data)
            if reply or reply.side_channel:
                await context.send_initial_metadata(self._metadata(context, reply, request))
            return data

        return handle

    async def _request(
        self, row: Row[str, bytes], wire: bytes, exchange: Exchange, context: CallContext
    ) -> Any:
        """The request in the bytes of a call; content beside its message goes into the context."""
        try:
            if len(wire) > SMALL and await needs_worker(
                wire, self.options.max_values, method_classes(row.address)[0]
            ):
                context.large = True
                request, extracted = await run_in_worker(_read, row, wire)
            else:
                request, extracted = read_request(row, open_request(wire, row.address))
        except A2AError as error:
            _note_rejected(row.address, exchange, error)
            raise
        context.tenant = request.tenant
        received = context.parameters.get(SIDE_CHANNEL) if context.parameters else None
        if received is not None or extracted:
            parameters = {**context.parameters, **(extracted or {})}
            own = parameters.pop(SIDE_CHANNEL, "") if extracted and SIDE_CHANNEL in extracted else ""
            parameters.pop(SIDE_CHANNEL, None)
            context.side_channel = own or (open_side_channel(received, request) if received else "")
            context.parameters = parameters
        return request

    def _stream(self, row: Row[str, bytes]) -> Answer:
        operation, answer, write_event = row.operation, self.service.stream, partial(_event, row)

        # Writes by itself, instead of being an async generator that the host iterates: when the host cancels
        # the call, the cancellation then arrives inside this frame and closes `events` at once.
        async def handle(wire: bytes, context: Exchange, call_context: CallContext) -> None:
            request = await self._request(row, wire, context, call_context)
            if operation is ops.SUBSCRIBE_TO_TASK:
                resume_id(call_context)
            write = context.write
            started = False
            check: _IdCheck | None = None
            async with aclosing(answer(Call(operation, request, call_context))) as events:
                async for event in events:
                    data = encode(write_event, event.message)
                    if not isinstance(data, bytes):
                        data = await data
                    if not data and not counts(call_context, event):
                        leave_out(event.message)
                        continue
                    if not started:
                        started = True
                        reply = _first_metadata(call_context.reply, event)
                        if reply:
                            await context.send_initial_metadata(self._metadata(context, reply))
                        if counts(call_context, event):
                            check = _IdCheck(event.id)
                    elif check is not None:
                        check(event)
                    sent_bytes[GRPC.name] += len(data)
                    # Waits until the transport accepts the data (back-pressure), and yields to other tasks.
                    await write(data)
            if call_context.reply and not started:
                # Clients of grpcio drop headers that come after the end of an empty stream.
                metadata = self._metadata(context, call_context.reply)
                context.set_trailing_metadata(metadata)
                await context.send_initial_metadata(metadata)

        return handle

    async def reject_unknown(self, _wire: bytes, context: Exchange) -> Rejection:
        """Answers an operation that this version's service does not have."""
        return self._reject(A2AError(Reason.METHOD_NOT_FOUND), context)

    async def other_version(self, _wire: bytes, context: Exchange) -> Rejection:
        """Answers a call to the A2A service of a package, and so of a version, that is not served here."""
        text = "this version of the A2A service is not served here"
        return self._reject(version_not_supported(text, self.offered), context)

    def _reject(self, error: A2AError, context: Exchange) -> Rejection:
        """Rejects a call of this package with `error`, or with the error of a version that contradicts it."""
        try:
            self.accept(0, context)
        except A2AError as other:
            error = other
        _note_rejected("an unknown method", context, error)
        return self.rejection(error, context)

    def accept(self, size: int, context: Exchange) -> CallContext:
        """The context of a new call. Raises REQUEST_TOO_LARGE and VERSION_NOT_SUPPORTED, in this order."""
        if size > self.options.max_body:
            raise request_too_large(self.options.max_body)
        parameters = parameters_of(context.invocation_metadata())
        declared = parameters.get(VERSION_PARAMETER)
        if declared not in self.variants:
            detect_among(declared, (self.dialect,), self.offered, _service_of)
            if len(self.variants) < _VARIANTS:
                self.variants.add(declared)
        if not self.dialect.declares:
            parameters.pop(SIDE_CHANNEL, None)  # for use between bridges only; here the row sets it
        remaining = context.time_remaining()
        return CallContext(
            parameters=parameters,
            deadline=None if remaining is None else time.monotonic() + remaining,
            origin=Origin(GRPC.name, self.dialect.version, context.peer(), getattr(context, "base_url", "")),
        )

    def _guard(self, answer: Answer, row: Row[str, bytes]) -> Handler:
        """`answer` inside the error boundary: all its exceptions become a status with details."""
        running, tasks = self.running, self.running.tasks
        authenticate, permit = self.options.authenticate, self.options.permit

        async def guard(wire: bytes, context: Exchange) -> bytes | Rejection | None:
            reply: Mapping[str, str] = NO_PARAMETERS
            task = cast("asyncio.Task[Any]", asyncio.current_task())  # every gRPC handler runs in one
            tasks.add(task)
            received_bytes[GRPC.name] += len(wire)
            if len(wire) > SMALL:
                in_work.add(len(wire))
            accepted = False
            try:
                call_context = self.accept(len(wire), context)
                reply = call_context.reply
                if authenticate is not None:
                    certificate = partial(_certificate_of, context)
                    presented = Presented(call_context.parameters, address_of(context.peer()), certificate)
                    call_context.principal = await authenticate(presented)
                if permit is not None:
                    permit(row.operation.name, call_context.principal)
                accepted = True
                return await answer(wire, context, call_context)
            except A2AError as raised:
                error = row.encode_names(raised)
                if not accepted:
                    _note_rejected(row.address, context, error)
            except asyncio.CancelledError:
                if running.ended:
                    error = A2AError(Reason.UNAVAILABLE, GOING_AWAY, blame=Blame.SELF)
                elif task.cancelling():
                    raise  # the caller left, or its deadline passed
                else:
                    log.exception("a service raised CancelledError although nobody cancelled it")
                    error, reply = internal_error(), NO_PARAMETERS
            except self.left:
                raise
            except (Exception, SystemExit, KeyboardInterrupt):  # the last two would end the event loop
                if getattr(context, "left", False):
                    raise  # a writer learned that the caller has left
                log.exception("a call failed unexpectedly")
                error, reply = internal_error(), NO_PARAMETERS
            finally:
                tasks.discard(task)
                if len(wire) > SMALL:
                    in_work.add(-len(wire))
            return self.rejection(error, context, reply)

        return guard

    def _metadata(self, context: Exchange, reply: Mapping[str, str], about: Any = None) -> Pairs:
        """Response parameters, named as in this version. about: a unary call's request. Raises ValueError."""
        if (
            about is not None
            and isinstance(reply, ResponseParameters)
            and reply.side_channel
            and self.dialect.declares
        ):
            reply = {**reply, SIDE_CHANNEL: seal_side_channel(reply.side_channel, about)}
        return reply_metadata(reply, context.invocation_metadata(), self.dialect)

    def rejection(
        self, error: A2AError, context: Exchange, reply: Mapping[str, str] = NO_PARAMETERS
    ) -> Rejection:
        """The end of a call with an error, in the format of this version. reply: response parameters."""
        trailers: tuple[tuple[str, str | bytes], ...]
        declared = parameters_of(context.invocation_metadata()).get(VERSION_PARAMETER, "")
        encode = self.form.encoder(declared=bool(declared.strip()))
        try:
            status, text, trailers = status_of(error, encode)
            # In the trailers, because the initial metadata may already be sent.
            trailers += self._metadata(context, reply) if reply else ()
        except Exception:
            log.exception("an error could not be encoded")
            status, text, trailers = status_of(internal_error(), encode)
        return Rejection(status, text, trailers)


def _read(row: Row[str, bytes], wire: bytes) -> tuple[Any, Mapping[str, str] | None]:
    return read_request(row, open_request(wire, row.address))


def _event(row: Row[str, bytes], event: Any) -> bytes:
    return seal_response(row.encode_response(event), row.address)


def _first_metadata(reply: dict[str, str], event: Event) -> dict[str, str]:
    """A stream's response parameters: of the service, the id of the first event, whether it is a gap."""
    if not event.id and not event.gap:
        return reply
    parameters = dict(reply)
    if event.id:
        parameters[EVENT_PARAMETER] = event.id
    if event.gap:
        parameters[RESUME_PARAMETER] = GAP
    return parameters


class _IdCheck:
    """Checks the ids of a stream after the first one. Only the first id is sent and the caller counts on from
    it, so a stream whose ids are not consecutive has to break.
    """

    __slots__ = ("_expected",)

    def __init__(self, first: str) -> None:
        self._expected = count_on(first)
        next(self._expected, None)

    def __call__(self, event: Event) -> None:
        """Raises UNAVAILABLE if the id is neither the next one nor the one in a mark of the event."""
        if event.id == next(self._expected, event.id):
            return
        mark = gap_of(event.message)
        if mark is None or not event.id or mark.id != event.id:
            text = "the numbering of the events was interrupted; subscribe again to go on"
            raise A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=0.0)
        self._expected = count_on(event.id)
        next(self._expected, None)


def _certificate_of(context: Any) -> bytes | None:
    """The client certificate of a call (DER), from an ASGI server or from grpc.aio."""
    found = getattr(context, "certificate", None)
    if found is not None:
        return cast("bytes | None", found())
    pem = context.auth_context().get("x509_pem_cert")
    return ssl.PEM_cert_to_DER_cert(pem[0].decode("ascii")) if pem else None
