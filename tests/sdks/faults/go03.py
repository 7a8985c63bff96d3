"""Faults of a2a-go 0.3.15. Paths are those of its repository."""

from typing import Any

from tests.peers.faults import (
    AGENT,
    CLIENT,
    EVERY,
    WITHOUT_MEDIA_TYPES,
    WITHOUT_REFERENCES,
    Fault,
    nothing,
    without_defaults,
    without_empty_containers,
    without_error_names,
    wordless,
)
from tests.peers.processes import GRPC
from tests.sdks.faults.go2 import in_any_order

GO = "a2a-go 0.3.15"


def as_invalid_params(tree: Any) -> Any:
    """A rejection of a content type counts as one of params."""
    if isinstance(tree, dict) and tree.get("rejected") == "CONTENT_TYPE_NOT_SUPPORTED":
        return tree | {"rejected": "INVALID_PARAMS"}
    return tree


FAULTS: tuple[Fault, ...] = (
    Fault(
        "push configurations come in the order of a Go map (a2asrv/push/store.go, line 119)",
        AGENT,
        GO,
        EVERY,
        in_any_order,
        "push_config_lists",
        "list*",
        sometimes=True,
    ),
    Fault(
        "an executor's error overtakes the events before it, and a task may be told before or after its failure"
        " (internal/taskexec/local_manager.go)",
        AGENT,
        GO,
        EVERY,
        nothing,
        "errors",
        "midway *",
        sometimes=True,
    ),
    *(
        Fault(
            "a second message to an unknown task meets the first one's execution, which is not cleaned up yet"
            " (internal/taskexec/local_manager.go)",
            AGENT,
            GO,
            EVERY,
            nothing,
            "unknown_tasks",
            label,
            sometimes=True,
        )
        for label in ("send", "stream *")
    ),
    *(
        Fault(
            "a cancellation may meet the queue that the run before it is closing (internal/taskexec)",
            AGENT,
            GO,
            EVERY,
            nothing,
            "cancelled_while_asking",
            label,
            sometimes=True,
        )
        for label in ("cancel", "get")
    ),
    Fault(
        "the words of a failed cancellation depend on which of two paths finds out first",
        AGENT,
        GO,
        EVERY,
        wordless,
        "unknown_tasks",
        "cancel",
        sometimes=True,
    ),
    Fault(
        "over gRPC an error has the words of all errors that it wraps, over JSON-RPC those of the innermost"
        " (internal/grpcutil/errors.go, line 70; internal/jsonrpc/jsonrpc.go, line 121)",
        AGENT,
        GO,
        (GRPC,),
        wordless,
        "unknown_tasks",
    ),
    *(
        Fault(
            "INVALID_ARGUMENT without details stands for a content type as well as for params"
            " (internal/grpcutil/errors.go, lines 35 and 46)",
            role,
            GO,
            (GRPC,),
            as_invalid_params,
            "errors",
        )
        for role in (AGENT, CLIENT)
    ),
    *(
        Fault(
            "referenceTaskIds are member 8 of its a2a.v1 (a2apb/a2a.pb.go, line 697), which no published schema of 0.3 has",
            role,
            GO,
            (GRPC,),
            WITHOUT_REFERENCES,
        )
        for role in (AGENT, CLIENT)
    ),
    Fault(
        "the name that servers of 0.3 put before the words of an error stays there (internal/grpcutil/errors.go, line 116)",
        CLIENT,
        GO,
        (GRPC,),
        without_error_names,
    ),
    Fault(
        "empty objects and lists are not written (a2a/core.go, omitempty)",
        CLIENT,
        GO,
        EVERY,
        without_empty_containers,
        sometimes=True,
    ),
    Fault(
        "append and lastChunk are not written when they are false (a2a/core.go, omitempty)",
        CLIENT,
        GO,
        EVERY,
        without_defaults,
        sometimes=True,
    ),
    Fault("members that 0.3 does not know are dropped (a2a/core.go)", CLIENT, GO, EVERY, WITHOUT_MEDIA_TYPES),
)
