"""`conformance`: reads the documents, runs their tests over each binding, and reports.

Rules (ACTS 12):
1. Tests share nothing; each starts with its own variables. A test whose preconditions the card does not meet,
   or that needs what this runner cannot do, is skipped with the reason.
2. Names of errors are those of A2A 1.0; where the draft has another one, 1.0 counts.
3. `fail` is a wrong answer of the agent; `error` is a document that cannot be run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import typer

from a2a_bridge.bindings import http_post
from a2a_bridge.cli.client import acts, text
from a2a_bridge.cli.client.flags import ConformanceFlags
from a2a_bridge.cli.client.reaching import Session, chosen, run, wanted_transports
from a2a_bridge.cli.error_codes import code_of
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import data, document
from a2a_bridge.codec import DecodeError, JsonSyntaxError, decoder, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub

_ACTIONS: Mapping[str, ops.Operation[Any, Any]] = {
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
_NAMES = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest", "GRPC": "grpc"}
#: names of errors that 1.0 does not have -> those that it has for the same
_ERRORS = {
    "StreamingNotSupportedError": {"UnsupportedOperationError"},
    "ExtendedCardNotSupportedError": {"UnsupportedOperationError", "ExtendedAgentCardNotConfiguredError"},
}
#: seconds of a step
_STEP = 30.0
_LEVELS = ("must", "should", "may")


@dataclass(slots=True)
class Outcome:
    """The result of a test: pass, fail, skip or error. step: the one at fault."""

    id: str
    name: str
    level: str
    transport: str
    result: str = "pass"
    step: str = ""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class SkippedError(Exception):
    """A test that does not apply."""


class FailedError(Exception):
    """A step whose answer is wrong."""


def check_conformance(context: typer.Context, flags: ConformanceFlags) -> None:
    """Runs the documents. Raises typer.Exit, typer.BadParameter."""
    documents = list(documents_of(flags.suite))
    outcomes: list[Outcome] = []

    async def bindings(session: Session) -> list[str]:
        found = chosen(session.card, wanted_transports(flags), flags.a2a_version)
        return list(dict.fromkeys(one.interface.protocol_binding for one in found))

    for binding in run(context, flags, bindings):
        one = replace(flags, transport=[binding])

        async def check(session: Session, binding: str = binding) -> None:
            for number, test in enumerate(tests_of(documents, flags.only or ())):
                outcomes.append(await _outcome(session, test, binding))
                if flags.output is Output.TEXT:
                    _show(outcomes[-1], first=not number)

        run(context, one, check)
    _report(outcomes, flags)
    bad = any(one.result in ("fail", "error") and one.level == "must" for one in outcomes)
    raise typer.Exit(Exit.FAILURE if bad else Exit.OK)


def documents_of(suite: Path | None) -> Iterator[Mapping[str, Any]]:
    """The documents of a suite, with those that they include. Raises typer.BadParameter."""
    if suite is None:
        yield json.loads((files("a2a_bridge.cli") / "suite.acts.json").read_text("utf-8"))
        return
    paths = [suite]
    if suite.is_dir():
        paths = sorted([*suite.glob("*.acts.yaml"), *suite.glob("*.acts.json")])
    if not paths:
        raise typer.BadParameter(f"{suite} has no *.acts.yaml", param_hint="--suite")
    seen: set[Path] = set()
    while paths:
        path = paths.pop(0)
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        tree = _read(path)
        if str(tree.get("acts_version", "")).partition(".")[0] not in ("0", "1"):
            version = tree.get("acts_version")
            raise typer.BadParameter(
                f"{path}: the version {version!r} of ACTS is unknown", param_hint="--suite"
            )
        paths += [path.parent / name for name in tree.get("include", ())]
        yield tree


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
        if path.suffix == ".json":
            tree: Any = loads(content)
        else:
            import yaml  # type: ignore[import-untyped]

            tree = yaml.safe_load(content)
    except ImportError:
        text_ = "YAML documents need PyYAML: pip install pyyaml"
        raise typer.BadParameter(text_, param_hint="--suite") from None
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint="--suite") from None
    except Exception as error:  # noqa: BLE001  every parser has errors of its own
        raise typer.BadParameter(f"{path} is no document: {error}", param_hint="--suite") from None
    if not isinstance(tree, dict):
        raise typer.BadParameter(f"{path} is no ACTS document", param_hint="--suite")
    return tree


def tests_of(documents: Sequence[Mapping[str, Any]], only: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The tests of documents, each with `variables`. only: beginnings of ids; empty: all."""
    for one in documents:
        for suite in one.get("suites", ()):
            for test in suite.get("tests", ()):
                if not only or str(test.get("id", "")).startswith(tuple(only)):
                    yield {**test, "variables": one.get("variables", {})}


