"""Calls to another replica: the client side and the server side. A replica is a Service.

Rules:
1. A call has an id, and its receiver executes it once: the caller repeats a request that got no response, and
   asks again while the receiver works. So a lost message costs time, and no request waits long on the bus.
2. The response to a stream is its first event; the caller reads the others from the log. Only where the
   stream ends is asked for, because that depends on the queue of the receiver.
3. Errors come back unchanged. A caller that leaves does not stop accepted work.
4. Every call has an end: the response, the death of the receiver as the database sees it, or UNAVAILABLE
   after a time without any response.
5. A call is for a replica under one name. Once the replica of that name was declared dead, the caller may
   execute the call itself. So the receiver does not: neither a late copy, nor under its new name a call that
   has begun.

The messages of calls are frames: a header, and a part of a document. A document is the context of a call as
JSON, and bytes of a row of 1.0.

Rules of frames:
1. A document larger than the bus allows travels in parts.
2. A replica that gets a frame of an unknown format answers that it knows nothing of it.
"""

import asyncio
import json
import logging
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple
from zlib import crc32

from a2a_bridge.cluster.bus import Bus, BusDownError, NobodyError
from a2a_bridge.core.call import Call, CallContext, Origin, Principal
from a2a_bridge.core.errors import (
    A2AError,
    Blame,
    ClosingError,
    NotOwnerError,
    OwnerLostError,
    Reason,
    internal_error,
)
from a2a_bridge.core.operations import Streaming
from a2a_bridge.core.resume import number_of
from a2a_bridge.core.service import Event, Service
from a2a_bridge.dialects import GRPC, V1_0
from a2a_bridge.dialects.dialect import ErrorReply, Form

_HEADER = struct.Struct("!BB16sIII")
#: of the format
_RELEASE = 1


class FrameKind(IntEnum):
    """The kind of a frame."""

    # requests
    CALL = 1
    WAIT = 2
    PASSED = 3
    LEAVE = 4
    READS = 5
    # responses
    MORE = 16
    WORKING = 17
    DONE = 18
    UNKNOWN = 19


class Frame(NamedTuple):
    """One message. number: an event number, for PASSED."""

    kind: FrameKind
    call: bytes
    part: int = 0
    parts: int = 1
    number: int = 0
    body: bytes = b""

    def encode(self) -> bytes:
        """The bytes of the message."""
        head = _HEADER.pack(_RELEASE, self.kind, self.call, self.part, self.parts, self.number)
        return head + self.body


#: bytes of a frame without its body
OVERHEAD = _HEADER.size
UNKNOWN = Frame(FrameKind.UNKNOWN, bytes(16))


def decode(data: bytes) -> Frame:
    """The frame of a message; UNKNOWN for another format."""
    if len(data) < OVERHEAD or data[0] != _RELEASE:
        return UNKNOWN
    _, kind, call, part, parts, number = _HEADER.unpack_from(data)
    try:
        return Frame(FrameKind(kind), call, part, parts, number, data[OVERHEAD:])
    except ValueError:
        return UNKNOWN


def form() -> Form[str, bytes]:
    """The rows that encode calls between replicas."""
    found: Form[str, bytes] = V1_0.forms[GRPC]
    return found


def document(head: Mapping[str, Any], body: bytes) -> bytes:
    """A header and a body."""
    # Claims may have any type; types unknown to JSON are sent as text.
    text = json.dumps(head, default=str, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "big") + text + body


