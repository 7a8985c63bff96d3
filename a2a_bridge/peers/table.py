"""The peer profiles that the bridge brings along, as data, and the recognition of peers: callers by the
headers of a request, agents by their card or by name. To remove a profile is to remove its row and its test.

Rules:
1. The first row that matches counts: first the profiles of users, then specific rows. Clients of 1.x send the
   header `a2a-version` with every request, also when they speak 0.3.
2. Nothing else in this project reads a user agent; all other modules ask the profile for its quirks.
3. A caller is recognised by a few headers. The result is remembered for each combination of them, within a
   limit, because callers choose their headers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.metadata import EntryPoint, entry_points

from a2a_bridge.extensions import BrokenExtensionError, load
from a2a_bridge.peers.profile import (
    UNKNOWN,
    AgentSigns,
    CallerSigns,
    ErrorData,
    Evidence,
    Files,
    GrpcAddress,
    Profile,
    Quirks,
)

_VERSION = "a2a-version"
_DECLARES = {_VERSION: ""}
_SILENT = frozenset({_VERSION})

_KIB = 1024

_GO_2_GRPC = GrpcAddress(
    "bare", "first", "v2.4.0, a2agrpc/v1/client.go:37, a2agrpc/v0/client.go:62, a2aclient/factory.go:216"
)


def _callers(*user_agents: str, declares: bool) -> tuple[CallerSigns, ...]:
    if declares:
        return tuple(CallerSigns(user_agent, sends=_DECLARES) for user_agent in user_agents)
    return tuple(CallerSigns(user_agent, lacks=_SILENT) for user_agent in user_agents)


PROFILES: tuple[Profile, ...] = (
    Profile("a2a-bridge", "another a2a-bridge", callers=(CallerSigns("a2a-bridge"),)),
    Profile(
        "a2a-go-2",
        "a2a-go 2 (github.com/a2aproject/a2a-go/v2) over HTTP, its 0.3 compatibility included",
        callers=_callers("Go-http-client", declares=True),
        quirks=Quirks(
            file_bytes=Files.BASE64, error_data=ErrorData.ARRAY, events_only=True, zero_history=True
        ),
        evidence={
            # v2.3.1 had a form of its own over HTTP+JSON of 0.3 (a2acompat/a2av0/json_transform.go).
            "file_bytes": Evidence("v2.4.0, a2apb/v0/pbjson/from_proto.go:227 and to_proto.go:187"),
            "error_data": Evidence("v2.4.0, internal/jsonrpc/jsonrpc.go:57"),
            "events_only": Evidence("v2.4.0, internal/sse/sse.go:120: lines that begin with `data:` only"),
            "zero_history": Evidence("v2.4.0, a2acompat/a2av0/conversions.go:602 and a2asrv/handler.go:265"),
        },
        grpc=_GO_2_GRPC,
    ),
    Profile(
        "a2a-go-2.3-grpc",
        "a2a-go 2.0 to 2.3 over gRPC, its 0.3 compatibility included",
        # 2.4.0 requires grpc-go 1.82.1 (go.mod, line 14), 2.0.0 requires 1.73.0.
        callers=_callers("grpc-go/1.7", "grpc-go/1.80.", "grpc-go/1.81.", "grpc-go/1.82.0", declares=True),
        quirks=Quirks(file_bytes=Files.RAW),
        evidence={
            "file_bytes": Evidence("v2.3.1, a2apb/v0/pbconv/from_proto.go:93 and to_proto.go:309", "2.4.0")
        },
        grpc=_GO_2_GRPC,
    ),
    Profile(
        "a2a-go-2-grpc",
        "a2a-go 2 over gRPC, its 0.3 compatibility included; with a new grpc-go its releases look alike",
        callers=_callers("grpc-go", declares=True),
        quirks=Quirks(file_bytes=Files.EITHER),
        evidence={
            "file_bytes": Evidence(
                "content in v2.3.1, a2apb/v0/pbconv/from_proto.go:93 and to_proto.go:309; base64 text in"
                " v2.4.0, from_proto.go:93 and to_proto.go:306"
            )
        },
        grpc=_GO_2_GRPC,
    ),
    Profile(
        "a2a-go-0.3",
        "a2a-go 0.3",
        callers=_callers("Go-http-client", "grpc-go", declares=False),
        quirks=Quirks(
            file_bytes=Files.BASE64, error_data=ErrorData.OBJECT, events_only=True, zero_history=True
        ),
        evidence={
            "file_bytes": Evidence("v0.3.15, a2apb/pbconv/from_proto.go:93 and to_proto.go:320", "2.0.0"),
            "error_data": Evidence("v0.3.15, internal/jsonrpc/jsonrpc.go:51", "2.0.0"),
            "events_only": Evidence("v0.3.15, internal/sse/sse.go: lines that begin with `data:` only"),
            "zero_history": Evidence("v0.3.15, a2asrv/handler.go:197; the client leaves out what is not set"),
        },
        grpc=GrpcAddress("bare", "first", "v0.3.15, a2aclient/grpc.go:40, a2aclient/factory.go:76"),
    ),
    Profile(
        "fasta2a-2",
        "fasta2a 2, which serves agents of pydantic-ai 2",
        # 2.1.1, fasta2a/applications.py:108. No SDK writes its cards in this order.
        agents=(
            AgentSigns(
                begins=(
                    *("name", "description", "version", "supportedInterfaces", "skills"),
                    *("defaultInputModes", "defaultOutputModes", "capabilities"),
                )
            ),
        ),
        quirks=Quirks(answers_early=True),
        evidence={"answers_early": Evidence("2.1.1, fasta2a/task_manager.py:149")},
    ),
    Profile(
        "google-adk-2",
        "Google ADK 2 for Python, as a reader of cards; its requests are those of a2a-sdk 1.x",
        quirks=Quirks(http_cards=True),
        evidence={"http_cards": Evidence("2.13.0, google/adk/a2a/agent/_remote_a2a_agent.py:1110")},
    ),
    Profile(
        "a2a-python-1",
        "a2a-sdk 1.x for Python, its 0.3 compatibility included",
        callers=_callers("python-httpx", "grpc-python", declares=True),
        quirks=Quirks(file_bytes=Files.BASE64),
        evidence={"file_bytes": Evidence("1.3.0, a2a/compat/v0_3/proto_utils.py:188 and 672")},
        grpc=GrpcAddress(
            "bare", "first", "1.3.0, a2a/client/client_factory.py:239, a2a/client/transports/grpc.py:133"
        ),
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
        grpc=GrpcAddress(
            "bare", "last", "0.3.26, a2a/client/client_factory.py:208, a2a/client/transports/grpc.py:85"
        ),
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
        # Its requests look like requests of 0.3, also for the card: the same headers in the same order.
        "a2a-java-1-alpha",
        "a2a-java 1.0.0.Alpha3 (io.github.a2asdk), which sends no A2A-Version",
        quirks=Quirks(exact_cards=True, answers_early=True),
        evidence={
            "answers_early": Evidence("1.0.0.Alpha3, observed: it knows `blocking` of a draft instead"),
            "exact_cards": Evidence(
                "1.0.0.Alpha3, observed: A2A.getAgentCard fails for `protocolVersion` in AgentCard"
            ),
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
        grpc=GrpcAddress(
            "bare", "first", "0.3.3.Final, io/a2a/client/ClientBuilder.java, getServerPreferredTransports"
        ),
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
        grpc=GrpcAddress(
            "bare", "first", "1.3.0, dist/client/index.js:6517, dist/client/transports/grpc/index.js:9669"
        ),
    ),
    Profile(
        "a2a-js-0.3",
        "@a2a-js/sdk 0.3, and the 0.3 compatibility of 1.x; agents behind Express",
        callers=_callers("node", "grpc-node-js", declares=False),
        agents=(AgentSigns({"x-powered-by": "Express"}),),
        quirks=Quirks(file_bytes=Files.RAW),
        evidence={"file_bytes": Evidence("0.3.14, dist/chunk-5ONEQMOQ.js:1250 and 1942")},
        grpc=GrpcAddress(
            "bare", "last", "0.3.14, dist/client/index.js:1384, dist/client/transports/grpc/index.js:24"
        ),
    ),
    Profile(
        "a2a-rust",
        "a2a-rs (a2a-grpc) over gRPC",
        callers=_callers("tonic", declares=True),
        grpc=GrpcAddress(
            "any", "first", "a2a-grpc 0.3.11, src/client.rs:24; a2a-client-lf 0.2.9, src/factory.rs:119"
        ),
    ),
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


GROUP = "a2a_bridge.peers"
USER_AGENT = "user-agent"

#: combinations of headers that are remembered
_REMEMBERED = 1024


class Profiles:
    """A table of profiles in the order in which they are tried."""

    def __init__(self, own: tuple[Profile, ...] = (), known: tuple[Profile, ...] = PROFILES) -> None:
        names = [one.name for one in (*own, *known, UNKNOWN)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two peer profiles are named {name!r}")
        self.all = (*own, *known)
        deciding = {name for one in self.all for signs in one.callers for name in signs.headers}
        self._headers = tuple(sorted(deciding))
        self._found: dict[tuple[str | None, ...], Profile] = {}

    def caller(self, parameters: Mapping[str, str]) -> Profile:
        """The profile of a caller, from the headers or metadata of its request by lower-case name."""
        get = parameters.get
        key = (get(USER_AGENT), *[get(name) for name in self._headers])
        found = self._found.get(key)
        return self._recognise(key) if found is None else found

    def _recognise(self, key: tuple[str | None, ...]) -> Profile:
        user_agent, *values = key
        headers = {
            name: value
            for name, value in zip(self._headers, values, strict=True)
            if value and not value.isspace()
        }
        found = next(
            (one for one in self.all if any(signs.match(user_agent or "", headers) for signs in one.callers)),
            UNKNOWN,
        )
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[key] = found
        return found

    def agent(self, headers: Mapping[str, str], members: Collection[str]) -> Profile:
        """The profile of an agent. headers: of the response that holds its card; members: of that card, in
        their order.
        """
        return next(
            (one for one in self.all if any(signs.match(headers, members) for signs in one.agents)),
            UNKNOWN,
        )

    def find_profile(self, name: str) -> Profile:
        """The profile of a name. Raises LookupError that lists the names."""
        for one in self.all:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.all)
        raise LookupError(f"there is no peer profile {name!r}; known: {known}")


_added: tuple[Profile, ...] = ()
_table: Profiles | None = None


def add_profile(profile: Profile) -> None:
    """Adds or replaces a custom profile in this process. Raises ValueError for the name of a built-in one."""
    global _added, _table
    added = (profile, *(one for one in _added if one.name != profile.name))
    Profiles(added)
    _added, _table = added, None


def profiles() -> Profiles:
    """The table: profiles that were added, profiles of entry points of group `a2a_bridge.peers`, profiles of
    the bridge. An entry point names a Profile, or a function without arguments that returns several. The
    first call raises BrokenExtensionError for any other entry point.
    """
    global _table  # noqa: PLW0603  made once, because entry points are looked up in files
    if _table is None:
        found = [profile for point in entry_points(group=GROUP) for profile in _load(point)]
        names = {one.name for one in _added}
        _table = Profiles((*_added, *(one for one in found if one.name not in names)))
    return _table


def _load(point: EntryPoint) -> tuple[Profile, ...]:
    what = f"the peer profile {point.name!r}"
    loaded: Profile | Callable[[], tuple[Profile, ...]] = load(point, what)
    if isinstance(loaded, Profile):
        return (loaded,)
    try:
        found = tuple(loaded())
    except Exception as error:
        raise BrokenExtensionError(what, f"{type(error).__name__}: {error}", [point]) from error
    if not all(isinstance(one, Profile) for one in found):
        raise BrokenExtensionError(what, f"{point.value} returns other objects, too", [point])
    return found


def caller(parameters: Mapping[str, str]) -> Profile:
    """The profile of the caller of a request, from its headers or metadata; UNKNOWN for one that has none."""
    return (_table or profiles()).caller(parameters)


def find_profile(peer: Profile | str) -> Profile:
    """The profile that a user chose, by name or as it is; UNKNOWN for "". Raises LookupError."""
    if isinstance(peer, Profile):
        return peer
    return profiles().find_profile(peer) if peer else UNKNOWN
