"""The configuration of an Envoy in front of replicas of a bridge. Pure; `cli/export.py` prints it.

Rules:
1. One listener for HTTP/1.1 and HTTP/2. gRPC goes to the gRPC port of a replica, everything else to its HTTP
   port; a host name or a path below /agents leads to one of several agents.
2. Only a replica whose `/readyz` is 200 gets calls; without such a replica, callers get 503. Envoy's panic
   mode is off: a replica that drains would reject calls anyway.
3. Nothing is sent twice, but for GET requests whose connection failed before anything was written.
4. Streams have no time limit, and nothing is buffered.
5. Envoy is the edge: it writes X-Forwarded-For and X-Forwarded-Proto, and removes the other headers that
   replicas trust of a proxy: other forwarded headers, and the name of the caller, which only filters of Envoy
   may set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2a_bridge.cli.envoy.bootstrap import downstream_tls
from a2a_bridge.core.addresses import is_address
from a2a_bridge.core.option_classes import ServerTlsValues

_TYPE = "type.googleapis.com/"
_HTTP = _TYPE + "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = _TYPE + "envoy.extensions.filters.http.router.v3.Router"
_UPSTREAM = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_UPSTREAM_TLS = _TYPE + "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
_MUTATION = _TYPE + "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"

#: names of the listener and of the clusters
LISTENER, HTTP_CLUSTER, GRPC_CLUSTER = "a2a", "replicas_http", "replicas_grpc"
#: seconds between two health checks, and for the response to one; see `--drain-window`
HEALTH_INTERVAL = 1.0
_HEALTH_TIMEOUT = 2.0
#: seconds that Envoy keeps an idle connection to a replica: shorter than the 75 s after which the replica
#: closes it, because a request on a connection that is being closed is lost
_IDLE = 60.0
#: Envoy's own limits of a cluster are 1,024 calls: streams would reach them. The replicas have limits.
_UNLIMITED = 0xFFFFFFFF
#: what replicas read from a trusted proxy, and this one does not write
_FORWARDED = ("forwarded", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix")
#: bytes that HTTP/2 peers may send ahead: of one stream, and of a connection
_STREAM_WINDOW, _CONNECTION_WINDOW = 1024 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica, or a name with the addresses of several."""

    host: str
    #: ports; 0: not served
    http: int
    grpc: int


@dataclass(frozen=True, slots=True)
class FrontAgent:
    """One of several agents of each replica."""

    name: str
    #: host name of its calls; empty: found by its path and its tenant only
    host: str = ""
    #: its own gRPC port; 0: the common one
    grpc: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaTls:
    """How replicas that speak TLS are checked. name: in their certificates, or an IP address."""

    name: str
    #: file with authorities; None: those of the system
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class FrontOptions:
    """The values in the configuration."""

    #: IP address and port
    listen: tuple[str, int]
    admin: tuple[str, int]
    replicas: tuple[Replica, ...]
    agents: tuple[FrontAgent, ...] = ()
    #: path of the public URL, which replicas do not have; empty: none
    path: str = ""
    tls: ServerTlsValues | None = None
    #: None: replicas speak plain text
    replica_tls: ReplicaTls | None = None
    #: of callers; 0: no limit
    max_connections: int = 0
    max_connection_streams: int = 1000
    #: more headers that callers must not set
    removed_headers: tuple[str, ...] = ()


def front(options: FrontOptions) -> dict[str, Any]:
    """The configuration as a JSON document."""
    has_http = any(one.http for one in options.replicas)
    clusters = [_cluster(HTTP_CLUSTER, options, [(one, one.http) for one in options.replicas])]
    if not has_http:
        clusters = []
    if any(one.grpc for one in options.replicas):
        common = [(one, one.grpc) for one in options.replicas]
        clusters.append(_cluster(GRPC_CLUSTER, options, common, grpc=True))
        for agent in options.agents:
            if agent.grpc:
                own = [(one, agent.grpc) for one in options.replicas]
                clusters.append(_cluster(_own_cluster(agent), options, own, grpc=True))
    limits = {}
    if options.max_connections:
        limits[f"envoy.resource_limits.listener.{LISTENER}.connection_limit"] = options.max_connections
    return {
        "admin": {"address": _address(*options.admin)},
        "layered_runtime": {"layers": [{"name": "limits", "static_layer": limits}]},
        "static_resources": {"listeners": [_listener(options)], "clusters": clusters},
    }


