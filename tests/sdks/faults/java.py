"""Faults of a2a-java 0.3.3. Classes are those under io.a2a; lines are those of 0.3.3.Final."""

from tests.peers.faults import (
    AGENT,
    CLIENT,
    EVERY,
    GRPC,
    HTTP_JSON,
    JSONRPC,
    PROTO,
    WITHOUT_MEDIA_TYPES,
    Fault,
    dropping,
    nothing,
    rejected,
    without_empties,
    wordless,
)

JAVA = "a2a-java 0.3.3"

#: conversations with null in data, with metadata of parts and with names of files
_RICH = ("direct_message", "a_streamed_message", "a_task_with_everything", "a_streamed_task")

FAULTS: tuple[Fault, ...] = (
    *(
        Fault(
            "null in data, metadata of parts and names of files are rejected: its a2a.v1 is of v0.3.0, read strictly"
            " (grpc.utils.ProtoUtils, lines 916 and 1006; transport.rest.handler.RestHandler, line 227)",
            role,
            JAVA,
            PROTO,
            nothing,
            conversation,
            # The client of HTTP+JSON does not report an event that it cannot read
            # (client.transport.rest.sse.RestSSEEventListener, line 34).
            endless=role == CLIENT and conversation in ("a_streamed_message", "a_streamed_task"),
        )
        for role in (AGENT, CLIENT)
        for conversation in _RICH
    ),
    *(
        Fault(
            "absent strings, lists, objects and booleans come out as empty ones (grpc.utils.ProtoUtils, lines 856 to 923)",
            role,
            JAVA,
            bindings,
            without_empties,
        )
        for role, bindings in ((AGENT, EVERY), (CLIENT, EVERY))
    ),
    Fault(
        "media types of text and data parts have no place in 0.3 (spec.TextPart, line 32; spec.DataPart, line 33)",
        CLIENT,
        JAVA,
        EVERY,
        WITHOUT_MEDIA_TYPES,
    ),
    Fault(
        "a request for a task always has a history length, 0 where none was given (spec.TaskQueryParams, line 31)",
        CLIENT,
        JAVA,
        EVERY,
        dropping("history"),
        label="get",
        sometimes=True,
    ),
    Fault(
        "the words of an error have its data or what was tried beside them"
        " (client.transport.jsonrpc.JSONRPCTransport, line 416; client.transport.grpc.GrpcErrorMapper, lines 28 to 73)",
        CLIENT,
        JAVA,
        (JSONRPC, GRPC),
        wordless,
    ),
    Fault(
        "errors are known by the name of the Java class (client.transport.rest.RestErrorMapper, line 51)",
        CLIENT,
        JAVA,
        (HTTP_JSON,),
        rejected,
    ),
    Fault(
        "the extended card is not fetched by who has a card (client.transport.rest.RestTransport, line"
        " 310; client.transport.grpc.GrpcTransport, line 265)",
        CLIENT,
        JAVA,
        PROTO,
        nothing,
        "extended_card",
    ),
    Fault(
        "the extended card is asked for and the public one is answered (transport.grpc.handler.GrpcHandler, line 305)",
        AGENT,
        JAVA,
        (GRPC,),
        nothing,
        "extended_card",
    ),
    Fault(
        "a message that names a task that there is not creates it (server.tasks.TaskManager, line 142)",
        AGENT,
        JAVA,
        EVERY,
        nothing,
        "unknown_tasks",
    ),
    Fault(
        "an executor's error in a stream is told as an internal one, or ends the stream without a word"
        " (server.requesthandlers.DefaultRequestHandler, lines 352 to 500)",
        AGENT,
        JAVA,
        EVERY,
        nothing,
        "errors",
        sometimes=True,
    ),
)
