"""Faults of @a2a-js/sdk 1.3.0, of its 0.3, and of 0.3.14: paths and lines under dist of the packages."""

from typing import Any

from tests.peers.faults import (
    AGENT,
    ALONE,
    CLIENT,
    EVERY,
    GRPC,
    HTTP_JSON,
    PROTO,
    WITHOUT_MEDIA_TYPES,
    WITHOUT_REFERENCES,
    Fault,
    dropping,
    nothing,
    rejected,
    without_defaults,
    without_empties,
    without_empty_containers,
    without_error_names,
)
from tests.peers.transcript import OPAQUE

SDK, COMPAT, OLD = "a2a-js 1.3.0", "a2a-js 1.3.0 compat", "a2a-js 0.3.14"


def without_part_metadata(tree: Any) -> Any:
    """Metadata of parts, and the names of files, are not compared."""
    if isinstance(tree, dict):
        dropped = {"metadata"} if tree.get("kind") in ("text", "file", "data") else set()
        if "bytes" in tree or "uri" in tree:
            dropped = {"name"}
        return {
            name: value if name in OPAQUE else without_part_metadata(value)
            for name, value in tree.items()
            if name not in dropped
        }
    return [without_part_metadata(item) for item in tree] if isinstance(tree, list) else tree


def without_empty_part_metadata(tree: Any) -> Any:
    """Empty metadata of a part counts as none."""
    if isinstance(tree, list):
        return [without_empty_part_metadata(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    found = {
        name: value if name in OPAQUE else without_empty_part_metadata(value) for name, value in tree.items()
    }
    if isinstance(found.get("parts"), list):
        found["parts"] = [
            {name: value for name, value in part.items() if (name, value) != ("metadata", {})}
            for part in found["parts"]
        ]
    return found


def nulls_as_zeros(tree: Any) -> Any:
    """null in data counts as 0."""
    if isinstance(tree, dict):
        return {name: nulls_as_zeros(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [nulls_as_zeros(item) for item in tree]
    return 0 if tree is None else tree


FAULTS: tuple[Fault, ...] = (
    *(
        Fault(
            "each part has metadata, empty ones too (compat/v0_3/server/express/index.js, lines 648 and 833), which a2a.v1 does not write"
            " (docs/explanation/versions.md)",
            AGENT,
            release,
            EVERY,
            without_empty_part_metadata,
            sometimes=True,
        )
        for release in (SDK, COMPAT)
    ),
    *(
        Fault(reason, role, release, PROTO, mask)
        for role in (AGENT, CLIENT)
        for release, mask, reason in (
            (
                COMPAT,
                without_part_metadata,
                "its a2a.v1 is of v0.3.0: no metadata of parts, no names of files (compat/v0_3/server/grpc/index.js, line 3396)",
            ),
            (
                OLD,
                without_part_metadata,
                "its a2a.v1 is of v0.3.0: parts have no metadata, files no name (chunk-QQCCX2KH.js, line 543)",
            ),
            (
                COMPAT,
                WITHOUT_REFERENCES,
                "referenceTaskIds have no place in a2a.v1 (compat/v0_3/server/grpc/index.js, line 3539)",
            ),
            (
                OLD,
                WITHOUT_REFERENCES,
                "referenceTaskIds have no place in a2a.v1 (chunk-QQCCX2KH.js, line 686)",
            ),
            (
                OLD,
                without_empties,
                "absent strings, lists and booleans come out as empty, empty ones not at all (chunk-5ONEQMOQ.js, lines 1131 to 1514)",
            ),
        )
    ),
    Fault(
        "append and lastChunk have no absence in 1.0, which it speaks inside (compat/v0_3/client/index.js, line 1118)",
        CLIENT,
        COMPAT,
        EVERY,
        without_defaults,
    ),
    Fault(
        "empty lists are not written (client/index.js, lines 144 and 183)",
        CLIENT,
        COMPAT,
        EVERY,
        without_empty_containers,
    ),
    Fault(
        "append and lastChunk are left out of protobuf and its JSON when they are false"
        " (compat/v0_3/server/grpc/index.js, line 3824)",
        AGENT,
        COMPAT,
        PROTO,
        without_defaults,
    ),
    Fault(
        "media types of text and data parts have no place in 0.3 (compat/v0_3/client/index.js, line 931)",
        CLIENT,
        COMPAT,
        EVERY,
        WITHOUT_MEDIA_TYPES,
    ),
    Fault(
        "media types of text and data parts have no place in 0.3 (chunk-5ONEQMOQ.js, line 1229)",
        CLIENT,
        OLD,
        PROTO,
        WITHOUT_MEDIA_TYPES,
    ),
    *(
        Fault(
            "the words of an error are what the agent put into the status, the name of the error included"
            " (client/transports/grpc/index.js, line 209 of 0.3.14)",
            CLIENT,
            release,
            (GRPC,),
            without_error_names,
        )
        for release in (COMPAT, OLD)
    ),
    Fault(
        "history_length 0, which is how protobuf writes that there is none, asks for no history"
        " (compat/v0_3/server/grpc/index.js, lines 2508 and 2608)",
        AGENT,
        COMPAT,
        (GRPC,),
        dropping("history"),
        label="get",
    ),
    Fault(
        "history_length 0, which is how protobuf writes that there is none, asks for all of it, and its absence for none"
        " (server/index.js, line 831)",
        AGENT,
        OLD,
        (GRPC,),
        dropping("history"),
        label="get",
    ),
    *(
        Fault(
            "setting a push notification config wants the config as the whole body"
            " (compat/v0_3/server/express/index.js, line 3808)",
            AGENT,
            COMPAT,
            (HTTP_JSON,),
            nothing,
            conversation,
            label,
        )
        for conversation, label in (
            ("push_configs", "[sg]et"),
            ("push_config_lists", "set *"),
            ("push_config_lists", "list*"),
            ("push_config_lists", "delete"),
        )
    ),
    Fault(
        "the error of a stream that is rejected before its first event is lost in one of the server's own"
        " (server/express/index.js, line 413)",
        AGENT,
        OLD,
        (HTTP_JSON,),
        rejected,
        "unknown_tasks",
        "stream *",
    ),
    Fault(
        "a stream whose executor fails before its first event names a task that there is not"
        " (server/index.js, line 774)",
        AGENT,
        OLD,
        EVERY,
        dropping("taskId", "messageId"),
        "errors",
        "stream *",
    ),
    *(
        Fault(
            "its client sends the config alone and its server wants it within `config`"
            " (client/index.js, line 1090; server/express/index.js, line 308)",
            ALONE,
            OLD,
            (HTTP_JSON,),
            nothing,
            conversation,
            label,
        )
        for conversation, label in (
            ("push_configs", "[sg]et"),
            ("push_config_lists", "set *"),
            ("push_config_lists", "list*"),
        )
    ),
    *(
        Fault(
            "append is not read (chunk-5ONEQMOQ.js, line 1504; compat/v0_3/client/index.js, line 2996)",
            CLIENT,
            release,
            PROTO,
            dropping("append"),
        )
        for release in (COMPAT, OLD)
    ),
    Fault(
        "errors without a class of their own are told as text (client/index.js, line 1283)",
        CLIENT,
        OLD,
        (HTTP_JSON,),
        rejected,
    ),
    Fault(
        "gRPC statuses are read for a few methods only (client/transports/grpc/index.js, line 209)",
        CLIENT,
        OLD,
        (GRPC,),
        rejected,
        "errors",
    ),
    Fault("null in data is read as 0 (chunk-QQCCX2KH.js, line 172)", AGENT, OLD, (GRPC,), nulls_as_zeros),
    *(
        Fault(
            "null in data cannot be written (chunk-QQCCX2KH.js, line 140)",
            role,
            OLD,
            (GRPC,),
            nothing,
            conversation,
        )
        for role, conversation in (
            (CLIENT, "direct_message"),
            (CLIENT, "a_streamed_message"),
            (CLIENT, "a_task_with_everything"),
            (CLIENT, "a_streamed_task"),
            (AGENT, "a_task_with_everything"),
            (AGENT, "a_streamed_task"),
        )
    ),
)
