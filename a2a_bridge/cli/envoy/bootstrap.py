"""The configuration (bootstrap) of Envoy: one listener, whose requests go to the Python module of pyvoy.

Rules:
1. No access log, no route to another server, no filter besides the Python one and one that rejects unreadable
   paths, and only the statistics that draining reads.
2. The client address and the scheme are those of the connection. The bridge reads the headers of the proxies
   that it trusts (--forwarded-allow-ips).
3. Envoy's limits lie above the limits of the bridge, so that callers get the bridge's errors.
4. Envoy's universal header validation is not compiled into this Envoy. So its HTTP/1 codec accepts bare LF,
   folded lines, a space behind a chunk size and any trailer; nothing behind Envoy parses the bytes again.
5. pyvoy 1.3.0 never answers a request whose path is not UTF-8. So the RBAC filter rejects the request before
   pyvoy, and a mapping of local replies gives it the status and the body that the builtin server has for it.
"""

import json
from dataclasses import dataclass
from typing import Any

from a2a_bridge.core.option_classes import HostValues, ServerTlsValues

_TYPE = "type.googleapis.com/"
_HEX, _NEXT = "[0-9A-Fa-f]", "%[89ABab][0-9A-Fa-f]"
#: one character that is percent-encoded in UTF-8 (RFC 3629, 4)
_ENCODED = "|".join(
    (
        f"%[0-7]{_HEX}",
        f"%(?:[Cc][2-9A-Fa-f]|[Dd]{_HEX}){_NEXT}",
        f"%[Ee]0%[ABab]{_HEX}{_NEXT}",
        f"%[Ee][1-9ABCEFabcef]{_NEXT}{_NEXT}",
        f"%[Ee][Dd]%[89]{_HEX}{_NEXT}",
        f"%[Ff]0%[9ABab]{_HEX}{_NEXT}{_NEXT}",
        f"%[Ff][1-3]{_NEXT}{_NEXT}{_NEXT}",
        f"%[Ff]4%8{_HEX}{_NEXT}{_NEXT}",
    )
)
#: percent signs that encode nothing, which stand for themselves
_LITERAL = f"(?:%{_HEX}?)+"
#: printable ASCII except `%` and `?`; the same without hexadecimal digits
_PLAIN, _NO_DIGIT = "[!-$&->@-~]", "[!-$&-/:->@G-`g-~]"
#: a request target whose path is UTF-8. The bridge reads the query itself.
READABLE = rf"(?:{_PLAIN}|{_ENCODED}|{_LITERAL}{_NO_DIGIT})*(?:{_LITERAL})?(?:\?.*)?"
#: for the layered runtime: Envoy rejects expressions above 100 by default
LIMITS = {"re2.max_program_size.error_level": 200, "re2.max_program_size.warn_level": 200}
_UNREADABLE = {
    "name": ":path",
    "string_match": {"safe_regex": {"regex": READABLE}},
    "invert_match": True,
}
#: a test compares it with the response of the builtin server
_ANSWER = {
    "error": {
        "code": 400,
        "status": "INVALID_ARGUMENT",
        "message": "the path is not UTF-8",
        "details": [
            {
                "@type": _TYPE + "google.rpc.ErrorInfo",
                "reason": "INVALID_REQUEST",
                "domain": "a2a-protocol.org",
            }
        ],
    }
}


def readable_only() -> dict[str, Any]:
    """The HTTP filter."""
    rejected = {"permissions": [{"header": _UNREADABLE}], "principals": [{"any": True}]}
    return {
        "name": "envoy.filters.http.rbac",
        "typed_config": {
            "@type": _TYPE + "envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": {"action": "DENY", "policies": {"path": rejected}},
        },
    }


def local_replies() -> dict[str, Any]:
    """The response to a request that the filter rejects."""
    body = {"text_format_source": {"inline_string": json.dumps(_ANSWER)}, "content_type": "application/json"}
    return {
        "mappers": [
            {
                "filter": {"header_filter": {"header": _UNREADABLE}},
                "status_code": 400,
                "body_format_override": body,
            }
        ]
    }


