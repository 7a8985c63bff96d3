"""`conformance`: runs the tests of documents over each binding of an agent, and reports.

Rules (ACTS 12):
1. Tests share nothing; each starts with its own variables. A test whose preconditions the card does not meet,
   or that needs what this runner cannot do, is skipped with the reason.
2. `fail` is a wrong response of the agent; `error` is a document that cannot be run. The tests after it run.
3. An operation is called with our own client; its response is the message of 1.0 as JSON, whatever the
   binding, with the status and the headers of HTTP. gRPC has none: a response counts as status 200 there, and
   a test of headers is skipped.
4. Names of errors are those of A2A 1.0; where ACTS has another one, 1.0 counts.
5. A raw request is sent as it is, without credentials, and its response has the body as it came.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import typer

from a2a_bridge.bindings.binding import http_exchange
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import code_of, data, document
from a2a_bridge.cli.values import Exit, usage_error
from a2a_bridge.codec import JsonSyntaxError, decoder, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import acts, text
from a2a_bridge_tools.client.acts import documents_of, each_test, entries, request_of, step_of
from a2a_bridge_tools.client.flags import ConformanceFlags
from a2a_bridge_tools.client.reaching import (
    Session,
    choose_interfaces,
    parse_transports,
    refuse_equivalents,
    run,
)

_NAMES = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest", "GRPC": "grpc"}
_LEVELS = ("must", "should", "may")


@dataclass(slots=True)
class Outcome:
    """The result of a test: pass, fail, skip or error. step: the step at fault."""

    id: str
    name: str
    level: str
    transport: str
    result: str = "pass"
    step: str = ""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def check_conformance(context: typer.Context, flags: ConformanceFlags) -> None:
    """Runs the documents. Raises typer.Exit, typer.BadParameter."""
    refuse_equivalents(flags, "conformance makes several")
    tests = list(each_test(list(documents_of(flags.suite)), flags.only or ()))
    if not tests:
        raise usage_error("--only" if flags.only else "--suite", "there is no such test")
    # An agent in code is served, and documents know no bindings of other packages.
    flags = replace(flags, transport=flags.transport or list(_NAMES))
    outcomes: list[Outcome] = []

    async def bindings(session: Session) -> list[str]:
        found = choose_interfaces(session.card, parse_transports(flags), flags.a2a_version)
        return list(dict.fromkeys(one.interface.protocol_binding for one in found))

    for binding in run(context, flags, bindings):
        one, last = replace(flags, transport=[binding]), LastResponse()

        async def check(session: Session, binding: str = binding, last: LastResponse = last) -> None:
            for number, test in enumerate(tests):
                outcomes.append(await _outcome(session, test, binding, last))
                if flags.output is Output.TEXT:
                    _show(outcomes[-1], first=not number)

        run(context, one, check, last)
    _report(outcomes, flags)
    bad = any(one.result in ("fail", "error") and one.level == "must" for one in outcomes)
    raise typer.Exit(Exit.FAILURE if bad else Exit.OK)


async def _outcome(session: Session, test: Mapping[str, Any], binding: str, last: LastResponse) -> Outcome:
    outcome = Outcome(str(test.get("id")), str(test.get("name")), _LEVELS[0], _NAMES[binding])
    started = time.monotonic()
    step: Mapping[str, Any] = {}
    try:
        outcome.level = _level(test)
        _check_preconditions(session.card, test, _NAMES[binding])
        running = TestRun(session, test, binding, last)
        for step in entries(test, "steps"):
            await running.step(step)
        step = {}
        running.check(test.get("assertions", ()))
    except SkippedError as skipped:
        outcome.result, outcome.problems = "skip", [str(skipped)]
    except FailedError as failed:
        outcome.result, outcome.problems = "fail", list(failed.args)
    except TimeoutError:
        outcome.result, outcome.problems = "fail", [f"no response in {STEP:g} s"]
    except A2AError as error:
        outcome.result, outcome.problems = "fail", [f"{code_of(error)}: {error.message}"]
    except Exception as error:  # noqa: BLE001  a document can be wrong in any way
        outcome.result, outcome.problems = "error", [f"{type(error).__name__}: {error}"]
    outcome.step = str(step.get("id", "")) if outcome.problems else ""
    outcome.seconds = time.monotonic() - started
    return outcome


def _level(test: Mapping[str, Any]) -> str:
    """The level of a test. Raises ValueError for an unknown level: its results would not be counted."""
    level = str(test.get("level", _LEVELS[0])).lower()
    if level not in _LEVELS:
        raise ValueError(f"the level {level} is none of {', '.join(_LEVELS)}")
    return level


def _check_preconditions(card: hub.AgentCard, test: Mapping[str, Any], transport: str) -> None:
    wanted = test.get("preconditions", {})
    if special := test.get("runner_requirements"):
        raise SkippedError(f"this runner has no {', '.join(special)}")
    for listed in (test.get("transport"), wanted.get("transport")):
        if listed and transport not in listed:
            raise SkippedError(f"for {', '.join(listed)} only")
    shown = V1_0.card.encode(card)
    able: Any = shown.get("capabilities", {})
    for name, value in wanted.get("capabilities", {}).items():
        if able.get(name, False) != value:
            raise SkippedError(f"the card does not say {name}: {value}")
    protected = bool(card.security_schemes and card.security_requirements)
    if wanted.get("authentication", protected) != protected:
        raise SkippedError(f"the card does not say authentication: {wanted['authentication']}")
    skills = {one.id for one in card.skills}
    if any(one["id"] not in skills for one in wanted.get("skills", ())):
        raise SkippedError("the card has no such skill")
    if not {one.uri for one in card.capabilities.extensions}.issuperset(wanted.get("extensions", ())):
        raise SkippedError("the card has no such extension")


def _show(one: Outcome, *, first: bool) -> None:
    if first:
        data(text.field("Transport", one.transport), end="")
    words = f"{one.id} {one.name}" + (f" ({'; '.join(one.problems)})" if one.problems else "")
    data(text.field(one.result.capitalize(), words), end="")


def _report(outcomes: Sequence[Outcome], flags: ConformanceFlags) -> None:
    summary = {}
    for level in _LEVELS:
        counts = Counter(one.result for one in outcomes if one.level == level)
        summary[level] = {name: counts[name] for name in ("pass", "fail", "skip", "error")}
    if flags.output is Output.TEXT:
        for level, row in summary.items():
            done = row["pass"] + row["fail"] + row["error"]
            extra = f"{row['fail'] + row['error']} failed, {row['skip']} skipped"
            data(text.field(level.capitalize(), f"{row['pass']}/{done} passed ({extra})"), end="")
        return
    tests = [
        {
            "id": one.id,
            "name": one.name,
            "level": one.level,
            "transport": one.transport,
            "result": one.result,
            "step": one.step or None,
            "problems": one.problems,
            "milliseconds": round(one.seconds * 1000, 1),
        }
        for one in outcomes
    ]
    document(
        {
            "conformant": not any(summary["must"][name] for name in ("fail", "error")),
            "summary": summary,
            "tests": tests,
        }
    )


ACTIONS: Mapping[str, ops.Operation[Any, Any]] = {
    "send_message": ops.SEND_MESSAGE,
    "send_streaming_message": ops.SEND_STREAMING_MESSAGE,
    "get_task": ops.GET_TASK,
    "list_tasks": ops.LIST_TASKS,
    "cancel_task": ops.CANCEL_TASK,
    "subscribe_to_task": ops.SUBSCRIBE_TO_TASK,
    "get_extended_agent_card": ops.GET_EXTENDED_AGENT_CARD,
    "create_push_config": ops.CREATE_PUSH_CONFIG,
    "get_push_config": ops.GET_PUSH_CONFIG,
    "list_push_configs": ops.LIST_PUSH_CONFIGS,
    "delete_push_config": ops.DELETE_PUSH_CONFIG,
}
#: names of errors that 1.0 does not have -> its names for the same errors
_ERRORS: Mapping[Any, list[str]] = {
    "StreamingNotSupportedError": ["UnsupportedOperationError"],
    "ExtendedCardNotSupportedError": ["UnsupportedOperationError", "ExtendedAgentCardNotConfiguredError"],
}
#: seconds of one call, and the longest pause between two
STEP = 30.0
_QUANTITIES: Mapping[str, Callable[[list[bool]], bool]] = {
    "any": any,
    "all": all,
    "none": lambda found: not any(found),
}


class SkippedError(Exception):
    """A test that does not apply."""


class FailedError(Exception):
    """A step whose response is wrong."""


class LastResponse:
    """Status and headers of the last response over HTTP; it observes frames."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Before a call: as if it were one without HTTP."""
        self.status = 200
        #: names in lower case; None without HTTP
        self.headers: Mapping[str, str] | None = None

    def __call__(self, frame: Frame) -> None:
        if not frame.sent and frame.head.startswith("HTTP/"):
            self.status = int(frame.head.split()[1])
            self.headers = {name.lower(): value for name, value in frame.headers}


