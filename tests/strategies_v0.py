"""Hypothesis strategies for trees of A2A 0.2.5 and 0.3: all of their schemas, and deviations in the field."""

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from a2a_bridge.codec import ExactFloat, Json, JsonObject, dumps_ascii

Strategy = st.SearchStrategy[Any]

STATES = (
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
    "unknown",
)
ODD_NUMBERS = (
    "1.0", "1e0", "-0.0", "0.5", "0.50", "1e-400", "1E+2", "100000000000000000000.0", "1e22",
    "9007199254740993.0", "0.1000000000000000055511151231257827", "123456789.123456789123456789", "2.5e-3",
)  # fmt: skip
ODD_INTEGERS = (2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**60, 2**63, 2**64 - 1, -(2**63))
ODD_TIMES = (
    "2025-04-17T17:47:09.680794", "2025-04-17T17:47:09Z", "2025-04-17T17:47:09.1Z",
    "2025-04-17T17:47:09.000Z",
    "2025-04-17T17:47:09.100Z", "2025-04-17T17:47:09.123456789Z", "2025-04-17T17:47:09.1234567890123Z",
    "2025-04-17T19:47:09+02:00", "2025-04-17T17:47:09.680794+00:00", "2025-04-17t17:47:09z", "2025-04-17",
    "2025-04-17 17:47:09", "2016-12-31T23:59:60Z", "2025-04-17T24:00:00Z", "2025-13-01T00:00:00Z",
    "", "not a date",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1744912029",
    "2025-04-17T17:47Z", "٢٠٢٥-04-17T17:47:09Z",
)  # fmt: skip
STRANGERS = ("x", "", "a/b", "m~n~1", "é", "x-vendor", "urn:a2a-bridge:v0.1", "mediaType", "tenant")
"""Names of members that no schema declares; some are names of other versions."""


@cache
def texts() -> Strategy:
    """Strings of any characters."""
    return st.text(max_size=8) | st.sampled_from(["", "\U0001f99c"])


@cache
def ids() -> Strategy:
    """Usual and unusual identifiers."""
    return st.sampled_from(["t-1", "c", "a/b%", "é", ""]) | texts()


@cache
def numbers() -> Strategy:
    """Numbers of up to 64 bits in all the variants that JSON has."""
    return st.one_of(
        st.integers(-1000, 1000),
        st.sampled_from(ODD_INTEGERS),
        st.sampled_from(ODD_NUMBERS).map(ExactFloat),
        st.floats(allow_nan=False, allow_infinity=False).map(ExactFloat),
    )


@cache
def anything() -> Strategy:
    """Any JSON value, sometimes nested deeply."""
    plain = st.none() | st.booleans() | numbers() | texts()
    trees = st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=6,
    )
    return st.one_of(trees, trees, trees, st.builds(_deep, trees, st.integers(10, 20), st.booleans()))


def _deep(tree: Json, levels: int, arrays: bool) -> Json:
    for _ in range(levels):
        tree = [tree] if arrays else {"d": tree}
    return tree


@cache
def free_objects() -> Strategy:
    """Objects of any members."""
    return st.dictionaries(texts(), anything(), max_size=3)


@cache
def metadata() -> Strategy:
    """Metadata, sometimes with the flag of the Python SDK."""
    flagged = st.builds(lambda rest, value: {**rest, "data_part_compat": value}, free_objects(), anything())
    return st.one_of(free_objects(), free_objects(), flagged)


@cache
def base64_texts() -> Strategy:
    """Bytes in the variants of base64 that are in use."""
    standard = st.binary(max_size=100).map(lambda raw_bytes: base64.b64encode(raw_bytes).decode())
    return st.one_of(
        standard,
        standard.map(lambda text: text.rstrip("=")),
        standard.map(lambda text: text.replace("+", "-").replace("/", "_")),
        standard.map(lambda text: text.replace("+", "-").replace("/", "_").rstrip("=")),
        st.builds(
            _break_lines, standard, st.integers(1, 76), st.sampled_from(["\n", "\r\n", " "]), st.booleans()
        ),
        st.sampled_from(["aGk", "aGl=", "-_8=", "aGk=\n", "aG\nk="]),
    )