def _own_cluster(agent: FrontAgent) -> str:
    return f"{GRPC_CLUSTER}_{agent.name}"


def _address(host: str, port: int) -> dict[str, Any]:
    address: dict[str, Any] = {"address": host, "port_value": port}
    if host == "::":
        address["ipv4_compat"] = True
    return {"socket_address": address}


# ---------------------------------------------------------------------------------------- from callers


def _listener(options: FrontOptions) -> dict[str, Any]:
    chain: dict[str, Any] = {"filters": [_connection_manager(options)]}
    if options.tls is not None:
        chain["transport_socket"] = downstream_tls(options.tls)
    return {"name": LISTENER, "address": _address(*options.listen), "filter_chains": [chain]}


def _connection_manager(options: FrontOptions) -> dict[str, Any]:
    router = {"@type": _ROUTER, "suppress_envoy_headers": True}
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": _HTTP,
            "stat_prefix": LISTENER,
            "codec_type": "AUTO",
            "generate_request_id": False,
            "server_header_transformation": "PASS_THROUGH",
            "use_remote_address": True,
            "early_header_mutation_extensions": [_removal((*_FORWARDED, *options.removed_headers))],
            "normalize_path": True,
            "stream_idle_timeout": "0s",
            "request_headers_timeout": "20s",
            "drain_timeout": "5s",
            "http2_protocol_options": {
                "max_concurrent_streams": options.max_connection_streams,
                "initial_stream_window_size": _STREAM_WINDOW,
                "initial_connection_window_size": _CONNECTION_WINDOW,
                "connection_keepalive": {"interval": "20s", "timeout": "8s"},
            },
            "route_config": {
                "ignore_port_in_host_matching": True,
                "virtual_hosts": _virtual_hosts(options),
            },
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
        },
    }


def _removal(headers: Sequence[str]) -> dict[str, Any]:
    """Removes headers before any filter runs, so that a filter can set them."""
    mutations: list[dict[str, Any]] = [{"remove": name.lower()} for name in headers]
    # Headers x-envoy-… switch retries and time limits on. Envoy itself removes them only from calls that come
    # from outside, and a private address does not count as outside.
    mutations.append({"remove_on_match": {"key_matcher": {"prefix": "x-envoy-", "ignore_case": True}}})
    config = {"@type": _MUTATION, "mutations": mutations}
    return {"name": "envoy.http.early_header_mutation.header_mutation", "typed_config": config}


def _virtual_hosts(options: FrontOptions) -> list[dict[str, Any]]:
    has_http = any(one.http for one in options.replicas)
    has_grpc = any(one.grpc for one in options.replicas)
    hosts = []
    for agent in options.agents:
        if agent.host:
            cluster = _own_cluster(agent) if agent.grpc else GRPC_CLUSTER
            routes = _grpc_route(cluster) if has_grpc else []
            if has_http:
                routes += _http_routes({"prefix": "/"}, agent.name)
            hosts.append({"name": agent.name, "domains": [agent.host], "routes": routes})
    routes = _grpc_route(GRPC_CLUSTER) if has_grpc else []
    if has_http:
        if options.path:
            routes += _http_routes({"prefix": f"{options.path}/"}, "public", "/")
            routes += _http_routes({"path": options.path}, "public", "/")
        for agent in options.agents:
            routes += _http_routes({"path_separated_prefix": f"/agents/{agent.name}"}, agent.name)
        # The replicas answer for paths that nobody has, and for agents that they have got since.
        routes += _http_routes({"prefix": "/"}, "other")
    return [*hosts, {"name": "any", "domains": ["*"], "routes": routes}]


def _grpc_route(cluster: str) -> list[dict[str, Any]]:
    # Deadlines of callers are passed on in grpc-timeout, and kept by the replicas.
    action = {"cluster": cluster, "timeout": "0s", "idle_timeout": "0s"}
    return [{"name": "grpc", "match": {"prefix": "/", "grpc": {}}, "route": action}]


