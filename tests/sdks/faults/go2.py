"""Faults of a2a-go 2.4.0 and 2.3.1 and of their own 0.3. Paths are those of its repository."""

from typing import Any

from tests.peers.faults import (
    AGENT,
    ALONE,
    CLIENT,
    EVERY,
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
    without_unmapped,
    wordless,
)
from tests.peers.processes import GRPC, HTTP_JSON

COMPAT_2_4 = "a2a-go 2.4.0 compat"


def in_any_order(tree: Any) -> Any:
    """Push configurations are compared as a set, and without the names that their order gives them."""
    if not isinstance(tree, list):
        return tree
    urls = [one.get("pushNotificationConfig", {}).get("url", "") for one in tree if isinstance(one, dict)]
    return sorted(urls)


def _faults(release: str) -> tuple[Fault, ...]:
    compat = f"{release} compat"
    return (
        *(
            Fault(
                "push configurations come in the order of a Go map (a2asrv/push/store.go, List)",
                AGENT,
                name,
                EVERY,
                in_any_order,
                "push_config_lists",
                "list*",
                sometimes=True,
            )
            for name in (release, compat)
        ),
        *(
            Fault(
                "an executor's error overtakes the events before it, and a task may be told before or after its failure"
                " (internal/taskexec/local_manager.go)",
                AGENT,
                name,
                EVERY,
                nothing,
                "errors",
                "midway *",
                sometimes=True,
            )
            for name in (release, compat)
        ),
        *(
            Fault(
                "a second message to an unknown task meets the first one's execution, which is not cleaned up yet"
                " (internal/taskexec/local_manager.go)",
                AGENT,
                name,
                EVERY,
                nothing,
                "unknown_tasks",
                label,
                sometimes=True,
            )
            for name in (release, compat)
            for label in ("send", "stream *")
        ),
        *(
            Fault(
                "the words of a failed cancellation depend on which of two paths finds out first",
                AGENT,
                name,
                EVERY,
                wordless,
                "unknown_tasks",
                "cancel",
                sometimes=True,
            )
            for name in (release, compat)
        ),
        *(
            Fault(
                "a cancellation may meet the queue that the run before it is closing (internal/taskexec)",
                AGENT,
                name,
                EVERY,
                nothing,
                "cancelled_while_asking",
                label,
                sometimes=True,
            )
            for name in (release, compat)
            for label in ("cancel", "get")
        ),
        Fault(
            "empty members of a card are written over gRPC and left out in JSON (a2apb/v1/pbconv, a2a/agent.go)",
            AGENT,
            release,
            EVERY,
            without_empties,
            "extended_card",
        ),
        Fault(
            "clients of 1.0 see in metadata what the bridge carries beside a message of 0.3",
            CLIENT,
            release,
            EVERY,
            without_unmapped,
            sometimes=True,
        ),
        *(
            Fault(
                "referenceTaskIds are member 8 of its a2a.v1 (a2apb/v0/pbconv/to_proto.go, line 283; 282 in 2.3.1), which no"
                " published schema of 0.3 has",
                role,
                compat,
                (GRPC,),
                WITHOUT_REFERENCES,
            )
            for role in (AGENT, CLIENT)
        ),
        Fault(
            "status events are written without `final` (a2apb/v0/pbconv/to_proto.go, line 223; 222 in 2.3.1)",
            AGENT,
            compat,
            (GRPC,),
            dropping("final"),
        ),
        Fault(
            "the name that servers of 0.3 put before the words of an error stays there (internal/grpcutil/errors.go, line 180)",
            CLIENT,
            compat,
            (GRPC,),
            without_error_names,
        ),
        Fault(
            "media types of text and data parts have no place in 0.3 (a2acompat/a2av0/conversions.go, FromV1Part)",
            CLIENT,
            compat,
            EVERY,
            WITHOUT_MEDIA_TYPES,
        ),
        *(
            Fault(
                "empty objects and lists are not written (a2a/core.go, omitempty)",
                CLIENT,
                name,
                EVERY,
                without_empty_containers,
                sometimes=True,
            )
            for name in (release, compat)
        ),
        Fault(
            "append and lastChunk are not written when they are false (a2a/core.go, omitempty)",
            CLIENT,
            compat,
            EVERY,
            without_defaults,
            sometimes=True,
        ),
    )


FAULTS: tuple[Fault, ...] = (
    *_faults("a2a-go 2.4.0"),
    *_faults("a2a-go 2.3.1"),
    *(
        Fault(
            "referenceTaskIds are neither read nor written over HTTP+JSON of 0.3 (a2apb/v0/pbjson/to_proto.go, from_proto.go)",
            role,
            COMPAT_2_4,
            (HTTP_JSON,),
            WITHOUT_REFERENCES,
        )
        for role in (AGENT, CLIENT)
    ),
    Fault(
        "its client reads errors of application/json only, and its server writes application/problem+json"
        " (internal/rest/rest.go, line 266)",
        ALONE,
        COMPAT_2_4,
        (HTTP_JSON,),
        rejected,
    ),
)