def _break_lines(text: str, width: int, line: str, end: bool) -> str:
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    return line.join(lines) + (line if end else "")


@cache
def times() -> Strategy:
    """Timestamps, and invalid values in their place."""
    return st.one_of(
        st.datetimes().map(lambda time: f"{time.isoformat()}Z"), st.sampled_from(ODD_TIMES), texts()
    )


def objects(
    required: Mapping[str, Strategy],
    optional: Mapping[str, Strategy],
    *,
    bearable: tuple[str, ...] = (),
    strangers: Sequence[str] = STRANGERS,
) -> Strategy:
    """All required members, some optional ones; at times a null, a missing `bearable`, an unknown one."""

    def make(draw: st.DrawFn) -> JsonObject:
        tree: JsonObject = {}
        for name, values in required.items():
            if name not in bearable or draw(st.integers(0, 5)):
                tree[name] = draw(values)
        for name, values in optional.items():
            choice = draw(st.integers(0, 6))
            if choice < 3:
                tree[name] = draw(values)
            elif choice == 3:
                tree[name] = None
        if not draw(st.integers(0, 3)):
            for name in draw(st.lists(st.sampled_from(strangers), max_size=2, unique=True)):
                if name not in required and name not in optional:
                    tree[name] = draw(anything())
        return draw(st.permutations(list(tree.items())).map(dict)) if draw(st.booleans()) else tree

    return st.composite(make)()


def lists(values: Strategy) -> Strategy:
    """Short lists of such values."""
    return st.lists(values, max_size=3)


@cache
def parts() -> Strategy:
    """TextPart, FilePart, DataPart."""
    text = objects({"kind": st.just("text"), "text": texts()}, {"metadata": metadata()}, bearable=("kind",))
    data = objects(
        {"kind": st.just("data"), "data": free_objects()}, {"metadata": metadata()}, bearable=("kind",)
    )
    wrapped = objects(
        {"kind": st.just("data"), "data": anything().map(lambda value: {"value": value})},
        {"metadata": metadata()},
    )
    listed = objects({"kind": st.just("data"), "data": lists(anything())}, {"metadata": metadata()})
    names = {"name": texts(), "mimeType": texts()}
    file = st.one_of(
        objects({"bytes": base64_texts()}, names), objects({"uri": texts()}, names), objects({}, names)
    )
    files = objects({"kind": st.just("file"), "file": file}, {"metadata": metadata()}, bearable=("kind",))
    aliased = st.builds(_tag_by_type, text | data | files)
    return st.one_of(text, text, data, files, files, wrapped, listed, aliased)


def _tag_by_type(part: JsonObject) -> JsonObject:
    return {("type" if name == "kind" else name): value for name, value in part.items()}


@cache
def messages() -> Strategy:
    return objects(
        {
            "kind": st.just("message"),
            "messageId": ids(),
            "role": st.sampled_from(["user", "agent"]),
            "parts": lists(parts()),
        },
        {
            "contextId": ids(),
            "taskId": ids(),
            "metadata": metadata(),
            "extensions": lists(texts()),
            "referenceTaskIds": lists(ids()),
        },
        bearable=("kind", "messageId"),
    )


@cache
def artifacts() -> Strategy:
    return objects(
        {"artifactId": ids(), "parts": lists(parts())},
        {"name": texts(), "description": texts(), "metadata": metadata(), "extensions": lists(texts())},
        bearable=("artifactId",),
    )


@cache
def statuses() -> Strategy:
    states = st.sampled_from([*STATES, "cancelled"])
    return objects({"state": states}, {"message": messages(), "timestamp": times()}, bearable=("state",))


@cache
def tasks() -> Strategy:
    return objects(
        {"kind": st.just("task"), "id": ids(), "contextId": ids(), "status": statuses()},
        {
            "history": st.lists(messages(), max_size=2),
            "artifacts": st.lists(artifacts(), max_size=2),
            "metadata": metadata(),
        },
        bearable=("kind", "contextId"),
    )


