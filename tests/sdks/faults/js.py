"""Faults of @a2a-js/sdk 1.3.0, of its own 0.3, and of 0.3.14. Paths are those of its repository, under src."""

from __future__ import annotations

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
    refused,
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
            "each part has metadata, empty ones too (compat/v0_3/server, deepCloneMetadata), which a2a.v1 does not write"
            " (docs/versions.md)",
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
                "its a2a.v1 is of v0.3.0: parts have no metadata, files no name (compat/v0_3/types/pb/a2a_types.ts, Part)",
            ),
            (
                OLD,
                without_part_metadata,
                "its a2a.v1 is of v0.3.0: parts have no metadata, files no name (types/pb/a2a_types.ts, Part)",
            ),
            (
                COMPAT,
                WITHOUT_REFERENCES,
                "referenceTaskIds have no place in a2a.v1 (compat/v0_3/types/pb/a2a_types.ts, Message)",
            ),
            (
                OLD,
                WITHOUT_REFERENCES,
                "referenceTaskIds have no place in a2a.v1 (types/pb/a2a_types.ts, Message)",
            ),
            (
                OLD,
                without_empties,
                "absent strings, lists and booleans come out as empty ones, and empty ones not at all (types/converters)",
            ),
        )
    ),
    Fault(
        "append and lastChunk have no absence in 1.0, which it speaks inside (compat/v0_3/translate/events.ts)",
        CLIENT,
        COMPAT,
        EVERY,
        without_defaults,
    ),
    Fault(
        "empty lists are not written (types/pb/a2a.ts, toJSON)",
        CLIENT,
        COMPAT,
        EVERY,
        without_empty_containers,
    ),
    Fault(
        "append and lastChunk are left out of protobuf and its JSON when they are false (types/pb/a2a_types.ts)",
        AGENT,
        COMPAT,
        PROTO,
        without_defaults,
    ),
    Fault(
        "media types of text and data parts have no place in 0.3 (compat/v0_3/translate/parts.ts)",
        CLIENT,
        COMPAT,
        EVERY,
        WITHOUT_MEDIA_TYPES,
    ),
    Fault("media types of text and data parts have no place in 0.3", CLIENT, OLD, PROTO, WITHOUT_MEDIA_TYPES),
    *(
        Fault(
            "the words of an error are what the agent put into the status, the name of the error included"
            " (client/transports/grpc/grpc_transport.ts, mapToError)",
            CLIENT,
            release,
            (GRPC,),
            without_error_names,
        )
        for release in (COMPAT, OLD)
    ),
    Fault(
        "history_length 0, which is how protobuf writes that there is none, asks for no history"
        " (compat/v0_3/server/grpc, getTask)",
        AGENT,
        COMPAT,
        (GRPC,),
        dropping("history"),
        label="get",
    ),
    Fault(
        "history_length 0, which is how protobuf writes that there is none, asks for all of it, and its absence for none"
        " (server/request_handler/default_request_handler.ts, getTask)",
        AGENT,
        OLD,
        (GRPC,),
        dropping("history"),
        label="get",
    ),
    *(
        Fault(
            "setting a push notification config wants the config as the whole body"
            " (compat/v0_3/server/express/rest_handler.ts, decodeTaskPushNotificationConfig)",
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
        "the error of a stream that is refused before its first event is lost in one of the server's own"
        " (server/express/rest_handler.ts, sendStreamResponse)",
        AGENT,
        OLD,
        (HTTP_JSON,),
        refused,
        "unknown_tasks",
        "stream *",
    ),
    Fault(
        "a stream whose executor fails before its first event names a task that there is not"
        " (server/request_handler/default_request_handler.ts, sendMessageStream)",
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
            " (client/transports/rest_transport.ts, server/transports/rest/rest_transport_handler.ts)",
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
            "append is not read (types/converters/from_proto.ts, taskArtifactUpdateEvent)",
            CLIENT,
            release,
            PROTO,
            dropping("append"),
        )
        for release in (COMPAT, OLD)
    ),
    Fault(
        "errors without a class of their own are told as text (client/transports/rest_transport.ts, mapToError)",
        CLIENT,
        OLD,
        (HTTP_JSON,),
        refused,
    ),
    Fault(
        "gRPC statuses are read for a few methods only (client/transports/grpc/grpc_transport.ts, mapToError)",
        CLIENT,
        OLD,
        (GRPC,),
        refused,
        "errors",
    ),
    Fault(
        "null in data is read as 0 (types/pb/google/protobuf/struct.ts, Value)",
        AGENT,
        OLD,
        (GRPC,),
        nulls_as_zeros,
    ),
    *(
        Fault(
            "null in data cannot be written (types/pb/google/protobuf/struct.ts, Value)",
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