class TestRun:
    """One test while it runs. binding: the name that the card has for it. last: observes the session."""

    __test__ = False  # for pytest, which collects by name

    def __init__(self, session: Session, test: Mapping[str, Any], binding: str, last: LastResponse) -> None:
        self._session = session
        self._last = last
        self._url = _url(session.card, binding)
        self._variables: dict[str, Any] = {
            "baseUrl": self._url,
            "SUT_BASE_URL": self._url,
            # Of a server with accounts; the documents ask for them, and no document defines them.
            "otherUserTaskId": "task-of-another-user",
            "insufficientAuthToken": "insufficient",
        }
        own = {name: value for name, value in test["variables"].items() if name != "baseUrl"}
        self._variables |= acts.fill(own, self._variables)

    async def step(self, written: Mapping[str, Any]) -> None:
        """Runs a step. Raises FailedError, SkippedError, TimeoutError, A2AError, LookupError."""
        step = step_of(written)
        await asyncio.sleep(step.get("delay_ms", 0) / 1000)
        name = str(step.get("id"))
        if "golden_response" in step:
            await self._parse(step)
        elif "raw_request" in step:
            await self._raw(step, name)
        elif "action" in step:
            await self._call(step, name)
        elif "assertion" not in step:
            raise SkippedError("this runner does not know such a step")
        if "assertion" in step:
            self.check([step["assertion"]])
        self.check(step.get("assertions", ()))

    def check(self, assertions: Sequence[Mapping[str, Any]]) -> None:
        """Checks assertions on earlier responses. Raises FailedError, LookupError."""
        for one in acts.fill(list(assertions), self._variables):
            for quantity, holds in _QUANTITIES.items():
                wanted = one.get(quantity)
                if wanted is None:
                    continue
                values = acts.at(one["source"], wanted["path"]) or acts.at(
                    one["source"], wanted["path"].removeprefix("result.")
                )
                if not holds([not acts.problems(wanted["match"], value) for value in values]):
                    raise FailedError(f"{quantity} of {len(values)} at {wanted['path']}: {wanted['match']}")

    async def _call(self, step: Mapping[str, Any], name: str) -> None:
        repeat: Mapping[str, Any] = step.get("repeat") or {}
        attempts = repeat.get("max_attempts", 10) if repeat else 1
        for attempt in range(attempts):
            answer = await self._answer(step)
            self._keep(name, answer, step.get("capture", {}))
            if not repeat or acts.is_reached(repeat["until"], answer):
                break
            factor = {"linear": attempt + 1, "exponential": 2**attempt}.get(repeat.get("backoff", ""), 1)
            await asyncio.sleep(min(repeat.get("delay_ms", 1000) / 1000 * factor, STEP))
        else:
            raise FailedError(f"{repeat['until']} does not hold after {attempts} attempts")
        if "expect_stream" in step:
            _verify(acts.stream_problems(acts.fill(step["expect_stream"], self._variables), answer))
        if "expect" in step:
            expected = _with_lower_names(acts.fill(step["expect"], self._variables))
            if "headers" in expected and self._last.headers is None:
                raise SkippedError("this binding has no headers of HTTP")
            body = dict(expected.get("body", {}))
            kind = body.pop("result_type", None)
            if kind and list(answer) != [kind]:
                raise FailedError(f"the result is {', '.join(answer) or 'empty'}, and no {kind}")
            wire = {name: expected[name] for name in ("status", "headers") if name in expected}
            shown = {"status": self._last.status, "headers": self._last.headers}
            _verify(acts.problems(wire, shown) if wire else [])
            _verify(acts.problems(body, answer) if body else [])

    async def _answer(self, step: Mapping[str, Any]) -> Any:
        """The response as JSON; of a stream its events; of an expected error that error."""
        self._last.forget()
        if step["action"] == "get_agent_card":
            return await self._card(whole="headers" in step.get("expect", {}))
        operation = ACTIONS[step["action"]]
        request = decoder(operation.request)(request_of(acts.fill(step["request"], self._variables)))
        call = Call(operation, request, self._session.context)
        expected = step.get("expect_error")
        limit = (step.get("expect_stream") or {}).get("timeout_ms", STEP * 1000) / 1000
        try:
            async with asyncio.timeout(limit):
                answer = await self._call_operation(operation, call)
        except A2AError as error:
            if expected is None:
                raise
            return self._expect(error, acts.fill(expected, self._variables))
        if expected is not None:
            raise FailedError(f"there is a response, and no {expected.get('error_type', 'error')}")
        return answer

    async def _card(self, *, whole: bool) -> Any:
        """The public card. whole: it is read again at its usual place, for the headers of the response."""
        if whole and self._url:
            headers = {"accept": "application/json", "a2a-version": V1_0.version}
            options = replace(self._session.options, frame_observer=self._last)
            async with asyncio.timeout(STEP), http_exchange(options) as exchange:
                await exchange("GET", _join(self._url, "/.well-known/agent-card.json"), headers, None)
        return V1_0.card.encode(self._session.card)

    async def _call_operation(self, operation: ops.Operation[Any, Any], call: Call[Any, Any]) -> Any:
        service = self._session.peer.service
        if isinstance(operation, ops.Streaming):
            encode = encoder(hub.StreamResponse)
            async with aclosing(service.stream(call)) as events:
                return [encode(event.message) async for event in events]
        found = await service.unary(call)
        return encoder(type(found))(found) if found is not None else {}

    def _expect(self, error: A2AError, expected: Mapping[str, Any]) -> Any:
        """An error that has to be as expected."""
        shown = {"error": code_of(error), "message": error.message, "details": dict(error.metadata)}
        wanted = {name: value for name, value in expected.items() if name != "error_type"}
        if "error_type" in expected:
            kind = expected["error_type"]
            names = _ERRORS.get(kind, [kind]) if isinstance(kind, str) else kind
            wanted["error"] = {"one_of": names} if isinstance(names, list) else names
        _verify(acts.problems(wanted, shown) if wanted else [])
        return shown

    async def _raw(self, step: Mapping[str, Any], name: str) -> None:
        asked = acts.fill(step["raw_request"], self._variables)
        body = asked["rawBody"]
        if body is None and "body" in asked:
            body = json.dumps(asked["body"])
        headers = {"content-type": "application/json"} if body is not None else {}
        headers |= {str(key).lower(): str(value) for key, value in asked.get("headers", {}).items()}
        method, url = str(asked.get("method", "POST")), _join(self._url, str(asked["path"]))
        async with asyncio.timeout(STEP), http_exchange(replace(self._session.options, named="")) as exchange:
            reply = await exchange(method, url, headers, None if body is None else str(body).encode())
        tree = _events(reply.body) if "expect_stream" in step else _tree(reply.body)
        self._keep(name, tree, step.get("capture", {}))
        expected = _with_lower_names(acts.fill(step["raw_expect"] or {}, self._variables))
        shown = {"status": reply.status, "headers": dict(reply.headers), "body": tree}
        _verify(acts.problems(expected, shown) if expected else [])
        if "expect_stream" in step:
            _verify(acts.stream_problems(acts.fill(step["expect_stream"], self._variables), tree))

    async def _parse(self, step: Mapping[str, Any]) -> None:
        """What our own client makes of a response, which has to be as expected."""
        golden = acts.fill(step["golden_response"], self._variables)
        expected = acts.fill(step["expect_parsed"], self._variables)
        async with asyncio.timeout(STEP):
            readings = await acts.readings(golden)
        _verify(min((acts.problems(expected, one) for one in readings), key=len))

    def _keep(self, name: str, answer: Any, capture: Mapping[str, str]) -> None:
        self._variables[f"{name}.response"] = answer
        for variable, path in capture.items():
            found = acts.at(answer, path)
            if found:
                self._variables[f"{name}.{variable}"] = self._variables[variable] = found[0]


