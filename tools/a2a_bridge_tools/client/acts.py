"""A2A's conformance documents (ACTS 0.1): variables, paths and assertions, with every step in one form; and
responses in documents, read by our own client.

Rules of assertions:
1. An assertion returns what is wrong, as texts with paths; an empty list is a pass.
2. A key of a map is an operator if it has the name of one and an argument that this operator takes; any other
   key is a member of the value. So `{type: {type: string}}` is about a member `type`. A list asserts element
   by element, everything else equality.
3. A variable that cannot be resolved is an error of the step (ACTS 12.2).
4. An assertion on an event holds for the event or for what is in it: documents write both `statusUpdate:
   {status: …}` and `status: …`.

Rules of documents:
1. A2A's published documents and the specification of ACTS have different words for the same. Both are read;
   afterwards a step has the words of the specification: `action` and `request`, `raw_request` and
   `raw_expect`, `golden_response`, `error_type`.
2. What is expected of a response is `{status, headers, body}` afterwards; documents may leave out `body`.
3. Variables of a document are there for all others (ACTS 2); its own come first.
4. A document whose tests cannot be listed is an error of the command line, which names the place; a mistake
   within a test is an error of that test.

A server of this process sends the response that a document has. The client of JSONRPC reads a body with
`jsonrpc`, the client of HTTP+JSON any other body. A public card is no response of an operation, and is
decoded only.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from operator import eq, ge, gt, le, lt
from pathlib import Path
from typing import Any
from uuid import uuid4

from a2a_bridge.app import runtime
from a2a_bridge.cards import interface
from a2a_bridge.cli.values import usage_error
from a2a_bridge.codec import DecodeError, decoder, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge_tools.client.comparing import ABSENT

_TYPES = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_NUMBERS = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def _matches(value: str, pattern: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except (re.error, OverflowError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None


_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda value, part: part in value,
    "matches": _matches,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}
_COUNTS = {"count": eq, "count_gte": ge, "count_lte": le}
#: operator -> types of its argument; `items` is in no table of ACTS, but in its documents
_ARGUMENTS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys((*_NUMBERS, *_COUNTS), (int, float)),
    **dict.fromkeys(_TEXTS, (str,)),
    **dict.fromkeys(("exists", "absent"), (bool,)),
    **dict.fromkeys(("one_of", "all_of", "any_of"), (list,)),
    "items": (dict, list),
    "not": (object,),
}
_VARIABLE = re.compile(r"\{\{\s*([^}]+?)\s*\}\}")
_SEGMENT = re.compile(r"([^.\[\]]+)|\[(\d+|\*)\]")
_UNTIL = re.compile(r"\s*(\S+)\s+(==|!=|in)\s+(.+?)\s*")


def is_operator(name: str, argument: Any) -> bool:
    """Whether a key of a map is an operator (rule 2)."""
    if name == "type":
        return isinstance(argument, str) and argument in _TYPES
    return isinstance(argument, _ARGUMENTS.get(name, ()))


def problems(expected: Any, actual: Any, path: str = "") -> list[str]:
    """The problems of a value. Raises ValueError for an invalid regular expression."""
    here = path or "the result"
    if isinstance(expected, dict):
        found: list[str] = []
        members = {name: value for name, value in expected.items() if not is_operator(name, value)}
        for name, value in expected.items():
            if name not in members:
                found += _operator(name, value, actual, here)
        if not isinstance(actual, dict) and (members or not expected):
            return [*found, f"{here}: {_short(actual)} is no object"]
        for name, value in members.items():
            found += problems(value, actual.get(name, ABSENT), f"{path}.{name}".lstrip("."))
        return found
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) < len(expected):
            return [f"{here}: {_short(actual)} has fewer than {len(expected)} elements"]
        return [
            text
            for number, value in enumerate(expected)
            for text in problems(value, actual[number], f"{path}[{number}]")
        ]
    same = expected == actual and isinstance(expected, bool) is isinstance(actual, bool)
    return [] if same else [f"{here}: {_short(actual)} instead of {_short(expected)}"]


def _operator(name: str, value: Any, actual: Any, here: str) -> list[str]:
    ok: bool
    if name == "exists":
        ok = (actual is not ABSENT) is bool(value)
    elif name == "absent":
        ok = (actual is ABSENT) is bool(value)
    elif name == "type":
        ok = isinstance(actual, _TYPES[value]) and (value == "boolean" or not isinstance(actual, bool))  # type: ignore[arg-type]
    elif name in ("one_of", "any_of"):
        ok = any(not problems(one, actual) for one in value)
    elif name == "all_of":
        return [text for one in value for text in problems(one, actual, here)]
    elif name == "not":
        ok = bool(problems(value, actual))
    elif name == "items":
        if not isinstance(actual, list):
            return [f"{here}: {_short(actual)} is no array"]
        each = value if isinstance(value, list) else [value] * len(actual)
        return problems(each, actual, "" if here == "the result" else here)
    elif name in _TEXTS:
        ok = isinstance(actual, str) and _TEXTS[name](actual, str(value))
    elif name in _COUNTS:
        ok = isinstance(actual, list) and _COUNTS[name](len(actual), value)
    else:
        number = isinstance(actual, (int, float)) and not isinstance(actual, bool)
        ok = number and _NUMBERS[name](actual, value)
    return [] if ok else [f"{here}: {_short(actual)} is not {name} {_short(value)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def at(tree: Any, path: str) -> list[Any]:
    """The values at a path such as `task.artifacts[*].parts[0].text`."""
    found = [tree]
    for name, index in _SEGMENT.findall(path):
        following = []
        for one in found:
            if name and isinstance(one, dict) and name in one:
                following.append(one[name])
            elif index == "*" and isinstance(one, list):
                following += one
            elif index and index != "*" and isinstance(one, list) and int(index) < len(one):
                following.append(one[int(index)])
        found = following
    return found


def is_reached(condition: str, tree: Any) -> bool:
    """Whether the condition of `repeat.until` holds. Raises ValueError for another text."""
    found = _UNTIL.fullmatch(condition)
    if found is None:
        raise ValueError(f"{condition!r} is no condition")
    path, operator, text = found.groups()
    value = next(iter(at(tree, path)), None)
    words = [word.strip().strip("'\"") for word in text.strip("[]").split(",")]
    same = str(value) in words
    return same if operator in ("==", "in") else not same


def fill(tree: Any, variables: Mapping[str, Any]) -> Any:
    """A tree with the values of its variables. Raises LookupError for an unknown variable."""
    if isinstance(tree, dict):
        return {name: fill(value, variables) for name, value in tree.items()}
    if isinstance(tree, list):
        return [fill(one, variables) for one in tree]
    if not isinstance(tree, str):
        return tree
    whole = _VARIABLE.fullmatch(tree)
    if whole is not None:
        return _value(whole[1], variables)
    return _VARIABLE.sub(lambda found: str(_value(found[1], variables)), tree)


def _value(name: str, variables: Mapping[str, Any]) -> Any:
    if name == "$uuid":
        return str(uuid4())
    if name in variables:
        return variables[name]
    if name.startswith("env.") and name[4:] in os.environ:
        return os.environ[name[4:]]
    raise LookupError(f"the variable {name} is unknown")


_ENDS, _ASKS = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}, {"INPUT_REQUIRED", "AUTH_REQUIRED"}
#: state -> the states that may follow (ACTS 7.1); a state may repeat
_FOLLOWS = {
    "SUBMITTED": {"WORKING"} | _ENDS | _ASKS,
    "WORKING": _ENDS | _ASKS,
    **dict.fromkeys(_ASKS, {"WORKING"} | _ENDS),
}


#: names of ACTS in an assertion on an event -> names of A2A
_EVENTS = {"status_update": "statusUpdate", "artifact_update": "artifactUpdate"}


def stream_problems(expected: Mapping[str, Any], events: Sequence[Any]) -> list[str]:
    """What is wrong with the events of a stream."""
    found: list[str] = []
    if len(events) < expected.get("min_count", 0):
        found.append(f"{len(events)} events, fewer than {expected['min_count']}")
    if len(events) > expected.get("max_count", len(events)):
        found.append(f"{len(events)} events, more than {expected['max_count']}")
    if expected.get("ordering") == "monotonic_state":
        found += _order(events)
    for number, one in enumerate(expected.get("events", ())):
        wanted = {name: value for name, value in one.items() if name not in ("description", "match", "index")}
        if one.get("match") == "any_position":
            if all(_event_problems(wanted, event) for event in events):
                found.append(f"no event is {_short(wanted)}")
        else:
            index = one.get("index", number)
            event = events[index] if index < len(events) else ABSENT
            found += _event_problems(wanted, event, f"event {index}")
    if "final_event" in expected:
        last = events[-1] if events else ABSENT
        found += _event_problems(expected["final_event"], last, "the last event")
    for number, event in enumerate(events):
        found += _event_problems(expected.get("each_event", {}), event, f"event {number}")
    return found


def _event_problems(wanted: Mapping[str, Any], event: Any, path: str = "") -> list[str]:
    """See rule 4: the fewest problems of the event and of each of its members; of as many, those of the one
    that has what the assertion is about.
    """
    named = _rename_members(wanted)
    if not isinstance(event, dict):
        return problems(named, event, path)
    places = [event, *(one for one in event.values() if isinstance(one, dict))]
    found = [(problems(named, one, path), not named.keys() & one.keys()) for one in places]
    return min(found, key=lambda pair: (len(pair[0]), pair[1]))[0]


def _rename_members(wanted: Any) -> Any:
    """An assertion with the names of A2A 1.0, which has no member `final`."""
    if isinstance(wanted, dict):
        return {
            _EVENTS.get(name, name): _rename_members(value)
            for name, value in wanted.items()
            if name != "final"
        }
    return [_rename_members(one) for one in wanted] if isinstance(wanted, list) else wanted


def _order(events: Sequence[Any]) -> list[str]:
    found, before = [], ""
    for event in events:
        inner = event.get("task") or event.get("statusUpdate") or {}
        state = str(inner.get("status", {}).get("state", "")).removeprefix("TASK_STATE_")
        if state and before and state != before and state not in _FOLLOWS.get(before, set()):
            found.append(f"the state goes from {before} to {state}")
        before = state or before
    return found


#: operation -> what is called. The specification of ACTS lets a document leave out the operation
_CALLS: Mapping[str, tuple[ops.Operation[Any, Any], Any]] = {
    "send_message": (ops.SEND_MESSAGE, {"message": {"messageId": "x", "role": 1, "parts": [{"text": "x"}]}}),
    "get_task": (ops.GET_TASK, {"id": "x"}),
    "cancel_task": (ops.CANCEL_TASK, {"id": "x"}),
    "list_tasks": (ops.LIST_TASKS, {}),
    "get_extended_agent_card": (ops.GET_EXTENDED_AGENT_CARD, {}),
}


async def readings(golden: Mapping[str, Any]) -> list[Any]:
    """The response as JSON, or `{error: {code, message}}`, once for each operation that it may belong to.
    Raises LookupError for an operation without a response to read.
    """
    body, operation = golden["body"], golden.get("operation")
    if operation == "get_agent_card":
        return [_card(body)]
    calls = [_CALLS[operation]] if operation else list(_CALLS.values())
    binding = "JSONRPC" if isinstance(body, dict) and "jsonrpc" in body else "HTTP+JSON"
    status, headers = golden.get("status", 200), golden.get("headers", {})
    async with (
        _serve_response(body, status, headers) as url,
        runtime.connect(interface(binding, url)) as peer,
    ):
        return [await _read_response(peer.service, *call) for call in calls]


def _card(body: Any) -> Any:
    try:
        return V1_0.card.encode(V1_0.card.decode(body))
    except (DecodeError, A2AError) as error:
        return _show(error if isinstance(error, A2AError) else A2AError(Reason.PARSE_ERROR, str(error)))


async def _read_response(service: Service, operation: ops.Operation[Any, Any], tree: Any) -> Any:
    request = decoder(operation.request)(tree)
    try:
        found = await service.unary(Call(operation, request, CallContext()))
    except A2AError as error:
        return _show(error)
    return encoder(type(found))(found)


def _show(error: A2AError) -> Any:
    return {"error": {"code": error.code, "message": error.message}}


@asynccontextmanager
async def _serve_response(body: Any, status: int, headers: Mapping[str, str]) -> AsyncIterator[str]:
    """The URL of a server that gives one response to every request, with the id of a JSON-RPC request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            asked = loads(await reader.readexactly(int(size[1]))) if size else None
            given = {**body, "id": asked["id"]} if isinstance(asked, dict) and "id" in asked else body
            content = json.dumps(given).encode()
            lines = {"Content-Type": "application/json", **headers}
            lines |= {"Content-Length": str(len(content)), "Connection": "close"}
            fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            writer.write(f"HTTP/1.1 {status} -\r\n{fields}\r\n".encode() + content)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


