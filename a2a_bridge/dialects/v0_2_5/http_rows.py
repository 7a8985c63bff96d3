"""The HTTP+JSON rows of 0.2.5: those of 0.3, with three members named as in the proto of 0.2.5 (its tag
v0.2.5).

Both versions read all names. The usual name of one version becomes the usual name of the other, and an
unusual one the unusual one, so that a round trip preserves it. Bodies in the variant of JSON-RPC have no
such names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.dialect import HttpAddress, Row
from a2a_bridge.dialects.v0_3.http_rows import says_kind

HttpRow = Row[HttpAddress, Any]
Rename = Callable[[Any], Any]


def _exchange(tree: Any, one: str, other: str) -> Any:
    """The object with the values of these two members exchanged, unless it has the variant of JSON-RPC."""
    if type(tree) is not dict or not (one in tree or other in tree) or says_kind(tree.get(one)):
        return tree
    names = {one: other, other: one}
    return {names.get(name, name): value for name, value in tree.items()}


def _sent(tree: Any) -> Any:
    """SendMessageRequest."""
    return _exchange(tree, "message", "request")


def _task(tree: Any) -> Any:
    """A task, or an event about one."""
    if type(tree) is not dict or says_kind(tree) or "status" not in tree:
        return tree
    status = _exchange(tree["status"], "message", "update")
    return tree if status is tree["status"] else {**tree, "status": status}


def _answer(tree: Any) -> Any:
    """SendMessageResponse and StreamResponse."""
    if type(tree) is not dict or "kind" in tree:
        return tree
    found = {name: _task(value) if name in _ABOUT_TASKS else value for name, value in tree.items()}
    return _exchange(found, "message", "msg")


def _tasks(tree: Any) -> Any:
    return [_task(one) for one in tree] if type(tree) is list else tree


_ABOUT_TASKS = ("task", "statusUpdate", "status_update")

_REQUESTS: Mapping[Any, Rename] = {ops.SEND_MESSAGE: _sent, ops.SEND_STREAMING_MESSAGE: _sent}
_RESPONSES: Mapping[Any, Rename] = {
    ops.SEND_MESSAGE: _answer,
    ops.SEND_STREAMING_MESSAGE: _answer,
    ops.SUBSCRIBE_TO_TASK: _answer,
    ops.GET_TASK: _task,
    ops.CANCEL_TASK: _task,
    ops.LIST_TASKS: _tasks,
}


def older(row: HttpRow) -> HttpRow:
    """The 0.2.5 form of a row of 0.3: unchanged if no name differs."""
    request, response = _REQUESTS.get(row.operation), _RESPONSES.get(row.operation)
    variant, for_agent = row.extras.variant, row.extras.for_agent
    changed: dict[str, Any] = {}
    if request is not None:
        changed["encode_request"] = _then(row.encode_request, request)
        changed["decode_request"] = _then(request, row.decode_request)
    if response is not None:
        changed["encode_response"] = _then(row.encode_response, response)
        changed["decode_response"] = _then(response, row.decode_response)
    if not changed:
        return row
    row = replace(row, **changed)
    if variant is not None:
        row = row.with_extras(variant=lambda tree, parameters: older(variant(tree, parameters)))
    if for_agent is not None:
        row = row.with_extras(for_agent=lambda context: older(for_agent(context)))
    return row


def _then(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: second(first(value))