@cache
def status_updates() -> Strategy:
    return objects(
        {
            "kind": st.just("status-update"),
            "taskId": ids(),
            "contextId": ids(),
            "status": statuses(),
            "final": st.booleans(),
        },
        {"metadata": metadata()},
        bearable=("kind", "contextId", "final"),
    )


@cache
def artifact_updates() -> Strategy:
    return objects(
        {"kind": st.just("artifact-update"), "taskId": ids(), "contextId": ids(), "artifact": artifacts()},
        {"append": st.booleans(), "lastChunk": st.booleans(), "metadata": metadata()},
        bearable=("kind", "contextId"),
    )


@cache
def results() -> Strategy:
    """Answers of message/send."""
    return tasks() | messages()


@cache
def events() -> Strategy:
    """Answers of message/stream and tasks/resubscribe."""
    return st.one_of(tasks(), messages(), status_updates(), artifact_updates())


@cache
def push_configs() -> Strategy:
    authentication = objects(
        {"schemes": lists(st.sampled_from(["Bearer", "Basic", "bearer", "ApiKey", ""]))},
        {"credentials": texts()},
        bearable=("schemes",),
    )
    return objects({"url": texts()}, {"id": ids(), "token": texts(), "authentication": authentication})


@cache
def task_push_configs() -> Strategy:
    return objects({"taskId": ids(), "pushNotificationConfig": push_configs()}, {}, bearable=("taskId",))


@cache
def history_lengths() -> Strategy:
    """Lengths that the schema allows, including those beyond 32 bits and those with a zero fraction."""
    return st.integers(-(2**34), 2**34) | st.sampled_from([2**31 - 1, 2**31, 2**63, ExactFloat("3.0")])


@cache
def send_params(version: str = "0.3") -> Strategy:
    """MessageSendParams. Version 0.2.5 requires acceptedOutputModes."""
    modes = {"acceptedOutputModes": lists(st.sampled_from(["text/plain", "*/*", ""]))}
    optional = {
        "blocking": st.booleans(),
        "historyLength": history_lengths(),
        "pushNotificationConfig": push_configs(),
    }
    configuration = objects(modes, optional) if version == "0.2.5" else objects({}, {**modes, **optional})
    return objects({"message": messages()}, {"configuration": configuration, "metadata": metadata()})


@cache
def task_id_params() -> Strategy:
    """TaskIdParams, and ListTaskPushNotificationConfigParams, which have the same shape."""
    return objects({"id": ids()}, {"metadata": metadata()})


@cache
def task_query_params() -> Strategy:
    return objects({"id": ids()}, {"historyLength": history_lengths(), "metadata": metadata()})


@cache
def get_push_config_params() -> Strategy:
    """GetTaskPushNotificationConfigParams or TaskIdParams."""
    return objects({"id": ids()}, {"pushNotificationConfigId": ids(), "metadata": metadata()})


@cache
def delete_push_config_params() -> Strategy:
    return objects({"id": ids(), "pushNotificationConfigId": ids()}, {"metadata": metadata()})


#: by JSON-RPC method
PARAMS: Mapping[str, Callable[[], Strategy]] = {
    "message/send": send_params,
    "message/stream": lambda: send_params("0.2.5"),
    "tasks/get": task_query_params,
    "tasks/cancel": task_id_params,
    "tasks/resubscribe": task_id_params,
    "tasks/pushNotificationConfig/set": task_push_configs,
    "tasks/pushNotificationConfig/get": get_push_config_params,
    "tasks/pushNotificationConfig/list": task_id_params,
    "tasks/pushNotificationConfig/delete": delete_push_config_params,
}
RESULTS: Mapping[str, Callable[[], Strategy]] = {
    "message/send": results,
    "message/stream": events,
    "tasks/get": tasks,
    "tasks/cancel": tasks,
    "tasks/resubscribe": events,
    "tasks/pushNotificationConfig/set": task_push_configs,
    "tasks/pushNotificationConfig/get": task_push_configs,
    "tasks/pushNotificationConfig/list": lambda: st.lists(task_push_configs(), max_size=3),
}


def is_small(tree: Json) -> bool:
    """True if the content without a place in the hub fits beside a request that has no metadata."""
    return len(dumps_ascii(tree)) < 3500
