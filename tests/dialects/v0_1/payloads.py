"""Trees that the schema of 0.1 allows, for Hypothesis. Written from the schema, without code of the product."""

from typing import Any

from hypothesis import strategies as st

texts = st.text(max_size=12)
names = st.sampled_from(["x", "note", "kind", "contextId", "messageId", "urn:a2a-bridge:v0.1", "append"])
numbers = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, 1, 1.0, -0.0, 0.1, 1e300, 2**53 + 1])
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
metadata = st.dictionaries(texts | st.just("origType") | st.just("urn:a2a-bridge:v0.1"), values, max_size=2)
states = st.sampled_from(
    ["submitted", "working", "input-required", "completed", "canceled", "failed", "unknown"]
)
BYTES = "aGk="


def objects(required: dict[str, Any], optional: dict[str, Any], nullable: tuple[str, ...] = ()) -> Any:
    """Objects of a type: required members, optional members (some of them null), and an unknown one."""
    some = {name: (st.none() | one if name in nullable else one) for name, one in optional.items()}
    known = st.fixed_dictionaries(required, optional=some)
    unknown = st.dictionaries(st.sampled_from(["x-one", "x-two"]), values, max_size=1)
    return st.builds(lambda left, right: {**right, **left}, known, unknown)


text_parts = objects({"type": st.just("text"), "text": texts}, {"metadata": metadata}, ("metadata",))
files = objects({}, {"name": texts, "mimeType": texts}, ("name", "mimeType")).flatmap(
    lambda file: st.sampled_from([file, {**file, "bytes": BYTES}, {**file, "uri": "http://h/f"}])
)
file_parts = objects({"type": st.just("file"), "file": files}, {"metadata": metadata}, ("metadata",))
data_parts = objects(
    {"type": st.just("data"), "data": st.dictionaries(texts, values, max_size=2)},
    {"metadata": metadata},
    ("metadata",),
)
other_parts = objects(
    {
        "type": st.sampled_from(
            ["uri", "UriPart", "json", "form", "iframe", "video", "audio", "action", "new"]
        )
    },
    {
        "uri": texts,
        "url": texts,
        "src": texts,
        "bytes": st.just(BYTES),
        "json": values,
        "data": values,
        "mimeType": texts,
        "name": texts,
        "fields": values,
        "metadata": metadata,
    },
    ("uri", "mimeType", "metadata"),
)
parts = text_parts | file_parts | data_parts | other_parts
messages = objects(
    {"role": st.sampled_from(["user", "agent"]), "parts": st.lists(parts, max_size=2)},
    {"metadata": metadata},
    ("metadata",),
)
stamps = st.sampled_from(["2025-01-31T12:00:00Z", "2025-01-31T12:00:00.123456", "yesterday"])
statuses = objects({"state": states}, {"message": messages, "timestamp": stamps}, ("message", "timestamp"))
artifacts = objects(
    {"parts": st.lists(parts, max_size=2)},
    {
        "index": st.integers(0, 9),
        "name": texts,
        "description": texts,
        "append": st.booleans(),
        "lastChunk": st.booleans(),
        "metadata": metadata,
    },
    ("name", "description", "append", "lastChunk", "metadata"),
)
ids = st.sampled_from(["t1", "abc", "0"])
tasks = objects(
    {"id": ids, "status": statuses},
    {
        "sessionId": texts,
        "artifacts": st.lists(artifacts, max_size=2),
        "history": st.lists(messages, max_size=2),
        "metadata": metadata,
    },
    ("sessionId", "artifacts", "history", "metadata"),
)
status_events = objects(
    {"id": ids, "status": statuses}, {"final": st.booleans(), "metadata": metadata}, ("metadata",)
)
artifact_events = objects({"id": ids, "artifact": artifacts}, {"metadata": metadata}, ("metadata",))
authentication = objects(
    {"schemes": st.lists(st.sampled_from(["Bearer", "Basic", "x"]), max_size=2)},
    {"credentials": texts},
    ("credentials",),
)
configs = objects(
    {"url": st.just("http://h/p")},
    {"token": texts, "authentication": authentication},
    ("token", "authentication"),
)
task_configs = objects({"id": ids, "pushNotificationConfig": configs}, {})
sends = objects(
    {"id": ids, "message": messages},
    {
        "sessionId": texts,
        "pushNotification": configs,
        "historyLength": st.integers(0, 100),
        "metadata": metadata,
    },
    ("sessionId", "pushNotification", "historyLength", "metadata"),
)
queries = objects(
    {"id": ids}, {"historyLength": st.integers(0, 100), "metadata": metadata}, ("historyLength", "metadata")
)
agent_authentication = objects(
    {"schemes": st.lists(st.sampled_from(["Bearer", "Basic", "ApiKey", "OAuth2", "Magic"]), max_size=3)},
    {"credentials": texts | st.just('{"ApiKey":{"in":"query","name":"k"}}')},
    ("credentials",),
)
skills = objects(
    {"id": texts, "name": texts},
    {
        "description": texts,
        "tags": st.lists(texts, max_size=2),
        "examples": st.lists(texts, max_size=2),
        "inputModes": st.lists(texts, max_size=2),
        "outputModes": st.lists(texts, max_size=2),
    },
    ("description", "tags", "examples", "inputModes", "outputModes"),
)
cards = objects(
    {
        "name": texts,
        "url": st.just("http://h/a"),
        "version": texts,
        "capabilities": objects(
            {},
            {
                "streaming": st.booleans(),
                "pushNotifications": st.booleans(),
                "stateTransitionHistory": st.booleans(),
            },
        ),
        "skills": st.lists(skills, max_size=2),
    },
    {
        "description": texts,
        "provider": objects({"organization": texts}, {"url": texts}, ("url",)),
        "documentationUrl": texts,
        "authentication": agent_authentication,
        "defaultInputModes": st.lists(texts, max_size=2),
        "defaultOutputModes": st.lists(texts, max_size=2),
    },
    ("description", "provider", "documentationUrl", "authentication"),
)
