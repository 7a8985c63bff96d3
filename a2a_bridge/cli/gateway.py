"""`a2a-bridge gateway`: serves a remote agent over every binding and version."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from a2a_bridge.cli.envoy.flags import (
    Certificate,
    CertificateKey,
    ClientAuthorities,
    EnvoyFlags,
    Listen,
    PrintConfig,
    Server,
    ServerKind,
)
from a2a_bridge.cli.limits import (
    MAX_BODY,
    MAX_CALLS,
    MAX_CONNECTION_STREAMS,
    MAX_CONNECTIONS,
    MAX_MEMORY,
    MAX_PARTS,
    MAX_STREAMS,
    MAX_VALUES,
    MaxBody,
    MaxCalls,
    MaxConnections,
    MaxConnectionStreams,
    MaxMemory,
    MaxParts,
    MaxStreams,
    MaxValues,
)
from a2a_bridge.cli.options import (
    ALL_VERSIONS,
    LINGER,
    PREFIX,
    REPLAY_MEMORY,
    REVALIDATE,
    A2aVersion,
    Advertise,
    AgentSilence,
    Base64Files,
    BridgeKey,
    Cacert,
    CardVersions,
    Cert,
    ConnectTimeout,
    CredentialsFor,
    DrainWindow,
    Exact,
    FileSpelling,
    ForwardedAllowIps,
    GatewayStore,
    Grace,
    Grpc,
    GrpcTls,
    Header,
    Http,
    Insecure,
    Key,
    Lease,
    LenientVersions,
    Level,
    Linger,
    LogLevel,
    Loop,
    LoopKind,
    NoGrpc,
    NoHttp,
    PeerName,
    PublicGrpc,
    PublicUrl,
    PushAllow,
    PushSigningKey,
    ReplayMemory,
    Revalidate,
    StoreKey,
    TrustCardUrls,
    UsageFile,
    UsageListen,
    Versions,
    Workers,
    known_peer,
    parameters,
    tls_files,
    use_bridge_key,
)


def gateway(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(help="The agent: URL, :PORT, host:port (gRPC) or card file.", metavar="UPSTREAM")
    ],
    *,
    card: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar=PREFIX + "CARD", help="Card of the agent, if the agent serves none."
        ),
    ] = None,
    binding: Annotated[
        str,
        typer.Option(
            metavar="BINDING",
            envvar=PREFIX + "BINDING",
            help="Binding to use with the agent; default: the first of the card.",
        ),
    ] = "",
    a2a_version: A2aVersion = "",
    peer: PeerName = "",
    base64_files: Base64Files = FileSpelling.AUTO,
    exact: Exact = False,
    push_relay: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar=PREFIX + "PUSH_RELAY",
            help="Relay push notifications in the version of their receivers; URL of this gateway.",
        ),
    ] = "",
    store: GatewayStore = "",
    store_key: StoreKey = "",
    lease: Lease = 10.0,
    push_allow: PushAllow = None,
    push_signing_key: PushSigningKey = None,
    linger: Linger = LINGER,
    replay_memory: ReplayMemory = REPLAY_MEMORY,
    revalidate: Revalidate = REVALIDATE,
    max_memory: MaxMemory = MAX_MEMORY,
    http: Http = "127.0.0.1:8080",
    grpc: Grpc = "127.0.0.1:50051",
    server: Server = ServerKind.BUILTIN,
    listen: Listen = "",
    ssl_certfile: Certificate = None,
    ssl_keyfile: CertificateKey = None,
    ssl_ca_certs: ClientAuthorities = None,
    print_envoy_config: PrintConfig = False,
    no_http: NoHttp = False,
    no_grpc: NoGrpc = False,
    versions: Versions = ALL_VERSIONS,
    lenient_versions: LenientVersions = False,
    public_url: PublicUrl = "",
    public_grpc: PublicGrpc = "",
    advertise: Advertise = "",
    card_versions: CardVersions = "",
    forwarded_allow_ips: ForwardedAllowIps = "",
    max_body: MaxBody = MAX_BODY,
    max_connections: MaxConnections = MAX_CONNECTIONS,
    max_connection_streams: MaxConnectionStreams = MAX_CONNECTION_STREAMS,
    max_values: MaxValues = MAX_VALUES,
    max_parts: MaxParts = MAX_PARTS,
    max_calls: MaxCalls = MAX_CALLS,
    max_streams: MaxStreams = MAX_STREAMS,
    bridge_key: BridgeKey = "",
    usage_file: UsageFile = None,
    usage_listen: UsageListen = "",
    header: Header = None,
    forward: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Pass on this header of the caller too; may be repeated."),
    ] = None,
    credentials_for: CredentialsFor = None,
    trust_card_urls: TrustCardUrls = False,
    cacert: Cacert = None,
    insecure: Insecure = False,
    cert: Cert = None,
    cert_key: Key = None,
    grpc_tls: GrpcTls = None,
    connect_timeout: ConnectTimeout = 10.0,
    silence_timeout: AgentSilence = 0.0,
    drain_window: DrainWindow = None,
    timeout_graceful_shutdown: Grace = 10.0,
    workers: Workers = 1,
    loop: Loop = LoopKind.AUTO,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Serve the agent at UPSTREAM over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.

    The command prints one line when it is ready: ready http=http://HOST:PORT grpc=HOST:PORT

    For example:

      a2a-bridge gateway http://localhost:9999

      a2a-bridge gateway agent.internal:50051 --card card.json --public-url https://agent.example
    """
    envoy = EnvoyFlags(
        server,
        listen,
        ssl_certfile,
        ssl_keyfile,
        ssl_ca_certs,
        print_envoy_config=print_envoy_config,
        max_body=max_body,
        max_connections=max_connections,
        max_connection_streams=max_connection_streams,
        trusts_proxies=bool(forwarded_allow_ips),
        workers=workers,
        loop=loop,
        log_level=log_level,
        grace=timeout_graceful_shutdown,
    )
    envoy.run_if_asked(context)
    from a2a_bridge.cli.running import configure_logging, run_on
    from a2a_bridge.cli.workers import Worker, check_usage, supervise

    configure_logging(log_level)
    if workers > 1 and Worker.of_environment() is None:
        check_usage(usage_file, usage_listen)
        if push_relay and not store.startswith("postgresql:"):
            raise typer.BadParameter("--push-relay needs a --store postgresql://…", param_hint="--workers")
        raise supervise(workers, "" if no_http else http, "" if no_grpc else grpc, timeout_graceful_shutdown)

    from a2a_bridge.bindings import DialOptions
    from a2a_bridge.cli.connect import version_of
    from a2a_bridge.cli.gateway_setup import bridge
    from a2a_bridge.cli.listen_options import ListenOptions
    from a2a_bridge.cli.output import guarded
    from a2a_bridge.cli.store_options import keys_of, push_options
    from a2a_bridge.cli.target import parse
    from a2a_bridge.gateway import ReplayOptions
    from a2a_bridge.hosting.stores.opening import MEMORY
    from a2a_bridge.hosting.stores.options import StoreOptions
    from a2a_bridge.middleware import Limits

    listening = ListenOptions.of(
        envoy.address or http,
        envoy.address or grpc,
        no_http=no_http,
        no_grpc=no_grpc,
        public_url=public_url,
        public_grpc=public_grpc,
        advertise=advertise,
        card_versions=card_versions,
        forwarded_allow_ips=forwarded_allow_ips,
        versions=versions,
        lenient_versions=lenient_versions,
        usage_file=usage_file,
        usage_listen=usage_listen,
        max_body=max_body,
        max_connections=max_connections,
        max_connection_streams=max_connection_streams,
        drain_window=drain_window,
        max_values=max_values,
        limits=Limits(max_calls, max_streams, max_parts),
        push_relay=push_relay,
    )
    if store and not push_relay and store != os.environ.get(PREFIX + "STORE"):
        # The variable may be set for `serve`. The flag shows that the user expects a store.
        raise typer.BadParameter("needs --push-relay; a gateway stores nothing else", param_hint="--store")
    if push_signing_key and (not push_relay or store in ("", MEMORY)):
        raise typer.BadParameter(
            f"needs --push-relay and a --store other than {MEMORY}; a gateway signs nothing without one",
            param_hint="--push-signing-key",
        )
    use_bridge_key(bridge_key)
    kept = ReplayOptions(linger=linger, total=replay_memory, revalidate=revalidate)
    if not replay_memory:
        kept = replace(kept, tasks=0)
    listening = replace(
        listening,
        options=replace(
            listening.options,
            replay=kept,
            store=store or None,
            store_options=StoreOptions(keys=tuple(keys_of(store_key)), lease=lease, max_memory=max_memory),
            push_options=push_options(push_allow, push_signing_key),
        ),
    )
    known = DialOptions()
    options = DialOptions(
        # The deadline of the caller limits a call; a blocking send has no usual duration.
        timeout=None,
        connect_timeout=connect_timeout,
        silence_timeout=silence_timeout,
        peer=known_peer(peer),
        base64_files=base64_files.base64,
        exact=exact,
        credentials_for=frozenset(credentials_for or ()),
        trust_card_urls=trust_card_urls,
        tls=tls_files(cacert, cert, cert_key, insecure=insecure),
        grpc_tls=grpc_tls,
        parameters=parameters(header),
        forward=known.forward | {name.lower() for name in forward or ()},
    )
    with guarded(target):
        run_on(
            loop,
            bridge(
                parse(target),
                listening,
                options,
                file=card,
                binding=binding,
                version=version_of(a2a_version),
                grace=timeout_graceful_shutdown,
            ),
        )
