"""Shared by the server sides of the HTTP bindings: versions, contexts, and the handling of failures.

Rules:
1. A server side raises A2AError only, and returns replies; other exceptions are logged in full and sent as
   INTERNAL.
2. The version is decided after the body was read, from the declared version and the versions served at the
   address.
3. Content beside a message of an older version goes through parameters that only its rows read and write.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.traffic import log_rejected
from a2a_bridge.bindings.unknown_events import counts, leave_out
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import RESUME_PARAMETER, Call, CallContext, Origin, Principal, ResponseParameters
from a2a_bridge.core.callers import Presented
from a2a_bridge.core.errors import A2AError, Blame, Reason, internal_error
from a2a_bridge.core.resume import GAP, resume_id
from a2a_bridge.core.service import Event, Events, Service
from a2a_bridge.dialects import BindingKind, Dialect, Form, Row, newest_first
from a2a_bridge.dialects.dialect import extension_names
from a2a_bridge.dialects.known import detect, presume
from a2a_bridge.dialects.signed_extras import open_side_channel, seal_side_channel
from a2a_bridge.peers import caller
from a2a_bridge_transports._http.exchange import (
    DEADLINE,
    EVENT_STREAM,
    SIDE_CHANNEL,
    ClientLeftError,
    Headers,
    Request,
    StreamReply,
)
from a2a_bridge_transports._http.parameters import Overlaid, deadline_of, read_version, reply_headers

Index = TypeVar("Index")

#: the name of a call in the log while its operation is not known
A_REQUEST = "a request"


@dataclass(slots=True)
class Table(Generic[Index]):
    """One version at one mount: its form, and its rows in the order of the binding's lookup."""

    dialect: Dialect
    form: Form[Any, Any]
    index: Index
    #: True if its callers declare no version, and so none of the habits that came with that
    older: bool


