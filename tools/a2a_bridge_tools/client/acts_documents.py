"""Conformance documents with every step in one form; and responses in them, read by our own client.

Rules of documents:
1. A2A's published documents and the specification of ACTS have different words for the same. Both are read;
   afterwards a step has the words of the specification: `action` and `request`, `raw_request` and
   `raw_expect`, `golden_response`, `error_type`.
2. What is expected of a response is `{status, headers, body}` afterwards; documents may leave out `body`.
3. Variables of a document are there for all others (ACTS 2); its own come first.
4. A document whose tests cannot be listed is an error of the command line, which names the place; a mistake
   within a test is an error of that test.

Rules of a response that a document has: the client calls a server of this process that gives it.
1. A body with `jsonrpc` is read by the client of JSONRPC, any other one by the client of HTTP+JSON.
2. A public card is no response of an operation, and is decoded only.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import typer

from a2a_bridge.app import runtime
from a2a_bridge.cards import interface
from a2a_bridge.codec import DecodeError, decoder, encoder, loads
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Service
from a2a_bridge.dialects import V1_0
from a2a_bridge_tools.client import acts

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
    """The documents of a suite, with the documents that they include, each as its `variables` and its
    `tests`. Raises typer.BadParameter.
    """
    if suite is None:
        yield _content(json.loads((files("a2a_bridge_tools.client") / "suite.acts.json").read_text("utf-8")))
        return
    paths, root = [suite], suite.parent
    if suite.is_dir():
        root = suite
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
        try:
            paths += [_included(path, name, root) for name in entries(tree, "include", str)]
            yield _content(tree)
        except ValueError as error:
            raise typer.BadParameter(f"{path}: {error}", param_hint="--suite") from None


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
        text_ = "YAML documents need PyYAML: pip install pyyaml"
        raise typer.BadParameter(text_, param_hint="--suite") from None
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint="--suite") from None
    except Exception as error:  # noqa: BLE001  every parser has errors of its own
        raise typer.BadParameter(f"{path} is no document: {error}", param_hint="--suite") from None
    if not isinstance(tree, dict):
        raise typer.BadParameter(f"{path} is no ACTS document", param_hint="--suite")
    return tree


def _content(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """The variables and the tests of a document. Raises ValueError."""
    tests = []
    for number, suite in enumerate(entries(tree, "suites")):
        tests += entries(suite, "tests", place=f"suites[{number}].")
    return {"variables": _typed(tree.get("variables", {}), dict, "variables"), "tests": tests}


def entries(tree: Mapping[str, Any], name: str, kind: type = dict, place: str = "") -> list[Any]:
    """The entries of a list of a document; without that list none. kind: their type. Raises ValueError that
    names the value of another type.
    """
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
    of_task = isinstance(status, dict) and not all(acts.is_operator(*one) for one in status.items())
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
