"""OpenAI's API over one agent or several, as an ASGI application: its paths, its models, and the front of the
model that a request names.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

from a2a_bridge.bindings.asgi import Receive, Scope, Send
from a2a_bridge.codec import JsonSyntaxError, dumps, loads
from a2a_bridge.core.call import Principal
from a2a_bridge.core.errors import A2AError, Reason, internal_error
from a2a_bridge_adapters.fronts.application import FrontApplication, Opened
from a2a_bridge_adapters.fronts.callers import (
    BODY,
    Edge,
    EdgeOptions,
    Form,
    Guarded,
    context_for,
    log_error,
    path_of,
    principal_of,
    problem_headers,
    respond,
)
from a2a_bridge_adapters.fronts.openai import BINDING, OpenAiFront, send_problem
from a2a_bridge_adapters.fronts.openai_answers import Problem
from a2a_bridge_adapters.fronts.openai_requests import RequestError, chat_request, quoted, response_request
from a2a_bridge_adapters.fronts.turn import Background, Upstream

_log = logging.getLogger("a2a_bridge.fronts")


def openai_front(agent: Any, **options: Unpack[EdgeOptions]) -> Any:
    """An agent as a model of OpenAI's API: an ASGI 3 application with /v1/models, /v1/chat/completions and
    /v1/responses, also without /v1.

    agent: an open `Peer`, or anything that `connect` takes. authenticate: identifies callers, such as an
    `Authentication`; without it everybody who reaches the application may call, as one caller.
    allowed_hosts: values of the header Host, `NAME:*` with any port; empty: all. max_body, max_values: bytes
    and JSON values of a request. bearer_as: see `Edge`.
    """
    edge = Edge(**options)
    return FrontApplication(agent, partial(open_openai, edge=edge), edge.authenticate)


@asynccontextmanager
async def open_openai(upstream: Upstream, *, edge: Edge, name: str = "") -> AsyncIterator[Opened]:
    """The application of an agent that is open already; see `openai_front`. name: see `OpenAiFront`."""
    front = OpenAiFront(upstream, name, edge.permit)
    # A request that is cancelled answers by itself.
    yield Opened(Guarded(_Api({"": front}), edge, _FORM, hides=bool(name)), front)


@asynccontextmanager
async def open_openai_of_all(
    fronts: Mapping[str, OpenAiFront],
    *,
    edge: Edge,
    background: Background,  # noqa: ARG001  that of an agent does its work
) -> AsyncIterator[Opened]:
    """The application of several agents, by name."""
    yield Opened(Guarded(_Api(fronts), edge, _FORM))


async def _reject(error: A2AError, send: Send) -> None:
    problem = Problem.of(error)
    await respond(send, problem.status, problem.body, problem_headers(error))


def _methods(path: str) -> Sequence[str] | None:
    below = path.removeprefix("/v1")
    if below.startswith(("/chat/completions", "/responses")):
        return ("POST",) if below.rstrip("/") in ("/chat/completions", "/responses") else None
    return ("GET",) if f"{below}/".startswith("/models/") else None


_FORM = Form(BINDING, _methods, _reject)


class _Api:
    """fronts: the models of the agents, by name."""

    def __init__(self, fronts: Mapping[str, OpenAiFront]) -> None:
        self._fronts = fronts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._route(scope, receive, send)
        except RequestError as error:
            reason = Reason.METHOD_NOT_FOUND if error.status == 404 else Reason.INVALID_PARAMS
            log_error(scope, A2AError(reason, str(error)), BINDING)
            await send_problem(send, Problem.of(error))
        except Exception:  # noqa: BLE001  the caller gets an error without its text
            _log.exception("a request of OpenAI's API failed")
            await send_problem(send, Problem.of(internal_error()))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope).removeprefix("/v1").rstrip("/")
        if path == "/models" or path.startswith("/models/"):
            await respond(send, 200, dumps(self._models(scope, path.removeprefix("/models"))))
        elif path in ("/chat/completions", "/responses"):
            _check_type(scope)
            await receive()  # the next message is that the caller has left
            try:
                tree = loads(scope[BODY])
            except JsonSyntaxError:
                raise RequestError("the body is not valid JSON") from None
            is_chat = path == "/chat/completions"
            ask = chat_request(tree) if is_chat else response_request(tree)
            found, principal = self._found(ask.model), principal_of(scope)
            if found is not None and found.permits(principal):
                await found.answer(scope, receive, send, ask, is_chat=is_chat)
                return
            if found is not None:
                await found.deny(context_for(BINDING, scope))
            raise self._unknown(ask.model, principal)
        elif path == "/completions":
            text = "this agent has no completions of text: use /v1/chat/completions or /v1/responses"
            raise RequestError(text, code="unsupported_endpoint", status=404)
        else:
            raise RequestError(f"there is nothing at {path_of(scope)}", status=404)

    def _models(self, scope: Scope, name: str) -> Any:
        """The models that the caller may use, or the one of `/NAME`. Raises RequestError."""
        principal = principal_of(scope)
        if name:
            found = self._found(name[1:])
            if found is None or not found.permits(principal):
                raise self._unknown(name[1:], principal)
            return found.document()
        data = [front.document() for front in self._fronts.values() if front.permits(principal)]
        return {"object": "list", "data": data}

    def _found(self, name: str) -> OpenAiFront | None:
        """The model of a name; None if there is none."""
        found = self._fronts.get(name)
        if found is None and len(self._fronts) == 1:
            (one,) = self._fronts.values()
            found = one if one.goes_by(name) else None
        return found

    def _unknown(self, name: str, principal: Principal | None) -> RequestError:
        """The error for a model that is not there, or not for a caller."""
        known = "/v1/models lists those that do"
        if len(self._fronts) == 1 and (one := next(iter(self._fronts.values()))).permits(principal):
            known = f"this agent is {one.model!r}"
        text = f"the model {quoted(name)} does not exist; {known}"
        return RequestError(text, "model", "model_not_found", 404)


def _check_type(scope: Scope) -> None:
    """Raises RequestError for a body that is not declared as JSON: a web page of somebody else can send any
    other type without being asked.
    """
    types = [value for name, value in scope["headers"] if name == b"content-type"]
    if len(types) != 1 or types[0].split(b";")[0].strip().lower() != b"application/json":
        raise RequestError("the content type is application/json", status=415)