async def _outcome(session: Session, test: Mapping[str, Any], binding: str) -> Outcome:
    outcome = Outcome(
        str(test.get("id")), str(test.get("name")), str(test.get("level", "must")), _NAMES[binding]
    )
    started = time.monotonic()
    step: Mapping[str, Any] = {}
    try:
        _check_preconditions(session.card, test, _NAMES[binding])
        runner = _Test(session, test)
        for step in test.get("steps", ()):
            async with asyncio.timeout(_STEP + step.get("delay_ms", 0) / 1000):
                await runner.step(step)
    except SkippedError as skipped:
        outcome.result, outcome.problems = "skip", [str(skipped)]
    except FailedError as failed:
        outcome.result, outcome.problems = "fail", list(failed.args)
    except TimeoutError:
        outcome.result, outcome.problems = "fail", [f"no answer in {_STEP:g} s"]
    except A2AError as error:
        outcome.result, outcome.problems = "fail", [f"{code_of(error)}: {error.message}"]
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        outcome.result, outcome.problems = "error", [f"{type(error).__name__}: {error}"]
    outcome.step = str(step.get("id", "")) if outcome.problems else ""
    outcome.seconds = time.monotonic() - started
    return outcome


def _check_preconditions(card: hub.AgentCard, test: Mapping[str, Any], transport: str) -> None:
    wanted = test.get("preconditions", {})
    for listed in (test.get("transport"), wanted.get("transport")):
        if listed and transport not in listed:
            raise SkippedError(f"for {', '.join(listed)} only")
    shown = V1_0.card.encode(card)
    able: Any = shown.get("capabilities", {})
    for name, value in wanted.get("capabilities", {}).items():
        if able.get(name, False) != value:
            raise SkippedError(f"the card does not say {name}: {value}")
    skills = {one.id for one in card.skills}
    if any(one["id"] not in skills for one in wanted.get("skills", ())):
        raise SkippedError("the card has no such skill")
    extensions = {one.uri for one in card.capabilities.extensions}
    if not extensions.issuperset(wanted.get("extensions", ())):
        raise SkippedError("the card has no such extension")


