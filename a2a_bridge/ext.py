"""The names for authors of transports, versions, stores, adapters and middleware.

These names and those of `a2a_bridge.__all__` are the stable API: they change with a major version only, and
CHANGELOG.md says so. Every other module may change without notice. The contract suites for your tests are in
`a2a_bridge.testing.contracts`; they need pytest.
"""

from a2a_bridge.app.peer import Peer, request_of
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.app.runtime import Server, asgi_gateway, serve_gateway, serve_service
from a2a_bridge.auth.card_trust import CardTrust
from a2a_bridge.bindings.binding import (
    Binding,
    DialOptions,
    DocumentHost,
    Host,
    HostOptions,
    ListenAddress,
    TlsFiles,
    http_fetch,
)
from a2a_bridge.bindings.binding import find as find_binding
from a2a_bridge.bindings.binding import names as binding_names
from a2a_bridge.bindings.following import Following
from a2a_bridge.bindings.memory import MemoryAccount
from a2a_bridge.bindings.server_tls import ServerTls, TlsFileError
from a2a_bridge.cards import Candidate, interface, resolve, select
from a2a_bridge.codec import JsonSyntaxError, decoder, dumps, encoder, loads
from a2a_bridge.core import operations
from a2a_bridge.core.agent_api import Client, service_of
from a2a_bridge.core.call import (
    EXTENSIONS_PARAMETER,
    LAST_EVENT_PARAMETER,
    VERSION_PARAMETER,
    Call,
    CallContext,
    Origin,
    Principal,
)
from a2a_bridge.core.callers import Authenticate, Presented, UnauthenticatedError
from a2a_bridge.core.errors import (
    A2AError,
    AgentFactoryError,
    Blame,
    OwnerLostError,
    Reason,
    internal_error,
    invalid_params,
    request_too_large,
    task_not_found,
)
from a2a_bridge.core.lifecycle import ArtifactIndex, fold
from a2a_bridge.core.operations import Operation, Req, Res, Streaming, Unary
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.core.paging import PageTokens, TaskPageFiller
from a2a_bridge.core.resume import gap_of, is_id, resume_id
from a2a_bridge.core.service import Event, Events, Middleware, Service, compose
from a2a_bridge.dialects import (
    GRPC,
    HTTP_JSON,
    JSONRPC,
    KNOWN,
    V1_0,
    BindingKind,
    CardForm,
    Dialect,
    ErrorReply,
    Form,
    HttpAddress,
    HttpRule,
    Loss,
    PushForm,
    Row,
    RowExtras,
    by_version,
    newest_first,
)
from a2a_bridge.dialects.known import detect
from a2a_bridge.dialects.signed_extras import use_key as use_bridge_key
from a2a_bridge.gateway.cards import CardReading
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.gateway.credentials.grants import ClientCredentials, TokenExchange
from a2a_bridge.gateway.credentials.sending import StaticCredentials, UpstreamCredentials
from a2a_bridge.gateway.credentials.token_endpoint import TokenEndpoint
from a2a_bridge.hosting import (
    AgentExecutor,
    CancellingExecutor,
    DirectExecutor,
    Engine,
    EngineOptions,
    ResumingExecutor,
)
from a2a_bridge.hosting import Event as AgentEvent
from a2a_bridge.hosting.adapters import Adapter, MissingAdapterError, NoAgentError
from a2a_bridge.hosting.sdk.types import comes_from
from a2a_bridge.middleware import Limits, Metrics, Usage
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.peers import (
    AgentSigns,
    CallerSigns,
    ErrorData,
    Evidence,
    Files,
    Profile,
    Quirks,
    add_profile,
    caller,
)
from a2a_bridge.push import PushOptions
from a2a_bridge.stores import MemoryStore, open_store
from a2a_bridge.stores.memory_push import MemoryOutbox, MemoryPushConfigStore
from a2a_bridge.stores.ports import (
    Delivery,
    GapError,
    Outbox,
    OutboxEntry,
    PushConfigStore,
    Registered,
    Remote,
    Replica,
    Scope,
    SendRegister,
    Sent,
    Store,
    Stored,
    Subscription,
    TaskPage,
    TaskQuery,
    TaskWriter,
    VersionConflictError,
)
from a2a_bridge.stores.records import (
    CONFLICT,
    Expiry,
    Found,
    Place,
    Position,
    Records,
    SentChange,
    SentRow,
    SharedRecords,
    TaskChange,
    TaskRow,
)
from a2a_bridge.stores.row_format import Segment
from a2a_bridge.stores.store_base import StoreBase

