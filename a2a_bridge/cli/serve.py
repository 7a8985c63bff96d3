"""`a2a-bridge serve`: serves an agent from Python code over every binding."""

from __future__ import annotations

from dataclasses import replace
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
    MAX_HISTORY,
    MAX_MEMORY,
    MAX_PARTS,
    MAX_STREAMS,
    MAX_TASKS,
    MAX_VALUES,
    MaxBody,
    MaxCalls,
    MaxConnections,
    MaxConnectionStreams,
    MaxHistory,
    MaxMemory,
    MaxParts,
    MaxStreams,
    MaxTasks,
    MaxValues,
)
from a2a_bridge.cli.options import (
    ALL_VERSIONS,
    Advertise,
    BridgeKey,
    CardVersions,
    DrainWindow,
    ForwardedAllowIps,
    Grace,
    Grpc,
    Http,
    IdempotentSends,
    KeepEvents,
    KeepTasks,
    Lease,
    LenientVersions,
    Level,
    LogLevel,
    Loop,
    LoopKind,
    NoGrpc,
    NoHttp,
    PublicGrpc,
    PublicUrl,
    Push,
    PushAllow,
    PushSigningKey,
    RunTimeout,
    SilenceTimeout,
    Store,
    StoreKey,
    UsageFile,
    UsageListen,
    Versions,
    Workers,
    use_bridge_key,
)


def serve(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(help="file.py, file.py:agent or package.module:agent.", metavar="AGENT")
    ],
    *,
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
    store: Store = "",
    store_key: StoreKey = "",
    keep_tasks: KeepTasks = 0.0,
    keep_events: KeepEvents = 1.0,
    lease: Lease = 10.0,
    push: Push = True,
    push_allow: PushAllow = None,
    push_signing_key: PushSigningKey = None,
    run_timeout: RunTimeout = 0.0,
    silence_timeout: SilenceTimeout = 0.0,
    idempotent_sends: IdempotentSends = False,
    max_body: MaxBody = MAX_BODY,
    max_connections: MaxConnections = MAX_CONNECTIONS,
    max_connection_streams: MaxConnectionStreams = MAX_CONNECTION_STREAMS,
    max_values: MaxValues = MAX_VALUES,
    max_parts: MaxParts = MAX_PARTS,
    max_calls: MaxCalls = MAX_CALLS,
    max_streams: MaxStreams = MAX_STREAMS,
    max_tasks: MaxTasks = MAX_TASKS,
    max_history: MaxHistory = MAX_HISTORY,
    max_memory: MaxMemory = MAX_MEMORY,
    bridge_key: BridgeKey = "",
    usage_file: UsageFile = None,
    usage_listen: UsageListen = "",
    drain_window: DrainWindow = None,
    timeout_graceful_shutdown: Grace = 10.0,
    workers: Workers = 1,
    loop: Loop = LoopKind.AUTO,
    log_level: Level = LogLevel.WARNING,
) -> None:
    """Serve an agent over JSON-RPC, HTTP+JSON and gRPC until SIGINT or SIGTERM.

    The command prints one line when it is ready: ready http=http://HOST:PORT grpc=HOST:PORT

    Tasks are stored in .a2a-bridge/NAME.db in the working directory; see --store.

    For example:

      a2a-bridge serve weather.py

      a2a-bridge serve my.package:agent --http 0.0.0.0:8080 --public-url https://agent.example
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
    from a2a_bridge.cli.running import configure_logging, run, run_on, serving
    from a2a_bridge.cli.workers import Worker, check_store, check_usage, supervise

    configure_logging(log_level)
    if workers > 1 and Worker.of_environment() is None:
        check_usage(usage_file, usage_listen)
        check_store(store)
        raise supervise(workers, "" if no_http else http, "" if no_grpc else grpc, timeout_graceful_shutdown)

    from a2a_bridge import runtime
    from a2a_bridge.cli.listen_options import ListenOptions
    from a2a_bridge.cli.loading import load
    from a2a_bridge.cli.options import Exit
    from a2a_bridge.cli.output import fail, guarded
    from a2a_bridge.cli.store_options import push_options, store_options, store_url
    from a2a_bridge.cli.target import parse
    from a2a_bridge.hosting.options import EngineOptions
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
    )
    use_bridge_key(bridge_key)
    kept = store_options(store_key, keep_tasks, keep_events, lease, max_memory)
    posted = push_options(push_allow, push_signing_key)
    with guarded(target):
        parsed = parse(target)
        if not parsed.is_code:
            raise fail(
                Exit.USAGE,
                f"{target} is {parsed.sort.value}; serve needs Python code",
                f"a2a-bridge gateway {target}",
            )
        agent = load(parsed)
        engine = EngineOptions(
            tasks=max_tasks,
            history=max_history,
            run_timeout=run_timeout,
            silence_timeout=silence_timeout,
            idempotent_sends=idempotent_sends,
        )
        options = replace(
            listening.options,
            store=store_url(store, agent),
            store_options=kept,
            engine=engine,
            push=push,
            push_options=posted,
        )
        interfaces = listening.interfaces
        opening = serving(
            lambda: runtime.serve_agent(agent, interfaces, options),
            lambda: runtime.asgi(agent, interfaces, options),
            interfaces,
            drain_window,
        )
        run_on(loop, run(opening, timeout_graceful_shutdown, listening.counting))