def _http_routes(match: dict[str, Any], name: str, rewritten: str = "") -> list[dict[str, Any]]:
    """rewritten: in place of the prefix, or path, that is matched; empty: it stays."""
    action: dict[str, Any] = {"cluster": HTTP_CLUSTER, "timeout": "0s", "idle_timeout": "0s"}
    if rewritten:
        action["prefix_rewrite"] = rewritten
    reads = {"headers": [{"name": ":method", "string_match": {"exact": "GET"}}]}
    again = {"retry_policy": {"retry_on": "connect-failure,refused-stream", "num_retries": 1}}
    return [
        {"name": f"{name}_get", "match": {**match, **reads}, "route": {**action, **again}},
        {"name": name, "match": match, "route": action},
    ]


# ---------------------------------------------------------------------------------------- to replicas


def _cluster(
    name: str, options: FrontOptions, ports: Sequence[tuple[Replica, int]], *, grpc: bool = False
) -> dict[str, Any]:
    """ports: of each replica; 0: it is left out."""
    served = [(replica, port) for replica, port in ports if port]
    limits = ("max_connections", "max_pending_requests", "max_requests")
    protocol: dict[str, Any] = {"http_protocol_options": {}}
    if grpc:
        protocol = {"http2_protocol_options": {"connection_keepalive": {"interval": "20s", "timeout": "8s"}}}
    made: dict[str, Any] = {
        "name": name,
        "type": "STATIC" if all(is_address(replica.host) for replica, _ in served) else "STRICT_DNS",
        "dns_lookup_family": "V4_PREFERRED",
        "connect_timeout": "5s",
        "lb_policy": "LEAST_REQUEST",
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "circuit_breakers": {"thresholds": [dict.fromkeys(limits, _UNLIMITED)]},
        "typed_extension_protocol_options": {
            _UPSTREAM: {
                "@type": _TYPE + _UPSTREAM,
                "common_http_protocol_options": {"idle_timeout": f"{_IDLE:g}s"},
                "explicit_http_config": protocol,
            }
        },
        "health_checks": [_health_check(options)],
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [_endpoint(replica, port) for replica, port in served]}],
        },
    }
    if options.replica_tls is not None:
        made["transport_socket"] = _upstream_tls(options.replica_tls, "h2" if grpc else "http/1.1")
    return made


def _endpoint(replica: Replica, port: int) -> dict[str, Any]:
    endpoint: dict[str, Any] = {"address": _address(replica.host, port)}
    if replica.http and replica.http != port:
        endpoint["health_check_config"] = {"port_value": replica.http}
    return {"endpoint": endpoint}


def _health_check(options: FrontOptions) -> dict[str, Any]:
    """`/readyz` of the HTTP port, also for gRPC; the health service of gRPC without HTTP."""
    has_http = all(one.http for one in options.replicas)
    interval = f"{HEALTH_INTERVAL:g}s"
    check: dict[str, Any] = {
        "timeout": f"{_HEALTH_TIMEOUT:g}s",
        "interval": interval,
        # Without it, replicas are looked at once a minute until the first call.
        "no_traffic_interval": interval,
        # A response that says "not ready" counts at once; these count lost ones.
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
    }
    if has_http:
        check["http_health_check"] = {"path": "/readyz", "codec_client_type": "HTTP1"}
    else:
        check["grpc_health_check"] = {}
    if options.replica_tls is not None:
        check["tls_options"] = {"alpn_protocols": ["http/1.1" if has_http else "h2"]}
    return check


def _upstream_tls(tls: ReplicaTls, protocol: str) -> dict[str, Any]:
    authorities: dict[str, Any] = {"system_root_certs": {}}
    if tls.ca is not None:
        authorities = {"trusted_ca": {"filename": str(tls.ca)}}
    is_ip = is_address(tls.name)
    named = {"san_type": "IP_ADDRESS" if is_ip else "DNS", "matcher": {"exact": tls.name}}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": _UPSTREAM_TLS,
            **({} if is_ip else {"sni": tls.name}),
            "common_tls_context": {
                "alpn_protocols": [protocol],
                "validation_context": {**authorities, "match_typed_subject_alt_names": [named]},
            },
        },
    }
