"""The client side of HTTP+JSON: a Service over an HTTP session. It knows no version."""

from collections.abc import Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from yarl import URL

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.offload import SMALL, run
from a2a_bridge.codec import Json, JsonSyntaxError
from a2a_bridge.core.call import Call, ResponseParameters
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import Req, Res
from a2a_bridge.core.resume import is_gap
from a2a_bridge.core.service import Event, Events, reject
from a2a_bridge.dialects import HTTP_JSON, Dialect, Row
from a2a_bridge.dialects.signed_extras import dumps, loads
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http import session
from a2a_bridge_transports._http.calling import STREAM_HEADERS, ClientSide
from a2a_bridge_transports._http.parameters import begins_with_gap
from a2a_bridge_transports._http.rows import remaining_time
from a2a_bridge_transports.http_json import wire

#: agents of 1.0 accept both; many accept this one only
CONTENT_TYPE = "application/json"
ACCEPT = "application/a2a+json, application/json"
#: URLs that are remembered; some have ids of tasks
_URLS = 64


class HttpJsonClient(ClientSide):
    """An agent below one URL; implements Service."""

    def __init__(
        self,
        interface: hub.AgentInterface,
        dialect: Dialect,
        options: DialOptions,
        exchanger: session.Exchanger,
    ) -> None:
        super().__init__(HTTP_JSON, interface, dialect, options, exchanger)
        self._accept = ACCEPT if dialect.declares else CONTENT_TYPE
        base, _, self._query = session.call_url(interface.url, options).partition("?")
        self._base = base.rstrip("/")
        session.parse_url(self._base)  # rejects an invalid URL here, before any call
        # An agent that supports the verb for another method only may read the path as a task's id.
        self._wrong = (
            frozenset({Reason.METHOD_NOT_FOUND})
            if dialect.declares
            else frozenset({Reason.METHOD_NOT_FOUND, Reason.TASK_NOT_FOUND})
        )
        #: the URLs of calls by path and query
        self._urls: dict[tuple[str, str], URL] = {}
        #: the HTTP method that worked, for operations that have several
        self._methods: dict[Any, str] = {}

    def unary(self, call: Call[Req, Res], /) -> Coroutine[Any, Any, Res]:
        try:
            row = self.row(call)
        except A2AError as error:
            return reject(error)
        if row.extras.fallback is not None:
            return cast("Coroutine[Any, Any, Res]", self.either(partial(self._unary, call), row))
        return self._unary(call, row)

    async def _unary(self, call: Call[Any, Any], row: Row[Any, Any]) -> Any:
        target, body = (await run(self._targets, row, call, large=call.context.large))[0]
        headers = self.headers(call)
        if row.extras.parameters is not None:
            headers |= row.extras.parameters
        headers["Accept"] = self._accept
        _describe(body, headers)
        timeout = remaining_time(call.context, self.options.timeout)
        url = self._url(target)
        status, received, data = await self.exchanger.call(target.method, url, headers, body, timeout)
        self.copy_parameters(call, received)
        if status >= 300:
            raise await self._failure(row, target, status, received, data)
        if len(data) <= SMALL:
            return self._read(row, call, data)
        return await self.parse(data, call.context.reply, self._read, row, call, data)

    async def stream(self, call: Call[Req, Res], /) -> Events:
        row = self.row(call)
        targets = await run(self._targets, row, call, large=call.context.large)
        for number, (target, body) in enumerate(targets, 1):
            try:
                async with aclosing(self._stream(row, call, target, body)) as events:
                    async for event in events:
                        self._methods[row.operation] = target.method
                        yield event
            except _WrongMethodError as wrong:
                if number == len(targets) or self._methods.get(row.operation) == target.method:
                    raise wrong.error from None
            else:
                return

    async def _stream(
        self, row: Row[Any, Any], call: Call[Any, Res], target: wire.HttpCall, body: bytes | None
    ) -> Events:
        headers = self.headers(call)
        if row.extras.parameters is not None:
            headers |= row.extras.parameters
        headers["Accept"] = f"text/event-stream, {self._accept}"
        headers |= STREAM_HEADERS
        _describe(body, headers)
        timeout = remaining_time(call.context, None)
        url = self._url(target)
        async with self.exchanger.stream(target.method, url, headers, body, timeout) as response:
            self.copy_parameters(call, response.headers)
            if response.status >= 300:
                data = await self.exchanger.whole(response)
                error = await self._failure(row, target, response.status, response.headers, data)
                if response.status in (404, 405, 501) and error.reason in self._wrong:
                    raise _WrongMethodError(error)
                raise error
            if response.content_type != "text/event-stream":
                data = await self.exchanger.whole(response)
                answer = await self.parse(data, call.context.reply, self._read, row, call, data)
                yield self.only_event(answer)
                return
            gap = begins_with_gap(response.headers)
            async with aclosing(self.exchanger.events(response)) as groups:
                async for group in groups:
                    for event in group:
                        data = event.data
                        if len(data) <= SMALL:
                            answer = self._event(row, call, event.type, data)
                        else:
                            answer = await self.parse(
                                data, call.context.reply, self._event, row, call, event.type, data
                            )
                        yield Event(answer, event.id, gap or is_gap(answer))
                        gap = False

    def _event(self, row: Row[Any, Any], call: Call[Any, Any], kind: str, data: bytes) -> Any:
        tree = _tree(data)
        if kind == "error" or wire.error_in(tree):
            raise self.read_error(row, 200, tree, session.text_of(data))
        return self.decode(row, tree, call.context)

    async def _failure(
        self, row: Row[Any, Any], target: wire.HttpCall, status: int, headers: Any, data: bytes
    ) -> A2AError:
        return await self.parse(data, ResponseParameters(), self._error, row, target, status, headers, data)

    def _read(self, row: Row[Any, Any], call: Call[Any, Any], data: bytes) -> Any:
        """The response in a body; an empty one (204) counts as null."""
        return self.decode(row, _tree(data) if data else None, call.context)

    def _targets(self, row: Row[Any, Any], call: Call[Any, Any]) -> list[tuple[wire.HttpCall, bytes | None]]:
        """Where to send the request, and its body. Several targets for streams, which some agents serve for
        one method only.
        """
        targets = wire.implode(row.address, self.encode(row, call))
        known = self._methods.get(row.operation)
        if known:
            targets = sorted(targets, key=lambda target: target.method != known)
        return [(target, None if target.body is None else dumps(target.body)) for target in targets]

    def _url(self, target: wire.HttpCall) -> URL:
        place = target.path, target.query
        url = self._urls.get(place)
        if url is None:
            query = "&".join(filter(None, (self._query, target.query)))
            url = session.request_url(f"{self._base}{target.path}{'?' if query else ''}{query}")
            if len(self._urls) >= _URLS:
                self._urls.clear()
            self._urls[place] = url
        return url

    def _error(
        self, row: Row[Any, Any], target: wire.HttpCall, status: int, headers: Any, data: bytes
    ) -> A2AError:
        url = self._url(target)
        moved = session.redirect_error(status, headers, url)
        if moved is not None:
            return moved
        try:
            tree = loads(data)
        except JsonSyntaxError:
            tree = None  # not from an agent: a proxy's page, or nothing at all
        error = self.read_error(row, status, tree, session.text_of(data))
        error = self.with_challenges(session.with_patience(error, headers), headers)
        return error if wire.error_in(tree) else session.with_origin(error, status, url)


class _WrongMethodError(Exception):
    def __init__(self, error: A2AError) -> None:
        super().__init__(error.message)
        self.error = error


def _describe(body: bytes | None, headers: dict[str, str]) -> None:
    if body is not None:
        headers["Content-Type"] = CONTENT_TYPE


def _tree(data: bytes) -> Json:
    try:
        return loads(data)
    except JsonSyntaxError as problem:
        raise wire.not_json(str(problem)) from None