class _Test:
    """One test while it runs."""

    def __init__(self, session: Session, test: Mapping[str, Any]) -> None:
        self._session = session
        self._variables: dict[str, Any] = {"baseUrl": _base(session.card)}
        own = {name: value for name, value in test["variables"].items() if name != "baseUrl"}
        self._variables |= acts.filled(own, self._variables)

    async def step(self, step: Mapping[str, Any]) -> None:
        """Runs a step. Raises FailedError, SkippedError, A2AError, LookupError."""
        await asyncio.sleep(step.get("delay_ms", 0) / 1000)
        name = str(step.get("id"))
        if "assertion" in step:
            self._assert(acts.filled(step["assertion"], self._variables))
        elif step.get("type") == "client_test":
            self._parse(step)
        elif "raw_request" in step:
            await self._raw(step, name)
        else:
            await self._call(step, name)

    async def _call(self, step: Mapping[str, Any], name: str) -> None:
        repeat: Mapping[str, Any] = step.get("repeat") or {}
        attempts = repeat.get("max_attempts", 10) if repeat else 1
        for attempt in range(attempts):
            answer = await self._answer(step)
            self._keep(name, answer, step.get("capture", {}))
            if not repeat or acts.reached(repeat["until"], answer):
                break
            factor = {"linear": attempt + 1, "exponential": 2**attempt}.get(repeat.get("backoff", ""), 1)
            await asyncio.sleep(min(repeat.get("delay_ms", 1000) / 1000 * factor, _STEP))
        else:
            raise FailedError(f"{repeat['until']} does not hold after {attempts} attempts")
        if "expect_stream" in step:
            _verify(acts.stream_problems(acts.filled(step["expect_stream"], self._variables), answer))
        elif "expect" in step:
            expected = dict(acts.filled(step["expect"], self._variables))
            kind = expected.pop("result_type", None)
            if kind and list(answer) != [kind]:
                raise FailedError(f"the result is {', '.join(answer) or 'empty'}, and no {kind}")
            _verify(acts.problems(expected, answer))

    async def _answer(self, step: Mapping[str, Any]) -> Any:
        """The answer as JSON; of a stream its events; of an expected error that error."""
        if step["action"] == "get_agent_card":
            return V1_0.card.encode(self._session.card)
        operation = _ACTIONS[step["action"]]
        request = decoder(operation.request)(
            _request(acts.filled(step.get("request") or {}, self._variables))
        )
        call = Call(operation, request, self._session.context)
        service = self._session.peer.service
        expected = step.get("expect_error")
        try:
            if isinstance(operation, ops.Streaming):
                encode = encoder(hub.StreamResponse)
                async with aclosing(service.stream(call)) as events:
                    answer: Any = [encode(event.message) async for event in events]
            else:
                found = await service.unary(call)
                answer = encoder(type(found))(found) if found is not None else {}
        except A2AError as error:
            if expected is None:
                raise
            wanted = _ERRORS.get(expected["error_type"], {expected["error_type"]})
            shown = {"error": code_of(error), "message": error.message, "details": error.metadata}
            _verify(acts.problems({"error": {"one_of": sorted(wanted)}}, shown))
            rest = {name: value for name, value in expected.items() if name != "error_type"}
            _verify(acts.problems(acts.filled(rest, self._variables), shown))
            return shown
        if expected is not None:
            raise FailedError(f"there is an answer, and no {expected['error_type']}")
        return answer

    async def _raw(self, step: Mapping[str, Any], name: str) -> None:
        asked = acts.filled(step["raw_request"], self._variables)
        if asked.get("method") != "POST":
            raise SkippedError(f"this runner sends no raw {asked.get('method')}")
        body = asked.get("rawBody")
        body = json.dumps(asked.get("body", {})) if body is None else str(body)
        path = str(asked["path"])
        url = path if "://" in path else self._variables["baseUrl"].rstrip("/") + path
        headers = {"content-type": "application/json"}
        headers |= {str(key).lower(): str(value) for key, value in asked.get("headers", {}).items()}
        async with http_post(replace(self._session.options, named="")) as post:
            reply = await post(url, headers, body.encode())
        try:
            tree: Any = loads(reply.body)
        except JsonSyntaxError:
            tree = reply.body.decode("utf-8", "replace")
        shown = {"status": reply.status, "headers": dict(reply.headers), "body": tree}
        self._keep(name, shown, step.get("capture", {}))
        expected = dict(acts.filled(step.get("raw_expect") or {}, self._variables))
        if "headers" in expected:
            expected["headers"] = {key.lower(): value for key, value in expected["headers"].items()}
            shown["headers"] = {key.lower(): value for key, value in reply.headers.items()}
        _verify(acts.problems(expected, shown))

    def _parse(self, step: Mapping[str, Any]) -> None:
        """What our own client makes of a response."""
        body = step["golden_response"]["body"]
        result = body.get("result", body) if isinstance(body, dict) else body
        kinds = (hub.SendMessageResponse, hub.StreamResponse, hub.Task, hub.AgentCard, hub.ListTasksResponse)
        found = []
        for kind in kinds:
            try:
                parsed = encoder(kind)(decoder(kind)(result))
            except (DecodeError, A2AError):
                continue
            found.append(acts.problems(step["expect_parsed"], parsed))
        best = min(found, key=len, default=["no message of A2A can be read from it"])
        _verify(best)

    def _assert(self, assertion: Mapping[str, Any]) -> None:
        for quantity, test in (("any", any), ("all", all), ("none", lambda found: not any(found))):
            wanted = assertion.get(quantity)
            if wanted is not None:
                values = acts.at(assertion["source"], wanted["path"].removeprefix("result."))
                if not test([not acts.problems(wanted["match"], one) for one in values]):
                    raise FailedError(f"{quantity} of {len(values)} at {wanted['path']}: {wanted['match']}")

    def _keep(self, name: str, answer: Any, capture: Mapping[str, str]) -> None:
        self._variables[f"{name}.response"] = answer
        for variable, path in capture.items():
            found = acts.at(answer, path)
            if found:
                self._variables[f"{name}.{variable}"] = self._variables[variable] = found[0]


def _verify(problems: Sequence[str]) -> None:
    if problems:
        raise FailedError(*problems)


def _base(card: hub.AgentCard) -> str:
    return next((one.url for one in card.supported_interfaces if one.protocol_binding != "GRPC"), "")


def _request(tree: dict[str, Any]) -> Any:
    """The request of 1.0: messages get ids, files and the names of the draft become those of 1.0."""
    if "cursor" in tree:
        tree["pageToken"] = tree.pop("cursor")
    config = tree.pop("pushNotificationConfig", None)
    if isinstance(config, dict):
        tree |= config
    if "configId" in tree:
        tree["id"] = tree.pop("configId")
    message = tree.get("message")
    if isinstance(message, dict):
        message.setdefault("messageId", str(uuid4()))
        message["parts"] = [_part(one) for one in message.get("parts", ())]
    return tree


def _part(part: Any) -> Any:
    if not isinstance(part, dict) or not isinstance(part.get("file"), dict):
        return part
    file = part["file"]
    names = {"url": "url", "raw": "raw", "mediaType": "mediaType", "name": "filename"}
    return {names[name]: value for name, value in file.items() if name in names}


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
