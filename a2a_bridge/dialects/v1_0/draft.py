"""Push configurations in the format of a 1.0 draft, used by the previews of A2A .NET. Pure.

| | draft | 1.0 |
|---|---|---|
| create | `{taskId, configId, config: {url…}}` | `{taskId, id, url…}` |
| answer | `{id, taskId, pushNotificationConfig: {url…}}` | `{id, taskId, url…}` |
| list | method `ListTaskPushNotificationConfig` | `ListTaskPushNotificationConfigs` |
| in a message's configuration | `pushNotificationConfig` | `taskPushNotificationConfig` |

Rules:
1. A request is recognised by its shape or the name of its method. A response to it has the members of both
   shapes.
2. An agent gets the draft's shape after it has rejected the other, and from then on (RowExtras.fallback).
3. For callers that query a configuration the profile decides, because the query is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from a2a_bridge.core import operations as ops
from a2a_bridge.dialects.dialect import Row
from a2a_bridge.peers import caller

AnyRow = Row[Any, Any]
LIST_METHOD = "ListTaskPushNotificationConfig"

#: members that hold the configuration
_NESTING = ("config", "pushNotificationConfig")
#: members of a configuration that do not belong to the webhook
_OUTER = frozenset({"taskId", "tenant"})
_SINGLE = frozenset({ops.CREATE_PUSH_CONFIG, ops.GET_PUSH_CONFIG})


def _find_nesting(tree: Any) -> str:
    """The member with the configuration in the draft's shape; empty for the shape of 1.0."""
    if type(tree) is not dict or "url" in tree:
        return ""
    return next((name for name in _NESTING if type(tree.get(name)) is dict), "")


def _flat(tree: Any) -> Any:
    """A configuration of either shape in the shape of 1.0. Of both shapes, that of 1.0 remains: the other one
    is no unknown member, and callers get it from `_both`.
    """
    name = _find_nesting(tree)
    if not name:
        if type(tree) is dict and any(type(tree.get(one)) is dict for one in _NESTING):
            return {key: value for key, value in tree.items() if key not in _NESTING}
        return tree
    inner = _flat(tree[name])
    id_ = tree.get("configId") or tree.get("id") or inner.get("id")
    outer = {key: value for key, value in tree.items() if key not in (name, "configId")}
    return {**inner, **outer, "id": id_} if id_ else {**inner, **outer}


def _both(tree: Any) -> Any:
    """A configuration of 1.0 with the member of the draft in addition."""
    inner = {name: value for name, value in tree.items() if name not in _OUTER}
    return {**tree, "pushNotificationConfig": inner}


def _nest(tree: Any) -> Any:
    """A request of 1.0 to create a configuration, in the draft's shape."""
    config = {name: value for name, value in tree.items() if name not in _OUTER and name != "id"}
    outer = {name: value for name, value in tree.items() if name in _OUTER}
    return {**outer, "configId": tree.get("id", ""), "config": config}


def _each(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same for a list of configurations."""

    def apply(tree: Any) -> Any:
        configs = tree.get("configs") if type(tree) is dict else None
        return {**tree, "configs": [change(one) for one in configs]} if type(configs) is list else tree

    return apply


def _then(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: second(first(value))


def with_draft(row: AnyRow) -> AnyRow:
    """A row over JSON that also reads the draft, and answers callers of the draft in it."""
    if row.operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
        read = row.decode_request

        def decode_request(tree: Any) -> Any:
            # Most messages have no configuration: skipping them saves time.
            return read(
                _rename_configuration(tree) if type(tree) is dict and "configuration" in tree else tree
            )

        return replace(row, decode_request=decode_request)
    if row.operation not in _SINGLE and row.operation is not ops.LIST_PUSH_CONFIGS:
        return row
    listed = row.operation is ops.LIST_PUSH_CONFIGS
    flat, both = (_each(_flat), _each(_both)) if listed else (_flat, _both)
    row = replace(row, decode_response=_then(flat, row.decode_response))
    if row.operation is ops.CREATE_PUSH_CONFIG:
        row = replace(row, decode_request=_then(_flat, row.decode_request))
    draft = replace(row, encode_response=_then(row.encode_response, both))
    if row.operation is ops.CREATE_PUSH_CONFIG:
        draft = replace(draft, encode_request=_then(row.encode_request, _nest))
        row = row.with_extras(fallback=draft)

    def variant(wire: Any, parameters: Mapping[str, str]) -> AnyRow:
        nested = row.operation is ops.CREATE_PUSH_CONFIG and _find_nesting(wire)
        return draft if nested or caller(parameters).quirks.draft_push_configs else row

    return row.with_extras(variant=variant)


def draft_list(row: AnyRow) -> AnyRow:
    """The row of the draft's list method, made from that of 1.0."""
    listed = replace(row, address=LIST_METHOD, encode_response=_then(row.encode_response, _each(_both)))
    return listed.with_extras(variant=None)


def _rename_configuration(tree: Any) -> Any:
    """Params of a message, with the 1.0 name for the configuration's member."""
    configuration = tree["configuration"]
    if type(configuration) is not dict or "pushNotificationConfig" not in configuration:
        return tree
    rest = {name: value for name, value in configuration.items() if name != "pushNotificationConfig"}
    config = configuration["pushNotificationConfig"]
    return {**tree, "configuration": {"taskPushNotificationConfig": config, **rest}}