def undocument(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the body of a document."""
    end = 4 + int.from_bytes(data[:4], "big")
    head: dict[str, Any] = json.loads(data[4:end])
    return head, data[end:]


def encode_context(context: CallContext, left: float | None) -> dict[str, Any]:
    """A context without its deadline. left: seconds until that."""
    principal, origin = context.principal, context.origin
    return {
        "tenant": context.tenant,
        "parameters": {name.lower(): value for name, value in context.parameters.items()},
        "principal": None if principal is None else [principal.name, dict(principal.claims)],
        "origin": [origin.binding, origin.version, origin.peer, origin.base_url],
        "aside": context.side_channel,
        "seconds": left,
    }


def decode_context(tree: Mapping[str, Any]) -> CallContext:
    """The context of a call of another replica. Its deadline is on the clock of this replica."""
    principal, seconds = tree["principal"], tree["seconds"]
    return CallContext(
        tenant=tree["tenant"],
        parameters=tree["parameters"],
        principal=None if principal is None else Principal(principal[0], principal[1]),
        deadline=None if seconds is None else asyncio.get_running_loop().time() + seconds,
        origin=Origin(*tree["origin"]),
        side_channel=tree["aside"],
    )


def encode_error(encoding: Form[str, bytes], error: A2AError) -> tuple[dict[str, Any], bytes]:
    """An error as a header and a google.rpc.Status."""
    reply = encoding.encode_error(error)
    return {
        "error": [reply.status, reply.text, error.message, error.code, error.blame.value]
    }, reply.body or b""


def decode_error(encoding: Form[str, bytes], head: Mapping[str, Any], body: bytes) -> A2AError:
    """The error unchanged. The Status has no place for its number and for who is to blame."""
    status, text, message, code, blame = head["error"]
    error = encoding.decode_error(ErrorReply(status, body, text))
    error.message, error.code, error.blame = message, code, Blame(blame)
    return error


log = logging.getLogger("a2a_bridge.hosting.cluster")

#: seconds after which the receiver says that it is still working, and which the caller waits longer
_WORKING, _SLACK = 5.0, 2.0
#: seconds between attempts: the first pause, doubled each time, and the longest
_SOON, _LATE = 0.02, 0.5
#: seconds that a call waits for a bus that does not work, before its receiver has it
_BUS_PATIENCE = 2.0
#: seconds for which the result of a call is kept, and bytes of all results: longer than its caller asks
_KEPT, _KEPT_BYTES = 30.0, 64 << 20
#: seconds for which the id of a call is known, and the number of ids, so that no late copy is executed
_KNOWN, _MOST = 600.0, 100_000
#: a multiplication by this number (2**64 divided by the golden ratio) spreads numbers over 64 bits
_MIX, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1
#: bytes of a call in parts
_LARGEST = 256 << 20


class ReplicaDirectory:
    """The replicas that this process knows to be alive. seconds: the silence after which one is given up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._alive: frozenset[str] = frozenset()
        self._seeds: dict[str, int] = {}
        self._looked = float("-inf")
        self._waiting: dict[str, dict[asyncio.Timeout, None]] = {}

    @property
    def alone(self) -> bool:
        """True if the last look found no other replica."""
        return len(self._alive) < 2

    def first(self, task_id: str) -> str:
        """Which replica takes over a task of a dead replica first; empty if none is known. When a replica
        comes or goes, that changes for few tasks of the others.
        """
        number = crc32(task_id.encode())
        return max(self._alive, key=lambda name: (number ^ self._seeds[name]) * _MIX & _MASK, default="")

    def update_members(self, alive: frozenset[str], began: float) -> None:
        """A look that began at this time found these replicas."""
        if alive != self._alive:
            self._seeds = {name: crc32(name.encode()) for name in alive}
        self._alive, self._looked = alive, began
        for name in [name for name in self._waiting if name not in alive]:
            for timer in self._waiting[name]:
                if not timer.expired():
                    timer.reschedule(0)

    def dead(self, name: str, since: float) -> bool:
        """True if a look after this time did not find the replica. An older look may not include it yet."""
        return self._looked > since and name not in self._alive

    def waits(self, name: str, timer: asyncio.Timeout) -> None:
        """Ends a wait for a replica when that dies."""
        self._waiting.setdefault(name, {})[timer] = None

    def end_wait(self, name: str, timer: asyncio.Timeout) -> None:
        """The wait is over."""
        waiting = self._waiting[name]
        waiting.pop(timer, None)
        if not waiting:
            del self._waiting[name]


class ReplicaClient:
    """Another replica: unary calls and the beginnings of streams. All methods raise OwnerLostError if that
    replica is dead, or has not got the task; UNAVAILABLE if it does not answer.
    """

    def __init__(
        self, holder: str, bus: Bus, directory: ReplicaDirectory, new_id: Callable[[], bytes]
    ) -> None:
        self._holder = holder
        self._bus = bus
        self._directory = directory
        self._new_id = new_id
        self._form = form()

    async def unary(self, call: Call[Any, Any]) -> Any:
        """Executes a unary call there."""
        _, answer = await self._call(self._new_id(), call)
        return answer

    async def begin(self, call: Call[Any, Any]) -> tuple[Event, bytes]:
        """Begins a stream there: its first event, and the id to ask `continues_after` with."""
        call_id = self._new_id()
        head, first = await self._call(call_id, call)
        return Event(first, head["event"], head["gap"]), call_id

    async def continues_after(self, call_id: bytes, number: int) -> bool:
        """True if a stream goes on after this event. False if that cannot be known: a new owner of the task
        does not have the old queue.
        """
        try:
            reply = await self._ask(Frame(FrameKind.PASSED, call_id, number=number), None)
        except A2AError as error:
            log.debug("the end of a stream is unknown: %s", error)
            return False
        return reply.kind is FrameKind.WORKING

    def leave(self, call_id: bytes) -> None:
        """Nobody asks for a stream any more."""

        async def say() -> None:
            with suppress(NobodyError, BusDownError, TimeoutError):
                await self._bus.request(self._holder, Frame(FrameKind.LEAVE, call_id).encode(), _WORKING)

        if self._bus.live:
            task = asyncio.ensure_future(say())
            _LEAVING.add(task)
            task.add_done_callback(_LEAVING.discard)

    async def _call(self, call_id: bytes, call: Call[Any, Any]) -> tuple[dict[str, Any], Any]:
        """The header and the message of the response, or of the first event."""
        row = self._form.row(call.operation)
        if row is None:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, metadata={"operation": call.operation.name})
        context = call.context
        now = asyncio.get_running_loop().time()
        left = None if context.deadline is None else max(0.0, context.deadline - now)
        head = {
            "operation": call.operation.name,
            "context": encode_context(context, left),
            "holder": self._holder,
        }
        data = document(head, row.encode_request(call.request))
        size = self._bus.most - OVERHEAD
        parts = range(0, len(data), size)
        limit = None if left is None else now + left
        for number, at in enumerate(parts):
            frame = Frame(FrameKind.CALL, call_id, number, len(parts), body=data[at : at + size])
            reply = await self._ask(frame, limit)
        whole = bytearray(reply.body)
        for number in range(1, reply.parts):
            whole += (await self._ask(Frame(FrameKind.WAIT, call_id, number), limit)).body
        answer, body = undocument(bytes(whole))
        context.reply.update(answer["reply"])
        context.reply.side_channel = answer["aside"] or context.reply.side_channel
        if "elsewhere" in answer:
            raise OwnerLostError
        if "error" in answer:
            raise decode_error(self._form, answer, body)
        return answer, row.decode_response(body)

    async def _ask(self, frame: Frame, limit: float | None) -> Frame:
        """Sends a frame until it has a response other than that the receiver is working."""
        loop = asyncio.get_running_loop()
        began = heard = loop.time()
        pause, taken = _SOON, False
        while True:
            now = loop.time()
            if self._directory.dead(self._holder, began):
                raise OwnerLostError
            patience = self._directory.seconds if taken or self._bus.live else _BUS_PATIENCE
            if limit is not None and now >= limit:
                raise _unavailable("the replica that works on the task did not answer in time")
            if now - heard >= patience:
                raise _unavailable("the replica that works on the task cannot be reached")
            try:
                reply = await self._request(frame, limit)
            except TimeoutError:
                continue
            except (NobodyError, BusDownError):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LATE)
                continue
            heard, pause = loop.time(), _SOON
            if reply.kind is FrameKind.UNKNOWN:
                raise OwnerLostError
            if reply.kind is not FrameKind.WORKING or frame.kind is FrameKind.PASSED:
                return reply
            frame, taken = Frame(FrameKind.WAIT, frame.call), True

    async def _request(self, frame: Frame, limit: float | None) -> Frame:
        loop = asyncio.get_running_loop()
        seconds = _WORKING + _SLACK
        if limit is not None:
            seconds = max(0.001, min(seconds, limit - loop.time()))
        try:
            async with asyncio.timeout(seconds) as timer:
                self._directory.waits(self._holder, timer)
                try:
                    return decode(await self._bus.request(self._holder, frame.encode(), seconds))
                finally:
                    self._directory.end_wait(self._holder, timer)
        except TimeoutError:
            log.debug("replica %s did not answer in %.1f s", self._holder, seconds)
            raise


