"""The client side: a Service that makes one connection for each call. It decides nothing about retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from a2a_bridge.ext import (
    LAST_EVENT_PARAMETER,
    A2AError,
    Blame,
    Call,
    Dialect,
    DialOptions,
    ErrorReply,
    Event,
    Events,
    Form,
    JsonSyntaxError,
    Reason,
    Req,
    Res,
    Service,
    hub,
    is_id,
    loads,
    operations,
    resume_id,
)

from .wire import HEADER, KIND, check, frame


@asynccontextmanager
async def dial(
    interface: hub.AgentInterface, dialect: Dialect, options: DialOptions
) -> AsyncIterator[Service]:
    """A client side for `tcp://host:port` or `host:port`. Raises LookupError when the version forbids the
    kind.
    """
    form = dialect.form(KIND)
    if form is None:
        raise LookupError(f"version {dialect.version} has no form for {KIND.name}")
    client = _Client(interface, dialect, form, options)
    try:
        yield client
    finally:
        client.close()


class _Client:
    def __init__(
        self,
        interface: hub.AgentInterface,
        dialect: Dialect,
        form: Form[str, Any],
        options: DialOptions,
    ) -> None:
        url = urlsplit(interface.url if "://" in interface.url else f"//{interface.url}")
        self._address = (url.hostname or "", url.port or 0)
        self._tenant = interface.tenant
        self._version = dialect.version
        self._form = form
        self._options = options
        self._open: set[asyncio.StreamWriter] = set()

    def close(self) -> None:
        """Closes the connections; calls in progress fail with UNAVAILABLE."""
        for writer in self._open:
            writer.close()

    async def unary(self, call: Call[Req, Res], /) -> Res:
        async with aclosing(self._items(call, self._options.timeout)) as items:
            async for item in items:
                return cast("Res", item.message)
        raise _broken("the agent ended the call without an answer")

    def stream(self, call: Call[Req, Res], /) -> Events:
        return self._items(call, None)

    async def _items(self, call: Call[Any, Any], limit: float | None) -> Events:
        deadline = _earlier(call.context.deadline, limit)
        row = self._form.row(call.operation)
        if row is None:
            raise A2AError(Reason.UNSUPPORTED_OPERATION, metadata={"operation": call.operation.name})
        first = frame(
            {
                "version": self._version,
                "operation": row.address,
                "parameters": self._parameters(call),
                "timeout": None if deadline is None else deadline - time.monotonic(),
                "request": row.encode_request(self._with_tenant(call.request)),
            }
        )
        reader, writer = await self._connect(deadline)
        try:
            async with _in_time(deadline):
                writer.write(first)
                await writer.drain()
            while True:
                async with _in_time(deadline):
                    body = await self._body(reader)
                document = _tree(body)
                if "item" in document:
                    id_ = document.get("id")
                    message = row.decode_response(document["item"])
                    yield Event(
                        message,
                        id_ if isinstance(id_, str) and is_id(id_) else "",
                        document.get("gap") is True,
                    )
                elif "error" in document:
                    raise row.decode_names(self._form.decode_error(ErrorReply(200, document["error"])))
                elif "parameters" in document:
                    call.context.reply.update(document["parameters"])
                elif "end" in document:
                    return
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise _broken("the connection to the agent broke") from error
        finally:
            self._open.discard(writer)
            writer.close()

    async def _connect(self, deadline: float | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with _in_time(deadline), asyncio.timeout(self._options.connect_timeout):
                reader, writer = await asyncio.open_connection(*self._address)
        except OSError as error:
            text = f"no connection to {self._address[0]}:{self._address[1]}"
            raise A2AError(
                Reason.UNAVAILABLE, text, metadata={"phase": "connect"}, blame=Blame.PEER
            ) from error
        self._open.add(writer)
        return reader, writer

    async def _body(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self._options.idle_timeout):
                (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
                if size > self._options.max_message:
                    raise A2AError(
                        Reason.INVALID_AGENT_RESPONSE, "the agent's answer is too large", blame=Blame.PEER
                    )
                return await reader.readexactly(size)
        except TimeoutError:
            raise _broken("the agent has fallen silent") from None

    def _parameters(self, call: Call[Any, Any]) -> dict[str, str]:
        context = call.context
        forwarded = {
            name: context.parameters.get(name) for name in (*self._options.forward, "a2a-extensions")
        }
        if call.operation is operations.SUBSCRIBE_TO_TASK:
            forwarded[LAST_EVENT_PARAMETER] = resume_id(context) or None
        chosen = {name: value for name, value in forwarded.items() if value is not None}
        return check({**chosen, **self._options.parameters})

    def _with_tenant(self, request: Any) -> Any:
        if not self._tenant or request.tenant:
            return request
        copy = type(request)()
        copy.CopyFrom(request)
        copy.tenant = self._tenant
        return copy


def _earlier(deadline: float | None, limit: float | None) -> float | None:
    if limit is None:
        return deadline
    end = time.monotonic() + limit
    return end if deadline is None else min(deadline, end)


@asynccontextmanager
async def _in_time(deadline: float | None) -> AsyncIterator[None]:
    """Raises DEADLINE_EXCEEDED when the block is not done by then."""
    left = None if deadline is None else deadline - time.monotonic()
    guard = asyncio.timeout(left)
    try:
        async with guard:
            yield
    except TimeoutError:
        if not guard.expired():
            raise
        raise A2AError(Reason.DEADLINE_EXCEEDED, blame=Blame.PEER) from None


def _tree(body: bytes) -> dict[str, Any]:
    try:
        tree = loads(body)
    except JsonSyntaxError as error:
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, str(error), blame=Blame.PEER) from None
    if not isinstance(tree, dict):
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, "a frame is an object", blame=Blame.PEER)
    return tree


def _broken(text: str) -> A2AError:
    return A2AError(Reason.UNAVAILABLE, text, blame=Blame.PEER)