class ServerSide(Generic[Index]):
    """A service in the versions of one mount. index: makes the index of a form's rows. Raises ValueError if
    no dialect has a form for the kind.
    """

    def __init__(
        self,
        kind: BindingKind[Any, Any],
        service: Service,
        dialects: Sequence[Dialect],
        index: Callable[[Form[Any, Any]], Index],
        options: HostOptions,
    ) -> None:
        self.service = service
        self.authenticate = options.authenticate
        self.permit = options.permit
        self.max_values = options.max_values
        self.log = logging.getLogger(f"a2a_bridge.{kind.name.lower()}")
        self._kind = kind.name
        self._lenient = options.lenient_versions
        self._tables: dict[Dialect, Table[Index]] = {}
        for dialect in newest_first(dialects):
            form = dialect.form(kind)
            if form is not None:
                self._tables[dialect] = Table(dialect, form, index(form), not dialect.declares)
        if not self._tables:
            raise ValueError(f"none of {list(dialects)} can be spoken over {kind.name}")
        #: newest first
        self.tables = tuple(self._tables.values())
        #: usual declarations of callers → the version they mean, if it has the requested operation
        self.usual: dict[str, Table[Index]] = {
            table.dialect.version: table for table in reversed(self.tables)
        }
        silent = next((table for table in self.tables if table.older), None)
        if silent is not None:
            self.usual[""] = silent

    def table(self, request: Request, having: Sequence[Table[Index]]) -> Table[Index]:
        """The version of a request, which may lack the operation. having: the versions that have the
        operation. Raises VERSION_NOT_SUPPORTED.
        """
        declared = read_version(request.headers, request.query)
        has = [table.dialect for table in having]
        return self._tables[detect(declared, self._tables, has, lenient=self._lenient)]

    def presume(self, request: Request, having: Sequence[Table[Index]] = ()) -> Table[Index]:
        """The version for the error of a request that failed before its version was known."""
        if len(self.tables) == 1:
            return self.tables[0]
        declared = read_version(request.headers, request.query)
        return self._tables[presume(declared, tuple(self._tables), [table.dialect for table in having])]

    async def principal(self, request: Request) -> Principal | None:
        """The caller; None if callers are not identified. Raises UNAUTHENTICATED and UNAVAILABLE."""
        if self.authenticate is None:
            return None
        return await self.authenticate(Presented(request.parameters(), request.peer, request.certificate))

    def context(
        self,
        request: Request,
        table: Table[Index],
        message: Any,
        extracted: Mapping[str, str] | None = None,
        principal: Principal | None = None,
        *,
        large: bool = False,
    ) -> CallContext:
        """The context of a call. message: the decoded request. extracted: content of the request that its
        message does not hold (RowExtras.request). large: whether a worker decoded the request. Raises
        INVALID_REQUEST for an invalid deadline.
        """
        parameters = request.parameters()
        received = request.headers.get(SIDE_CHANNEL)
        side_channel = ""
        if extracted or received is not None:
            more = dict(extracted or {})
            side_channel = more.pop(SIDE_CHANNEL, "")
            if received and not table.older:
                side_channel = open_side_channel(received, message) or side_channel
            parameters = Overlaid(parameters, more, without=SIDE_CHANNEL)
        return CallContext(
            message.tenant,
            parameters,
            principal,
            deadline_of(request.headers, time.monotonic()) if DEADLINE in request.headers else None,
            _origin(self._kind, table.dialect.version, request.peer, request.base_url()),
            ResponseParameters(),
            side_channel,
            large,
        )

    def begun(self, call: Call[Any, Any]) -> Events:
        """The events of a streaming call. Raises INVALID_PARAMS for an invalid position to resume at."""
        if call.operation is ops.SUBSCRIBE_TO_TASK:
            resume_id(call.context)
        events = self.service.stream(call)
        longest = caller(call.context.parameters).quirks.max_event_line
        return _with_short_tasks(events, longest) if longest else events

    def failure(self, request: Request, error: BaseException, name: str) -> A2AError:
        """The error for the caller about an exception. Raises it again if the client has left."""
        if isinstance(error, A2AError):
            return error
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if request.stopping:
                if task is not None:
                    task.uncancel()
                return A2AError(Reason.UNAVAILABLE, "the server is shutting down", blame=Blame.SELF)
            if task is None or task.cancelling():
                raise error
        elif isinstance(error, GeneratorExit | ClientLeftError):
            raise error
        self.log.error("%s failed", name, exc_info=error)
        return internal_error()

    def note_rejected(
        self, request: Request, context: CallContext | None, name: str, error: A2AError
    ) -> None:
        """Logs an error for a request that has not become a call."""
        if context is None:
            asked = f"{request.method} {request.path}" + (f" {name}" if name != A_REQUEST else "")
            declared = read_version(request.headers, request.query)
            log_rejected(asked, request.peer, declared, error, self._kind)

    def reply_headers(
        self,
        request: Request,
        table: Table[Index],
        context: CallContext | None,
        name: str,
        about: Any = None,
        *,
        gap: bool = False,
    ) -> Headers:
        """The response parameters as headers. about: the request, if there may be content beside the
        response. gap: the response is a stream that begins with a gap. Raises INTERNAL_ERROR for invalid
        parameters.
        """
        if context is None or not (context.reply or context.reply.side_channel or gap):
            return ()
        reply = dict(context.reply)
        if context.reply.side_channel and not table.older and about is not None:
            reply[SIDE_CHANNEL] = seal_side_channel(context.reply.side_channel, about)
        if gap:
            reply[RESUME_PARAMETER] = GAP
        try:
            return reply_headers(reply, extension_names(request.headers, table.dialect.extensions))
        except ValueError as error:
            self.log.error("%s: %s", name, error)  # noqa: TRY400  a trace adds nothing
            raise internal_error() from None


Server = TypeVar("Server", bound=ServerSide[Any])


class CallStream(StreamReply, Generic[Server]):
    """The events of a streaming call. The binding encodes them."""

    __slots__ = ("call", "request", "row", "server", "table")

    def __init__(
        self,
        server: Server,
        request: Request,
        table: Table[Any],
        row: Row[Any, Any],
        call: Call[Any, Any],
    ) -> None:
        super().__init__(server.begun(call))
        self.server = server
        self.request = request
        self.table = table
        self.row = row
        self.call = call

    def leaves_out(self, event: Event) -> bool:
        """Whether an event without content on this wire is not sent."""
        if counts(self.call.context, event):
            return False
        leave_out(event.message)
        return True

    def headers(self, *, gap: bool) -> Headers:
        name = self.row.operation.name
        parameters = self.server.reply_headers(self.request, self.table, self.call.context, name, gap=gap)
        return EVENT_STREAM + parameters

    def failure(self, error: BaseException) -> A2AError:
        """The error for the caller. Raises `error` again if the client has left."""
        return self.server.failure(self.request, error, self.row.operation.name)


async def _with_short_tasks(events: Events, longest: int) -> Events:
    """The events for a caller that drops long lines: a task whose line would be too long loses its history. A
    JSON line is at most about twice as long as the message in protobuf.
    """
    async with aclosing(events) as source:
        async for event in source:
            message = event.message
            if message.HasField("task") and message.task.history and message.ByteSize() > longest // 2:
                short = type(message)()
                short.CopyFrom(message)
                short.task.ClearField("history")
                yield Event(short, event.id, event.gap)
            else:
                yield event


@lru_cache(maxsize=1024)
def _origin(kind: str, version: str, peer: str, base_url: str) -> Origin:
    return Origin(kind, version, peer, base_url)
