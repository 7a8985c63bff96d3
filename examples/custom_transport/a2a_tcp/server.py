"""The server side: one call of one connection, answered by a Service. It opens no socket.

Order of checks, the same as on other bindings: size, JSON, frame, caller, version, operation, request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from a2a_bridge.ext import (
    A2AError,
    Blame,
    Call,
    CallContext,
    Dialect,
    Form,
    HostOptions,
    Origin,
    Presented,
    Reason,
    Row,
    Service,
    detect,
    internal_error,
    newest_first,
    operations,
    request_too_large,
    resume_id,
)

from .wire import HEADER, KIND, Opening, check, frame, opening

log = logging.getLogger("a2a_bridge.tcp")

#: bytes that may wait in the writer before the service has to wait
HIGH_WATER = 64 * 1024


class Side:
    """A service and the dialects it is served in. Raises ValueError if none of them can be spoken."""

    def __init__(self, service: Service, dialects: Sequence[Dialect], options: HostOptions) -> None:
        self.service = service
        self.options = options
        self._forms = {
            dialect: form for dialect in newest_first(dialects) if (form := dialect.form(KIND)) is not None
        }
        if not self._forms:
            raise ValueError(f"none of {list(dialects)} can be spoken over {KIND.name}")
        #: the form of errors for a caller whose version is not known
        self.newest = next(iter(self._forms.values()))

    def form_of(self, call: Opening) -> tuple[Dialect, Form[str, Any]]:
        """The dialect and form a caller speaks. Raises VERSION_NOT_SUPPORTED."""
        dialect = detect(call.version, self._forms)
        return dialect, self._forms[dialect]


class Connection:
    """One call, from its opening frame to the last."""

    def __init__(self, side: Side, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._side = side
        self._reader = reader
        self._writer = writer
        self._peer = str((writer.get_extra_info("peername") or ("",))[0])
        self._form = side.newest
        self._row: Row[str, Any] | None = None
        self._work: asyncio.Task[None] | None = None
        self._ended = False
        writer.transport.set_write_buffer_limits(high=HIGH_WATER)

    def end(self) -> None:
        """Stops the call and sends the caller the reason: the host stops."""
        self._ended = True
        if self._work is not None:
            self._work.cancel()

    def abort(self) -> None:
        """Drops the connection, for a caller that does not read."""
        self._writer.transport.abort()

    async def serve(self) -> None:
        """Answers the call. Returns when it is answered or the caller has gone."""
        try:
            body = await self._body()
        except A2AError as error:
            await self._send(self._error(error))
            return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        self._work = asyncio.create_task(self._answer(body))
        gone = asyncio.create_task(self._gone())
        try:
            await asyncio.wait({self._work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._work.cancel()
            gone.cancel()
            await asyncio.wait({self._work, gone})

    async def _body(self) -> bytes:
        (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        if size <= self._side.options.max_body:
            return await self._reader.readexactly(size)
        # A caller that still writes would not read a response: read its data and drop it.
        while size > 0 and (piece := await self._reader.read(min(size, HIGH_WATER))):
            size -= len(piece)
        raise request_too_large(self._side.options.max_body)

    async def _gone(self) -> None:
        """Returns when the caller has closed the connection. Callers send nothing after the request, so data
        is dropped.
        """
        try:
            while await self._reader.read(HIGH_WATER):
                pass
        except ConnectionError:
            return

    async def _answer(self, body: bytes) -> None:
        try:
            await self._call(body)
            last = frame({"end": True})
        except A2AError as error:
            last = self._error(error)
        except asyncio.CancelledError:
            if not self._ended:
                raise
            last = self._error(A2AError(Reason.UNAVAILABLE, "the server is shutting down", blame=Blame.SELF))
        except ConnectionError:
            return
        except Exception:
            log.exception("a call failed unexpectedly")
            last = self._error(internal_error())
        await self._send(last)

    def _error(self, error: A2AError) -> bytes:
        """An error frame in the version of the caller."""
        if self._row is not None:
            error = self._row.encode_names(error)
        return frame({"error": self._form.encode_error(error).body})

    async def _call(self, body: bytes) -> None:
        head = opening(body)
        parameters = {name.lower(): value for name, value in check(head.parameters).items()}
        authenticate, principal = self._side.options.authenticate, None
        if authenticate is not None:
            principal = await authenticate(Presented(parameters, self._peer))
        dialect, self._form = self._side.form_of(head)
        row = self._row = next((row for row in self._form.rows if row.address == head.operation), None)
        if row is None:
            raise A2AError(Reason.METHOD_NOT_FOUND)
        request = row.decode_request(head.request)
        context = CallContext(
            tenant=request.tenant,
            parameters=parameters,
            principal=principal,
            deadline=None if head.timeout is None else time.monotonic() + head.timeout,
            origin=Origin(KIND.name, dialect.version, self._peer),
        )
        call = Call(row.operation, request, context)
        if row.operation is operations.SUBSCRIBE_TO_TASK:
            resume_id(context)
        if row.streaming:
            await self._stream(row, call)
        else:
            answer = row.encode_response(await self._side.service.unary(call))
            await self._send(_reply(context.reply) + frame({"item": answer}))

    async def _stream(self, row: Row[str, Any], call: Call[Any, Any]) -> None:
        first = True
        silence = self._side.options.keep_alive
        async with aclosing(self._side.service.stream(call)) as events:
            step = asyncio.ensure_future(
                anext(events, None)
            )  # in a task: others get their turn at each event
            try:
                while True:
                    done, _ = await asyncio.wait({step}, timeout=silence)
                    if not done:
                        await self._send(frame({}))
                        continue
                    event = step.result()
                    if event is None:
                        break
                    head, first = _reply(call.context.reply) if first else b"", False
                    item = {"item": row.encode_response(event.message)}
                    if event.id:
                        item["id"] = event.id
                    if event.gap:
                        item["gap"] = True
                    await self._send(head + frame(item))
                    step = asyncio.ensure_future(anext(events, None))
            finally:
                step.cancel()
                await asyncio.wait({step})

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _reply(parameters: Mapping[str, str]) -> bytes:
    if not parameters:
        return b""
    try:
        return frame({"parameters": check(parameters)})
    except A2AError as error:
        # Not an error of the caller: the service tried to send it.
        raise ValueError(str(error)) from None