__all__ = [
    "CONFLICT",
    "EXTENSIONS_PARAMETER",
    "GRPC",
    "HTTP_JSON",
    "JSONRPC",
    "KNOWN",
    "LAST_EVENT_PARAMETER",
    "V1_0",
    "VERSION_PARAMETER",
    "A2AError",
    "Adapter",
    "AgentEvent",
    "AgentExecutor",
    "AgentFactoryError",
    "AgentSigns",
    "ArtifactIndex",
    "Authenticate",
    "Binding",
    "BindingKind",
    "Blame",
    "Call",
    "CallContext",
    "CallerSigns",
    "CancellingExecutor",
    "Candidate",
    "CardForm",
    "CardReading",
    "CardTrust",
    "Client",
    "ClientCredentials",
    "Delivery",
    "DialOptions",
    "Dialect",
    "DirectExecutor",
    "DocumentHost",
    "Engine",
    "EngineOptions",
    "ErrorData",
    "ErrorReply",
    "Event",
    "Events",
    "Evidence",
    "Expiry",
    "Files",
    "Following",
    "Form",
    "Found",
    "GapError",
    "Host",
    "HostOptions",
    "HttpAddress",
    "HttpRule",
    "JsonSyntaxError",
    "Limits",
    "ListenAddress",
    "Loss",
    "MemoryAccount",
    "MemoryOutbox",
    "MemoryPushConfigStore",
    "MemoryStore",
    "Metrics",
    "Middleware",
    "MissingAdapterError",
    "NoAgentError",
    "Operation",
    "Origin",
    "Outbox",
    "OutboxEntry",
    "OwnerLostError",
    "PageTokens",
    "Peer",
    "Place",
    "Position",
    "Presented",
    "Principal",
    "Profile",
    "PushConfigStore",
    "PushForm",
    "PushOptions",
    "Quirks",
    "Reason",
    "Records",
    "Registered",
    "Remote",
    "Replica",
    "Req",
    "Res",
    "ResumingExecutor",
    "Row",
    "RowExtras",
    "Scope",
    "Segment",
    "SendRegister",
    "Sent",
    "SentChange",
    "SentRow",
    "ServeOptions",
    "Server",
    "ServerTls",
    "Service",
    "SharedRecords",
    "StaticCredentials",
    "Store",
    "StoreBase",
    "StoreOptions",
    "Stored",
    "Streaming",
    "Subscription",
    "TaskChange",
    "TaskPage",
    "TaskPageFiller",
    "TaskQuery",
    "TaskRow",
    "TaskWriter",
    "TlsFileError",
    "TlsFiles",
    "TokenEndpoint",
    "TokenExchange",
    "Unary",
    "UnauthenticatedError",
    "UpstreamCredentials",
    "UpstreamOptions",
    "Usage",
    "VersionConflictError",
    "add_profile",
    "asgi_gateway",
    "binding_names",
    "by_version",
    "caller",
    "comes_from",
    "compose",
    "decoder",
    "detect",
    "dumps",
    "encoder",
    "find_binding",
    "fold",
    "gap_of",
    "http_fetch",
    "hub",
    "interface",
    "internal_error",
    "invalid_params",
    "is_id",
    "loads",
    "newest_first",
    "open_store",
    "operations",
    "request_of",
    "request_too_large",
    "resolve",
    "resume_id",
    "select",
    "serve_gateway",
    "serve_service",
    "service_of",
    "task_not_found",
    "use_bridge_key",
]