#: names of published documents -> names of the specification
_STEP = {
    "operation": "action",
    "params": "request",
    "raw": "raw_request",
    "client_response": "golden_response",
}
_ACTIONS = {
    "set_push_notification_config": "create_push_config",
    "get_push_notification_config": "get_push_config",
    "list_push_notification_configs": "list_push_configs",
    "delete_push_notification_config": "delete_push_config",
}
_ERROR = {"code": "error_type", "data": "details"}
_RESPONSE = {"status", "headers", "body"}
_KINDS: Mapping[type, str] = {list: "list", dict: "object", str: "text"}


def documents_of(suite: Path | None) -> Iterator[Mapping[str, Any]]:
    """Each document of a suite and of its includes: `variables` and `tests`. Raises typer.BadParameter."""
    if suite is None:
        yield _content(json.loads((files("a2a_bridge_tools.client") / "suite.acts.json").read_text("utf-8")))
        return
    paths, root = [suite], suite.parent
    if suite.is_dir():
        root = suite
        paths = sorted([*suite.glob("*.acts.yaml"), *suite.glob("*.acts.json")])
    if not paths:
        raise usage_error("--suite", f"{suite} has no *.acts.yaml")
    seen: set[Path] = set()
    while paths:
        path = paths.pop(0)
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        tree = _read(path)
        if str(tree.get("acts_version", "")).partition(".")[0] not in ("0", "1"):
            version = tree.get("acts_version")
            raise usage_error("--suite", f"{path}: the version {version!r} of ACTS is unknown")
        try:
            paths += [_included(path, name, root) for name in entries(tree, "include", str)]
            yield _content(tree)
        except ValueError as error:
            raise usage_error("--suite", f"{path}: {error}") from None