#: names in the configuration
LISTENER = "a2a"
STREAMS, CONNECTIONS = "downstream_rq_active", "downstream_cx_active"
#: the header in which the application finds the X-Forwarded-Proto of a caller
FORWARDED_SCHEME = "x-a2a-bridge-forwarded-proto"
#: the ASGI application that runs in Envoy
APPLICATION = "a2a_bridge.cli.envoy.application:app"

#: bytes that Envoy buffers of a body above the limit of the bridge
_SLACK = 1024 * 1024
#: how many times as large as allowed the headers may be that the bridge still answers
_HEADER_SLACK = 16
#: bytes that HTTP/2 peers may send ahead: of one stream, and of a connection
_STREAM_WINDOW, _CONNECTION_WINDOW = 1024 * 1024, 4 * 1024 * 1024
_HTTP = _TYPE + "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_MODULE = _TYPE + "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"
_TLS = _TYPE + "envoy.extensions.transport_sockets.tls.v3."


@dataclass(frozen=True, slots=True)
class EnvoyOptions:
    """The values in the configuration of Envoy. Sizes in bytes, times in seconds."""

    #: IP addresses to listen on, at least one
    hosts: tuple[str, ...]
    #: 0: the system chooses a free one
    port: int
    #: the native module of pyvoy
    module: str
    #: the Unix socket of Envoy's administration
    admin: str
    loop: str
    #: the limits of the bridge. With `trust_forwarded`, X-Forwarded-Proto is kept for it
    limits: HostValues
    #: how long an idle connection is kept
    idle_timeout: float
    tls: ServerTlsValues | None = None


def bootstrap(options: EnvoyOptions) -> dict[str, Any]:
    """The configuration as a JSON document."""
    # Not a second listener for HTTP/3: pyvoy makes an event loop for each filter, and an agent has one.
    limits = dict(LIMITS)
    if options.limits.max_connections:
        limits[f"envoy.resource_limits.listener.{LISTENER}.connection_limit"] = options.limits.max_connections
    return {
        "admin": {"address": {"pipe": {"path": options.admin, "mode": 0o600}}},
        "layered_runtime": {"layers": [{"name": "limits", "static_layer": limits}]},
        "static_resources": {"listeners": [_listener(options)]},
        "stats_config": {
            "use_all_default_tags": False,
            "stats_matcher": {"inclusion_list": {"patterns": [{"suffix": STREAMS}, {"suffix": CONNECTIONS}]}},
        },
        # Nothing reads statistics but draining, at the end.
        "stats_flush_interval": "240s",
    }


def _listener(options: EnvoyOptions) -> dict[str, Any]:
    chain: dict[str, Any] = {"filters": [_connection_manager(options)]}
    if options.tls is not None:
        chain["transport_socket"] = downstream_tls(options.tls)
    first, *more = (_address(host, options.port) for host in options.hosts)
    return {
        "name": LISTENER,
        "address": first,
        "additional_addresses": [{"address": one} for one in more],
        # Two servers must not share a port by accident: a taken address is an error.
        "enable_reuse_port": False,
        "tcp_backlog_size": options.limits.backlog,
        "per_connection_buffer_limit_bytes": _SLACK,
        "filter_chains": [chain],
    }


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port, "ipv4_compat": host == "::"}}


def _client_certificate() -> dict[str, Any]:
    """Writes the client certificate of a connection into the header X-Forwarded-Client-Cert."""
    return {
        "forward_client_cert_details": "SANITIZE_SET",
        "set_current_client_cert_details": {"cert": True},
    }


