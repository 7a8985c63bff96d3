"""The peer profiles that the bridge brings along, as data. To remove one is to remove its row and its test.

The first row that matches is taken, so that the more specific ones come first. `a2a-version` is the header
that clients of 1.x send with every request, also when they speak 0.3.
"""

from __future__ import annotations

from a2a_bridge.peers.profile import AgentSigns, CallerSigns, ErrorData, Evidence, Files, Profile, Quirks

_VERSION = "a2a-version"
_DECLARES = {_VERSION: ""}
_SILENT = frozenset({_VERSION})

_KIB = 1024


def _callers(*user_agents: str, declares: bool) -> tuple[CallerSigns, ...]:
    if declares:
        return tuple(CallerSigns(user_agent, sends=_DECLARES) for user_agent in user_agents)
    return tuple(CallerSigns(user_agent, lacks=_SILENT) for user_agent in user_agents)


PROFILES: tuple[Profile, ...] = (
    Profile("a2a-bridge", "another a2a-bridge", callers=(CallerSigns("a2a-bridge"),)),
    Profile(
        "a2a-go-2",
        "a2a-go 2 (github.com/a2aproject/a2a-go/v2), its 0.3 compatibility included",
        callers=_callers("Go-http-client", "grpc-go", declares=True),
        quirks=Quirks(file_bytes=Files.RAW, error_data=ErrorData.ARRAY, events_only=True),
        evidence={
            "file_bytes": Evidence("v2.3.1, a2apb/v0/pbconv/from_proto.go:93 and to_proto.go:309"),
            "error_data": Evidence("v2.3.1, internal/jsonrpc/jsonrpc.go:57"),
            "events_only": Evidence("v2.3.1, internal/sse/sse.go:98: lines that begin with `data:` only"),
        },
    ),
    Profile(
        "a2a-go-0.3",
        "a2a-go 0.3",
        callers=_callers("Go-http-client", "grpc-go", declares=False),
        quirks=Quirks(file_bytes=Files.BASE64, error_data=ErrorData.OBJECT, events_only=True),
        evidence={
            "file_bytes": Evidence("v0.3.15, a2apb/pbconv/from_proto.go:93 and to_proto.go:320", "2.0.0"),
            "error_data": Evidence("v0.3.15, internal/jsonrpc/jsonrpc.go:51", "2.0.0"),
            "events_only": Evidence("v0.3.15, internal/sse/sse.go: lines that begin with `data:` only"),
        },
    ),
    Profile(
        "a2a-python-1",
        "a2a-sdk 1.x for Python, its 0.3 compatibility included",
        callers=_callers("python-httpx", "grpc-python", declares=True),
        quirks=Quirks(file_bytes=Files.BASE64),
        evidence={"file_bytes": Evidence("1.3.0, a2a/compat/v0_3/proto_utils.py:188 and 672")},
    ),
    Profile(
        "a2a-python-0.3",
        "a2a-sdk 0.2 and 0.3 for Python",
        callers=_callers("python-httpx", "grpc-python", declares=False),
        quirks=Quirks(file_bytes=Files.BASE64, events_only=True),
        evidence={
            "file_bytes": Evidence("0.3.26, a2a/utils/proto_utils.py:185 and 661"),
            "events_only": Evidence("0.3.26, a2a/client/transports/jsonrpc.py:168", "1.0.0"),
        },
    ),
    Profile(
        "a2a-java-1",
        "a2a-java 1.x, its 0.3 compatibility included",
        callers=_callers("Java-http-client", "grpc-java", declares=True),
        quirks=Quirks(file_bytes=Files.BASE64, max_event_line=64 * _KIB),
        evidence={
            "file_bytes": Evidence("1.2.0, observed: the 0.3 compatibility writes base64 text"),
            "max_event_line": Evidence("1.2.0, observed: event lines above 64 KiB are dropped"),
        },
    ),
    Profile(
        "a2a-java-0.3",
        "a2a-java 0.3 (io.github.a2asdk)",
        callers=_callers("Java-http-client", "grpc-java", declares=False),
        quirks=Quirks(file_bytes=Files.BASE64, events_only=True, strict_json=True),
        evidence={
            "file_bytes": Evidence("0.3.3.Final, io/a2a/grpc/utils/ProtoUtils.java:260"),
            "strict_json": Evidence("0.3.3.Final, io/a2a/client/transport/rest/RestTransport.java:79"),
            "events_only": Evidence("0.3.3.Final, io/a2a/client/http/JdkA2AHttpClient.java:113"),
        },
    ),
    Profile(
        "a2a-js-1",
        "@a2a-js/sdk 1.x",
        callers=_callers("node", "grpc-node-js", declares=True),
        quirks=Quirks(file_bytes=Files.RAW),
        evidence={
            "file_bytes": Evidence(
                "1.3.0, dist/compat/v0_3/client/index.js:3443; base64 text in 1.0.0-beta.0"
            )
        },
    ),
    Profile(
        "a2a-js-0.3",
        "@a2a-js/sdk 0.3, and the 0.3 compatibility of 1.x; agents behind Express",
        callers=_callers("node", "grpc-node-js", declares=False),
        agents=(AgentSigns({"x-powered-by": "Express"}),),
        quirks=Quirks(file_bytes=Files.RAW),
        evidence={"file_bytes": Evidence("0.3.14, dist/chunk-5ONEQMOQ.js:1250 and 1942")},
    ),
    Profile("a2a-rust", "a2a-rs (a2a-grpc) over gRPC", callers=_callers("tonic", declares=True)),
    Profile(
        "a2a-dotnet-preview",
        "A2A .NET 1.0 previews; other clients of 1.0 without a user agent look the same",
        callers=_callers("", declares=True),
        quirks=Quirks(events_only=True, draft_push_configs=True),
        evidence={
            "draft_push_configs": Evidence("1.0.0-preview3, src/A2A/Models/TaskPushNotificationConfig.cs"),
            "events_only": Evidence("1.0.0-preview3, src/A2A/Client/A2AClient.cs before a2a-dotnet #476"),
        },
    ),
)