def _with_lower_names(expected: Mapping[str, Any]) -> dict[str, Any]:
    """What is expected of a response, with names of headers in lower case, also in `any_of`."""

    def lower(tree: Any) -> Any:
        if isinstance(tree, list):
            return [lower(one) for one in tree]
        if not isinstance(tree, dict):
            return tree
        members = {name for name, value in tree.items() if not acts.is_operator(name, value)}
        return {
            name.lower() if name in members else name: value if name in members else lower(value)
            for name, value in tree.items()
        }

    return {name: lower(value) if name == "headers" else value for name, value in expected.items()}


def _verify(problems: Sequence[str]) -> None:
    if problems:
        raise FailedError(*problems)


def _url(card: hub.AgentCard, binding: str) -> str:
    """The URL for raw requests: of the binding, or of HTTP for a binding without a URL."""
    urls = {one.protocol_binding: one.url for one in reversed(card.supported_interfaces)}
    over_http = [url for name, url in urls.items() if name != "GRPC"]
    return urls[binding] if binding in urls and binding != "GRPC" else next(iter(over_http), "")


def _join(url: str, path: str) -> str:
    """A path below the URL of an interface; `/` is the URL itself, well-known paths are paths of its host."""
    if "://" in path:
        return path
    if path == "/":
        return url
    if not path.startswith("/.well-known/"):
        return url.rstrip("/") + path
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{path}"


def _tree(body: bytes) -> Any:
    try:
        return loads(body)
    except JsonSyntaxError:
        return body.decode("utf-8", "replace")


def _events(body: bytes) -> list[Any]:
    """The events of a stream that has ended."""
    lines = body.decode("utf-8", "replace").splitlines()
    return [_tree(line[5:].strip().encode()) for line in lines if line.startswith("data:")]