def _included(path: Path, name: str, root: Path) -> Path:
    """The document that a document includes. Raises ValueError for one outside of the folder of the suite:
    the author of a suite does not choose what is read of this machine.
    """
    found = path.parent / name
    if not found.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"include: {name} is outside of {root}")
    return found


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
        if path.suffix == ".json":
            tree: Any = loads(content)
        else:
            import yaml  # type: ignore[import-untyped]

            tree = yaml.safe_load(content)
    except ImportError:
        raise usage_error("--suite", "YAML documents need PyYAML: pip install pyyaml") from None
    except OSError as error:
        raise usage_error("--suite", f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001  every parser has errors of its own
        raise usage_error("--suite", f"{path} is no document: {error}") from None
    if not isinstance(tree, dict):
        raise usage_error("--suite", f"{path} is no ACTS document")
    return tree


def _content(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """The variables and the tests of a document. Raises ValueError."""
    tests = []
    for number, suite in enumerate(entries(tree, "suites")):
        tests += entries(suite, "tests", place=f"suites[{number}].")
    return {"variables": _typed(tree.get("variables", {}), dict, "variables"), "tests": tests}


def entries(tree: Mapping[str, Any], name: str, kind: type = dict, place: str = "") -> list[Any]:
    """The entries of the list `name`; empty without it. Raises ValueError that names a value of no `kind`."""
    found: list[Any] = _typed(tree.get(name, []), list, place + name)
    return [_typed(one, kind, f"{place}{name}[{number}]") for number, one in enumerate(found)]


def _typed(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{place} is no {_KINDS[kind]}")  # noqa: TRY004  the document is at fault
    return value


def each_test(documents: Sequence[Mapping[str, Any]], only: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The tests of documents, each with its variables. only: how their ids begin; empty: all tests."""
    shared = {name: value for one in documents for name, value in one["variables"].items()}
    for one in documents:
        for test in one["tests"]:
            if not only or str(test.get("id", "")).startswith(tuple(only)):
                yield {**test, "variables": shared | one["variables"]}


def step_of(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step in the words of the specification (rules 1 and 2)."""
    made = {_STEP.get(name, name): value for name, value in step.items()}
    if "golden_response" in made:
        golden = made["golden_response"]
        made["golden_response"] = {**golden, "body": golden.get("wire_payload", golden.get("body"))}
        return made
    if "raw_request" in made:
        raw = made["raw_request"]
        made["raw_request"] = {**raw, "rawBody": raw.get("body_raw", raw.get("rawBody"))}
        made["raw_expect"] = made.get("raw_expect", made.pop("expect", {}))
    elif "action" in made:
        made["action"] = _ACTIONS.get(made["action"], made["action"])
        made["request"] = dict(made.get("request") or {})
        if made["action"] == "get_agent_card" and made["request"].pop("extended", False):
            made["action"] = "get_extended_agent_card"
    if "expect" in made:
        made["expect"] = _response(made["expect"])
        if made["expect"].get("status") == "error" or "error" in (made["expect"].get("body") or {}):
            del made["expect"]
            made["expect_error"] = {}  # any error: no result of A2A has a member of this name
    if "expect_error" in made:
        made["expect_error"] = {_ERROR.get(name, name): value for name, value in made["expect_error"].items()}
    return made


def _response(expected: Mapping[str, Any]) -> dict[str, Any]:
    """What is expected of a response. Results of A2A have no member `headers` or `body`, but a task has a
    member `status`, which is an object.
    """
    status = expected.get("status", {"state": ""})
    of_task = isinstance(status, dict) and not all(is_operator(*one) for one in status.items())
    if of_task and not expected.keys() & {"headers", "body"}:
        return {"body": dict(expected)}
    made = {name: value for name, value in expected.items() if name in _RESPONSE}
    if others := {name: value for name, value in expected.items() if name not in _RESPONSE}:
        made["body"] = {**made.get("body", {}), **others}
    return made


def request_of(tree: dict[str, Any]) -> Any:
    """The request of 1.0: messages get ids, files and names of the draft become those of 1.0."""
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
        for name in ("taskId", "contextId"):  # published documents write them beside the message
            if name in tree:
                message.setdefault(name, tree.pop(name))
    return tree


def _part(part: Any) -> Any:
    if not isinstance(part, dict) or not isinstance(part.get("file"), dict):
        return part
    file = part["file"]
    names = {"url": "url", "raw": "raw", "mediaType": "mediaType", "name": "filename"}
    return {names[name]: value for name, value in file.items() if name in names}