def _connection_manager(options: EnvoyOptions) -> dict[str, Any]:
    buffered = options.limits.max_body + _SLACK
    # Above them, HTTP/2 ends a stream without a status, or the connection with all of its streams.
    headers = max(1, options.limits.max_header // 1024) * _HEADER_SLACK
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": _HTTP,
            "stat_prefix": LISTENER,
            "codec_type": "AUTO",
            "generate_request_id": False,
            "server_header_transformation": "PASS_THROUGH",
            # The address of the connection, and no header of a proxy, is the client: see rule 2.
            "original_ip_detection_extensions": [_no_proxy()],
            "skip_xff_append": True,
            # pyvoy gives an application only the name in a certificate. Callers cannot set this header.
            **(_client_certificate() if options.tls is not None and options.tls.client_ca else {}),
            "scheme_header_transformation": {
                "scheme_to_overwrite": "http" if options.tls is None else "https"
            },
            "early_header_mutation_extensions": [_copy_scheme()] if options.limits.trust_forwarded else [],
            # Streams may be silent for as long as they want; calls have deadlines of their own.
            "stream_idle_timeout": "0s",
            "request_headers_timeout": _seconds(options.limits.header_timeout),
            "max_request_headers_kb": headers,
            "common_http_protocol_options": {
                "idle_timeout": _seconds(options.idle_timeout),
                "headers_with_underscores_action": "ALLOW",
            },
            "http_protocol_options": {"accept_http_10": True, "default_host_for_http_10": "localhost"},
            "http2_protocol_options": {
                "max_concurrent_streams": options.limits.max_connection_streams,
                "max_header_field_size_kb": headers,
                "initial_stream_window_size": _STREAM_WINDOW,
                "initial_connection_window_size": _CONNECTION_WINDOW,
                # A dead peer is detected within 30 s, with or without calls.
                "connection_keepalive": {"interval": "20s", "timeout": "8s"},
            },
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": LISTENER,
                        "domains": ["*"],
                        "routes": [
                            {
                                "match": {"prefix": "/"},
                                "non_forwarding_action": {},
                                "request_body_buffer_limit": buffered,
                            }
                        ],
                    }
                ]
            },
            "http_filters": [readable_only(), _python(options)],
            "local_reply_config": local_replies(),
        },
    }


def _no_proxy() -> dict[str, Any]:
    """Finds no client address in headers. Without an extension Envoy would trust X-Forwarded-For."""
    return {
        "name": "envoy.http.original_ip_detection.custom_header",
        "typed_config": {
            "@type": _TYPE
            + "envoy.extensions.http.original_ip_detection.custom_header.v3.CustomHeaderConfig",
            "header_name": "x-a2a-bridge-no-such-header",
        },
    }


def _copy_scheme() -> dict[str, Any]:
    """Copies X-Forwarded-Proto, which Envoy overwrites."""
    return {
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {
            "@type": _TYPE + "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": [
                {"remove": FORWARDED_SCHEME},
                {
                    "append": {
                        "header": {"key": FORWARDED_SCHEME, "value": "%REQ(x-forwarded-proto)%"},
                        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                    }
                },
            ],
        },
    }


def _python(options: EnvoyOptions) -> dict[str, Any]:
    config = {
        "app": APPLICATION,
        "interface": "asgi",
        "worker_threads": 1,
        "lifespan": True,
        "loop": options.loop,
    }
    return {
        "name": "pyvoy",
        "typed_config": {
            "@type": _MODULE,
            "dynamic_module_config": {"module": {"local": {"filename": options.module}}},
            "filter_name": "pyvoy",
            "terminal_filter": True,
            "filter_config": {"@type": _TYPE + "google.protobuf.StringValue", "value": json.dumps(config)},
        },
    }


def downstream_tls(tls: ServerTlsValues) -> dict[str, Any]:
    """The transport socket of a listener."""
    common: dict[str, Any] = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "tls_certificates": [
            {
                "certificate_chain": {"filename": tls.certificate},
                "private_key": {"filename": tls.key or tls.certificate},
            }
        ],
    }
    if tls.client_ca:
        common["validation_context"] = {"trusted_ca": {"filename": tls.client_ca}}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": _TLS + "DownstreamTlsContext",
            "common_tls_context": common,
            "require_client_certificate": bool(tls.client_ca) and tls.cert_reqs == "required",
        },
    }


def _seconds(value: float) -> str:
    return f"{value:g}s"
