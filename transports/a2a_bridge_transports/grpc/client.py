"""The client side: a grpc.aio channel as a Service. It does not retry or choose interfaces."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import grpc
import grpc.aio

from a2a_bridge.bindings.binding import DialOptions, mark_unconnected, unconnected_error
from a2a_bridge.bindings.bounded import unsent
from a2a_bridge.bindings.offload import SMALL, run
from a2a_bridge.bindings.places import place_of
from a2a_bridge.bindings.probing import within
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import (
    EXTENSIONS_PARAMETER,
    LAST_EVENT_PARAMETER,
    SIDE_CHANNEL,
    VERSION_PARAMETER,
    Call,
    CallContext,
    take_side_channel,
    with_side_channel,
)
from a2a_bridge.core.errors import A2AError, Blame, GrpcStatus, Reason
from a2a_bridge.core.operations import Operation, Req, Res
from a2a_bridge.core.resume import count_on, gap_of, resume_id
from a2a_bridge.core.service import Event, Events, HandedOver, Service, open_stream
from a2a_bridge.dialects import GRPC, Dialect, Form, Row
from a2a_bridge.dialects.boundary import UnknownEventError
from a2a_bridge.dialects.signed_extras import open_response, seal_request, seal_side_channel
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb._pool import method_classes
from a2a_bridge_transports._http.proxy import grpc_proxy
from a2a_bridge_transports._http.rows import (
    add_tenant,
    partly,
    read_large,
    remaining_time,
    take_parameters,
    without,
)
from a2a_bridge_transports.grpc.channel import Keepalive, arguments_of, credentials_of, observe_frames
from a2a_bridge_transports.grpc.redialling import Redialled
from a2a_bridge_transports.grpc.stream_limit import StreamLimit, tls_of
from a2a_bridge_transports.grpc.wire import (
    Pairs,
    begins_with_gap,
    broken_error,
    closed_error,
    describe_unconnected,
    error_reply,
    first_event,
    metadata_of,
    reply_parameters,
    says_unconnected,
    target_of,
    too_large,
)

log = logging.getLogger("a2a_bridge.grpc")

_STATE = grpc.ChannelConnectivity
_CONNECTING = frozenset({_STATE.IDLE, _STATE.CONNECTING})
#: a channel that loses its connection is idle
_UNCONNECTED = frozenset({_STATE.CONNECTING, _STATE.TRANSIENT_FAILURE})


def dial(
    interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
) -> AbstractAsyncContextManager[Service]:
    """A separate channel, made on entering and connected by the first call. Raises ValueError for a URL,
    parameter or credentials that gRPC cannot use, LookupError if the version has no gRPC form.
    """
    form = dialect.form(GRPC, files=options.files)
    if form is None:
        raise LookupError(f"version {dialect.version} has no gRPC form")
    target = target_of(interface.url)
    secure = target.secure if options.grpc_tls is None else options.grpc_tls
    credentials = credentials_of(options.tls, secure)
    constant = metadata_of(_constant(dialect, options.parameters))
    place = target.name.rpartition("/")[2].rpartition(":")[::2]
    arguments = arguments_of(options, place[0])
    checked = None if options.resolve is None else target.place
    if checked is not None:
        arguments += [("grpc.default_authority", str(checked)), ("grpc.enable_http_proxy", 0)]
        if credentials is not None:
            arguments.append(("grpc.ssl_target_name_override", checked.host))
    elif options.resolve is not None:
        raise ValueError(f"{interface.url[:200]!r} has no single host and port, whose addresses are checked")

    def limit_of(name: str) -> StreamLimit:
        at = target.place if checked is None else place_of(name.partition(",")[0])
        try:
            tls = tls_of(options, secure=credentials is not None)
        except TypeError:
            at, tls = None, None
        if checked is None and grpc_proxy(*place):
            at = None  # the proxy knows the way
        return StreamLimit(at, target.place.host if target.place is not None else "", tls)

    def made(name: str, limit: StreamLimit | None = None) -> _Client:
        if credentials is None:
            channel = grpc.aio.insecure_channel(name, options=arguments)
        else:
            channel = grpc.aio.secure_channel(name, credentials, options=arguments)
        proxy = "" if checked is not None else grpc_proxy(*place)
        leads_to = _Place(target.name, proxy, secure=credentials is not None)
        another = None
        if limit is None:
            limit = limit_of(name)
            another = partial(made, name, limit)
        return _Client(channel, leads_to, dialect, form, interface.tenant, constant, options, limit, another)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Service]:
        client: _Client | Redialled
        if checked is None or options.resolve is None:
            client = made(target.name)
        else:
            client = Redialled(options.resolve, checked.host, checked.port, made)
        try:
            yield client
        finally:
            await client.close()

    return opened()


@dataclass(frozen=True, slots=True)
class _Place:
    """What a channel leads to, for messages."""

    target: str
    #: from the environment; empty if there is none
    proxy: str
    secure: bool


#: seconds after its last call until a further connection is closed
IDLE = 60.0


class _Client:
    """`Service` over one channel, and over further ones while it has as many calls as a connection may have.
    limit: of the server, which they share. another: makes a further one; None for a further one itself.
    """

    def __init__(
        self,
        channel: Any,
        place: _Place,
        dialect: Dialect,
        form: Form[str, bytes],
        tenant: str,
        constant: Pairs,
        options: DialOptions,
        limit: StreamLimit,
        another: Callable[[], _Client] | None,
    ) -> None:
        self._limit = limit
        self._another = another
        self._further: list[_Client] = []
        #: looks whether a further connection without calls is still idle; closes it
        self._looks: dict[_Client, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        #: called when the last call has ended
        self.on_idle: Callable[[], None] | None = None
        self._last_used = 0.0
        self._channel = channel
        self._place = place
        self._dialect = dialect
        self._form = form
        self._tenant = tenant
        self._constant = constant
        #: the same, for the calls without further metadata
        self._unchanged = grpc.aio.Metadata(*constant)
        self._options = options
        own = {name for name, _ in constant} - {EXTENSIONS_PARAMETER}
        if not dialect.declares:
            own.add(SIDE_CHANNEL)  # peers of this version do not know it
        #: the caller's parameters that are forwarded
        self._forward = tuple(
            name for name in dict.fromkeys((*options.forward, EXTENSIONS_PARAMETER)) if name not in own
        )
        #: whether calls wait for the connection before they start: its time is not the time of the agent
        self._awaits_connection = options.connect_patience is not None or options.silence_timeout > 0
        self._closed = False
        #: calls and streams that have not ended, and who waits for their end
        self._running = 0
        self._idle: asyncio.Event | None = None
        #: the rows, each with the multicallable of its path
        self._methods: dict[Operation[Any, Any], tuple[Row[str, bytes], Callable[..., Any]]] = {}
        for row in form.rows:
            style = channel.unary_stream if row.streaming else channel.unary_unary
            start = style(row.address)
            if options.frame_observer is not None:
                start = observe_frames(start, row, options.frame_observer)
            self._methods[row.operation] = row, start
        self._keepalive = Keepalive(channel, options.idle_timeout, self._takes_one)

    async def close(self) -> None:
        """Ends running calls and closes the connection."""
        self._closed = True
        for look in self._looks.values():
            look.cancel()
        for one in self._further:
            await one.close()
        if self._another is not None:
            await self._limit.close()
        await asyncio.gather(*self._closing)
        await self._keepalive.close()
        await self._channel.close()

    async def finish(self) -> None:
        """Closes the connection when the running calls have ended. There must be no further ones."""
        for one in tuple(self._further):
            await one.finish()
        if self._running:
            self._idle = asyncio.Event()
            await self._idle.wait()
        await self.close()

    @property
    def has_room(self) -> bool:
        """Whether this connection takes another call."""
        return self._running < self._limit.calls

    def _with_room(self) -> _Client:
        """The first connection with room for a call. Raises RESOURCE_EXHAUSTED if there is none."""
        for one in self._further:
            if one.has_room:
                return one
        most = self._options.max_upstream_connections
        if self._closed:
            raise closed_error()
        if self._another is None or len(self._further) + 1 >= most:
            text = (
                f"the {most} connections to {self._place.target} have {self._limit.calls} calls each"
                " (--max-upstream-connections)"
            )
            raise A2AError(Reason.RESOURCE_EXHAUSTED, text, blame=Blame.SELF, retry_after=1.0)
        one = self._another()
        one.on_idle = partial(self._look_later, one)
        self._further.append(one)
        return one

    async def _takes_one(self) -> bool:
        """Whether a connection takes a single call, so that there is no place for a probe."""
        await self._limit.learn()
        return self._limit.single

    def _end_call(self) -> None:
        """Counts the end of a call."""
        self._running -= 1
        if self._running:
            return
        if self._idle is not None:
            self._idle.set()
        if self.on_idle is not None:
            self._last_used = time.monotonic()
            self.on_idle()

    def _look_later(self, one: _Client, seconds: float | None = None) -> None:
        """Closes a further connection if it has no call until then. seconds: None for `IDLE`."""
        if not self._closed and one not in self._looks:
            pause = IDLE if seconds is None else seconds
            self._looks[one] = asyncio.get_running_loop().call_later(pause, self._close_idle, one)

    def _close_idle(self, one: _Client) -> None:
        del self._looks[one]
        left = one._last_used + IDLE - time.monotonic()
        if one._running:
            return  # it looks again at the end of its calls
        if left > 0:
            self._look_later(one, left)
            return
        self._further.remove(one)
        closing = asyncio.create_task(one.close(), name="close an idle connection")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def unary(self, call: Call[Req, Res], /) -> Res:
        if self._running:
            if not self._limit.known:
                with unsent():
                    await self._limit.learn()
            if self._running >= self._limit.calls:
                return await self._with_room().unary(call)
        self._running += 1
        rpc: Any = None
        try:
            rpc, row = await self._start(call, self._options.timeout)
            answer = await rpc
            received = await rpc.initial_metadata()
        except grpc.aio.AioRpcError as error:
            raise self._error_of(error, call) from None
        except asyncio.CancelledError as error:
            if self._is_connecting():
                mark_unconnected(error)
            _pass_cancellation()
            raise self._cut_off(error, rpc) from None
        finally:
            del rpc  # see `_error_of`
            self._end_call()
        if received and (found := reply_parameters(received, self._dialect)):
            take_parameters(call, found, log)
        if answer is None:  # the status is OK, and there is no whole message before it
            raise A2AError(
                Reason.INVALID_AGENT_RESPONSE, "the agent's answer is no message", blame=Blame.PEER
            )
        small = len(answer) <= SMALL
        message: Res = _read(row, call, answer) if small else await self._large(row, call, answer)
        return message

    def stream(self, call: Call[Req, Res], /) -> Events:
        # A stream counts from its first read on, and others may be made before that.
        return HandedOver(partial(self._open_stream, call))

    async def _open_stream(self, call: Call[Any, Any]) -> tuple[Event, Events] | None:
        if self._running and not self._limit.known:
            with unsent():
                await self._limit.learn()
        one = self if self._running < self._limit.calls else self._with_room()
        return await open_stream(one.open_events(call))

    async def open_events(self, call: Call[Any, Any]) -> Events:
        """The events of a stream over this connection."""
        keepalive, eof = self._keepalive, grpc.aio.EOF
        self._running += 1
        rpc: Any = None
        read: Any = None
        try:
            rpc, row = await self._start(call, None)
            decode, read = row.decode_response, rpc.read
            keepalive.watch(rpc)
            answer = await read()
            received = await rpc.initial_metadata()
            if answer is eof and not received:
                received = (
                    await rpc.trailing_metadata()
                )  # the end may arrive before the headers of an empty stream
            ids: Iterator[str] | None = None
            gap = False
            if received:
                take_parameters(call, reply_parameters(received, self._dialect), log)
                gap = begins_with_gap(received)
                if first := first_event(received):
                    ids = chain((first,), islice(count_on(first), 1, None))
            while answer is not eof:
                keepalive.last_received = time.monotonic()
                try:
                    if len(answer) <= SMALL:
                        message = decode(open_response(answer, row.address))
                    else:
                        message = await self._large(row, call, answer)
                except UnknownEventError as error:
                    message = error.event
                id_ = next(ids, "") if ids is not None else ""
                if message.HasField("task") and (mark := gap_of(message)) is not None:
                    gap = True
                    if ids is not None and mark.id and mark.id != id_:
                        # The snapshot replaces lost events: the ids continue from its own.
                        id_ = mark.id
                        ids = islice(count_on(id_), 1, None)
                yield Event(message, id_, gap)
                gap = False
                answer = await read()
        except grpc.aio.AioRpcError as error:
            raise self._error_of(error, call) from None
        except asyncio.CancelledError as error:
            if self._is_connecting():
                mark_unconnected(error)
            _pass_cancellation()
            raise self._cut_off(error, rpc) from None
        finally:
            if rpc is not None:
                keepalive.leave(rpc)
                rpc.cancel()
            del rpc, read  # see `_error_of`
            self._end_call()

    async def _large(self, row: Row[str, bytes], call: Call[Any, Any], answer: bytes) -> Any:
        """The message of a response that may take long to parse."""
        cls = method_classes(row.address)[1]
        most, reply = self._options.max_values, call.context.reply
        return await read_large(answer, most, reply, _read, row, call, answer, cls=cls)

    async def _start(self, call: Call[Any, Any], limit: float | None) -> tuple[Any, Row[str, bytes]]:
        method = self._methods.get(call.operation)
        if method is None:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, metadata={"operation": call.operation.name})
        if self._closed:
            raise closed_error()
        request = add_tenant(call.request, self._tenant) if self._tenant else call.request
        row, start = method
        if row.extras.for_agent is not None:
            row = row.extras.for_agent(call.context)
        wire = await run(_write, row, request, call.context, large=call.context.large)
        pairs = self._metadata(call)
        if row.extras.parameters is not None:
            pairs = (*pairs, *row.extras.parameters.items())
        if call.operation is ops.SUBSCRIBE_TO_TASK and (after := resume_id(call.context)):
            pairs = (*pairs, (LAST_EVENT_PARAMETER, after))
        # grpcio converts pairs in any other form, which takes longer.
        metadata = self._unchanged if pairs is self._constant else grpc.aio.Metadata(*pairs)
        timeout = limit if call.context.deadline is None else remaining_time(call.context, limit)
        if self._awaits_connection and not self._is_connected():
            await self._wait_connected(timeout)
            timeout = remaining_time(call.context, limit)
        return start(wire, timeout=timeout, metadata=metadata), row

    def _metadata(self, call: Call[Any, Any]) -> Pairs:
        parameters = call.context.parameters
        side_channel = call.context.side_channel if self._dialect.declares else ""
        wanted = {name: value for name in self._forward if (value := parameters.get(name))}
        if side_channel:
            wanted[SIDE_CHANNEL] = seal_side_channel(side_channel, call.request)
        if not wanted:
            return self._constant
        if (declared := wanted.get(EXTENSIONS_PARAMETER)) is not None:
            wanted.update(dict.fromkeys(self._dialect.extensions, declared))
        try:
            return self._constant + metadata_of(wanted)
        except ValueError as error:
            raise A2AError(Reason.INVALID_PARAMS, str(error)) from None

    def _error_of(self, error: Any, call: Call[Any, Any]) -> A2AError:
        """The error of a status; `reply` gets the parameters with it. gRPC keeps the connection of a closed
        channel open as long as a call of it is referenced, and the traceback of an error references the
        variables of its functions. So neither has the call.
        """
        error.__traceback__ = None
        for metadata in (error.initial_metadata(), error.trailing_metadata()):
            take_parameters(call, reply_parameters(metadata, self._dialect), log)
        number: int = error.code().value[0]
        reply = error_reply(number, error.details(), error.trailing_metadata(), call.operation)
        # A call without a connection has not been sent, and a status of a peer leaves the channel connected:
        # only both signs together prove that the agent has not seen the call.
        if number == GrpcStatus.UNAVAILABLE and says_unconnected(reply) and not self._is_connected():
            words = describe_unconnected(reply, self._place.target, secure=self._place.secure)
            if self._place.proxy:
                words += f" (through the proxy {self._place.proxy}, which the environment names)"
            return A2AError(Reason.UNAVAILABLE, words, metadata={"phase": "connect"}, blame=Blame.PEER)
        if number == GrpcStatus.DEADLINE_EXCEEDED and self._is_connecting():
            return unconnected_error(reason=Reason.DEADLINE_EXCEEDED)
        row, _ = self._methods[call.operation]
        return too_large(reply) or broken_error(reply) or row.decode_names(self._form.decode_error(reply))

    async def _wait_connected(self, limit: float | None) -> None:
        """Waits until the channel has a connection or fails. limit: seconds that the call may take. Raises
        UNAVAILABLE or DEADLINE_EXCEEDED (phase=connect).
        """
        patience = self._options.connect_patience
        if patience is not None and limit is not None:
            patience = min(patience, limit / 4)
        try:
            with unsent():
                if patience is None:
                    async with asyncio.timeout(limit):
                        await self._connected()
                else:
                    # Time in which this process was busy is not the agent's.
                    await within(patience, self._connected())
        except TimeoutError:
            if patience is None:
                raise unconnected_error(reason=Reason.DEADLINE_EXCEEDED) from None
            raise unconnected_error(f"none to {self._place.target} within {patience:g} s") from None

    async def _connected(self) -> None:
        while (state := self._channel.get_state(try_to_connect=True)) in _CONNECTING:
            await self._channel.wait_for_state_change(state)

    def _is_connecting(self) -> bool:
        """Whether a connection is being made, so that a call that has ended was not sent."""
        return self._channel.get_state() in _UNCONNECTED

    def _is_connected(self) -> bool:
        return bool(self._channel.get_state() is grpc.ChannelConnectivity.READY)

    def _cut_off(self, error: BaseException, rpc: Any) -> A2AError:
        """The reason why this side ended a call although its waiting task was not cancelled."""
        error.__traceback__ = None  # see `_error_of`
        if rpc in self._keepalive.lost:
            text = f"no sign of life from the agent for {self._options.idle_timeout:g} s"
            return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER)
        return A2AError(Reason.UNAVAILABLE, "the client was closed", blame=Blame.SELF)


def _write(row: Row[str, bytes], request: Any, context: CallContext) -> bytes:
    wire = row.encode_request(request)
    if row.extras.request is not None and (
        given := with_side_channel(context.parameters, context.side_channel)
    ):
        wire = row.extras.request.restore(wire, given)
    return seal_request(wire, row.address)


def _read(row: Row[str, bytes], call: Call[Any, Any], answer: bytes) -> Any:
    answer = open_response(answer, row.address)
    if row.extras.response is not None:
        take_side_channel(call.context.reply, row.extras.response.extract(answer))
    try:
        return row.decode_response(answer)
    except A2AError as error:
        listed = partly(row, answer, error)
        if listed is None:
            raise
        return without(listed, error, call.context.reply)


def _constant(dialect: Dialect, parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of each call: of the options, and the version if callers of this version declare it."""
    own = {name: value for name, value in parameters.items() if name.lower() != VERSION_PARAMETER}
    if dialect.declares:
        own[VERSION_PARAMETER] = dialect.version
    declared = own.get(EXTENSIONS_PARAMETER)
    if declared:
        own.update(dict.fromkeys(dialect.extensions, declared))
    return own


def _pass_cancellation() -> None:
    """Re-raises the current CancelledError if it is meant for this task: grpcio raises the same for a call
    that was cancelled elsewhere.
    """
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise  # noqa: PLE0704  called from an except clause