@dataclass(slots=True, eq=False)
class _Served:
    """One call of another replica."""

    parts: list[bytes | None]
    size: int = 0
    task: asyncio.Task[None] | None = None
    #: the document of the response
    result: bytes | None = None
    #: of a stream: the number of its last event so far, and whether it has ended
    passed: int = 0
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class ReplicaServer:
    """Executes the calls of other replicas with a service, which must not forward them again. me: the present
    name of this replica. most: the `most` of the bus.
    """

    def __init__(self, service: Service, me: Callable[[], str], most: Callable[[], int]) -> None:
        self._service = service
        self._me = me
        self._most = most
        self._form = form()
        self._rows = {row.operation.name: row for row in self._form.rows}
        self._calls: dict[bytes, _Served] = {}
        #: calls with a result, and when they got it
        self._results: OrderedDict[bytes, float] = OrderedDict()
        self._result_bytes = 0
        #: ids of all calls, and when they came
        self._known: OrderedDict[bytes, float] = OrderedDict()

    async def answer(self, frame: Frame) -> Frame:
        """The response to a frame, within seconds."""
        served = self._calls.get(frame.call)
        match frame.kind:
            case FrameKind.CALL:
                if served is None:
                    if not 0 < frame.parts <= _LARGEST // self._most() + 1:
                        return UNKNOWN
                    served = self._calls[frame.call] = _Served([None] * frame.parts)
                    self._known[frame.call] = asyncio.get_running_loop().time()
                return await self._add(served, frame)
            case FrameKind.WAIT if served is not None:
                return await self._response(served, frame)
            case FrameKind.PASSED if served is not None:
                return await self._position(served, frame)
            case FrameKind.LEAVE if served is not None:
                self._stop(served)
                return Frame(FrameKind.DONE, frame.call)
        return UNKNOWN

    async def close(self) -> None:
        """Ends the streams of other replicas; unary calls have their end with the engine."""
        for served in self._calls.values():
            self._stop(served)

    def on_rename(self) -> None:
        """Ends all calls: this replica was declared dead, and has a new name (rule 5)."""
        for served in self._calls.values():
            if served.task is not None:
                served.task.cancel()

    # ------------------------------------------------------------------ answers

    async def _add(self, served: _Served, frame: Frame) -> Frame:
        if frame.part >= len(served.parts):
            return UNKNOWN
        if served.task is None and served.parts[frame.part] is None:
            served.parts[frame.part] = frame.body
            served.size += len(frame.body)
            if served.size > _LARGEST:
                served.parts = []
                return UNKNOWN
            if all(one is not None for one in served.parts):
                data = b"".join(one for one in served.parts if one is not None)
                served.parts = [b""] * len(served.parts)
                served.task = asyncio.create_task(
                    self._execute(frame.call, served, data), name="a2a replica call"
                )
        if frame.part < len(served.parts) - 1:
            return Frame(FrameKind.MORE, frame.call)
        if served.task is None:
            return UNKNOWN  # a part before this part is missing
        return await self._response(served, Frame(FrameKind.WAIT, frame.call))

    async def _response(self, served: _Served, frame: Frame) -> Frame:
        if served.result is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WORKING):
                    while served.result is None:
                        await served.changed.wait()
        if served.result is None:
            return Frame(FrameKind.WORKING, frame.call)
        if not served.result:
            return UNKNOWN  # it was kept long enough
        size = self._most() - OVERHEAD
        parts = max(1, -(-len(served.result) // size))
        at = frame.part * size
        return Frame(FrameKind.DONE, frame.call, frame.part, parts, body=served.result[at : at + size])

    async def _position(self, served: _Served, frame: Frame) -> Frame:
        with suppress(TimeoutError):
            async with asyncio.timeout(_WORKING):
                while served.passed < frame.number and not served.ended:
                    await served.changed.wait()
        # A stream that ends with this event does so before its task waits for anything.
        await asyncio.sleep(0)
        over = served.ended and served.passed <= frame.number
        return Frame(FrameKind.DONE if over else FrameKind.WORKING, frame.call)

    # ------------------------------------------------------------------ work

    async def _execute(self, call_id: bytes, served: _Served, data: bytes) -> None:
        context = CallContext()
        try:
            head, body = undocument(data)
            if head.get("holder", self._me()) != self._me():  # older versions do not say it
                raise OwnerLostError  # noqa: TRY301  answered as any other error
            context = decode_context(head["context"])
            row = self._rows.get(head["operation"])
            if row is None:
                raise _unavailable("the replica that works on the task cannot do this")  # noqa: TRY301  as above
            call: Call[Any, Any] = Call(row.operation, row.decode_request(body), context)
            if isinstance(row.operation, Streaming):
                await self._stream(served, call, row.encode_response)
            else:
                answer = await self._service.unary(call)
                self._finish(served, context, {}, row.encode_response(answer))
        except Exception as error:  # noqa: BLE001  the caller gets it; a defect is logged there
            self._finish(served, context, *self._failure(error))
        finally:
            served.ended = True
            if served.result is None:
                self._finish(served, context, *self._failure(OwnerLostError()))
            served.notify()
            self._over_with(call_id, served)

    async def _stream(self, served: _Served, call: Call[Any, Any], encode: Callable[[Any], bytes]) -> None:
        async with aclosing(self._service.stream(call)) as events:
            async for event in events:
                served.passed = max(served.passed, number_of(event.id) or 0)
                if served.result is None:
                    head = {"event": event.id, "gap": event.gap}
                    self._finish(served, call.context, head, encode(event.message))
                else:
                    served.notify()
        if served.result is None:
            self._finish(served, call.context, *self._failure(internal_error()))

    def _finish(self, served: _Served, context: CallContext, head: dict[str, Any], body: bytes) -> None:
        """The response is known. A later response is dropped: the caller has read the first."""
        if served.result is None:
            reply = {"reply": dict(context.reply), "aside": context.reply.side_channel}
            served.result = document(head | reply, body)
        served.notify()

    def _failure(self, error: BaseException) -> tuple[dict[str, Any], bytes]:
        # A replica that stops has other callers look for the task: another replica may continue it.
        if isinstance(error, NotOwnerError | OwnerLostError | ClosingError):
            return {"elsewhere": True}, b""
        if not isinstance(error, A2AError):
            log.error("a call of another replica has failed", exc_info=error)
            error = internal_error()
        return encode_error(self._form, error)

    def _stop(self, served: _Served) -> None:
        if served.task is not None and served.result is not None:
            served.task.cancel()

    def _over_with(self, call_id: bytes, served: _Served) -> None:
        """Keeps the result for a caller that has not read it yet, and the id longer."""
        now = asyncio.get_running_loop().time()
        self._results[call_id] = now
        self._result_bytes += len(served.result or b"")
        while self._results:
            oldest, since = next(iter(self._results.items()))
            if now - since < _KEPT and (self._result_bytes <= _KEPT_BYTES or oldest == call_id):
                break
            del self._results[oldest]
            old = self._calls[oldest]
            self._result_bytes -= len(old.result or b"")
            old.result = b""
        while self._known:
            oldest, since = next(iter(self._known.items()))
            if now - since < _KNOWN and len(self._known) <= _MOST:
                break
            task = self._calls[oldest].task
            if oldest in self._results or (task is not None and not task.done()):
                self._known[oldest] = now
                self._known.move_to_end(oldest)
                break
            del self._known[oldest], self._calls[oldest]


#: farewells under way
_LEAVING: set[asyncio.Task[None]] = set()


def _unavailable(text: str) -> A2AError:
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.SELF, retry_after=1.0)
