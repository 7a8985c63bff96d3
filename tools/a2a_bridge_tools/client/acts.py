"""A2A's conformance documents (ACTS 0.1): variables, paths and assertions. It calls nobody.

Rules:
1. An assertion returns what is wrong, as texts with paths; an empty list is a pass.
2. A key of a map is an operator if it has the name of one and an argument that this operator takes; any other
   key is a member of the value. So `{type: {type: string}}` is about a member `type`. A list asserts element
   by element, everything else equality.
3. A variable that cannot be resolved is an error of the step (ACTS 12.2).
4. An assertion on an event holds for the event or for what is in it: documents write both `statusUpdate:
   {status: …}` and `status: …`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

#: a member that is not there
ABSENT: Any = type("_Absent", (), {"__repr__": lambda _: "absent"})()
_TYPES = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_NUMBERS = {
    "gt": lambda value, limit: value > limit,
    "gte": lambda value, limit: value >= limit,
    "lt": lambda value, limit: value < limit,
    "lte": lambda value, limit: value <= limit,
}


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
_COUNTS = {
    "count": lambda size, wanted: size == wanted,
    "count_gte": lambda size, wanted: size >= wanted,
    "count_lte": lambda size, wanted: size <= wanted,
}
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


#: state -> the states that may follow (ACTS 7.1); a state may repeat
_FOLLOWS = {
    "SUBMITTED": {
        "WORKING",
        "COMPLETED",
        "FAILED",
        "CANCELED",
        "REJECTED",
        "INPUT_REQUIRED",
        "AUTH_REQUIRED",
    },
    "WORKING": {"COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"},
    "INPUT_REQUIRED": {"WORKING", "COMPLETED", "FAILED", "CANCELED", "REJECTED"},
    "AUTH_REQUIRED": {"WORKING", "COMPLETED", "FAILED", "CANCELED", "REJECTED"},
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
