"""The measured agent on a2a-bridge, with everything switched on that `a2a-bridge serve` switches on.

One executor decides by the message, as the SDK's does; `@agent` on a function that returns its response would
take a shorter way. With `--upstream` it is a gateway instead; with `--store` it keeps tasks there instead of
in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from a2a_bridge.app.runtime import ServeOptions, Server, serve_agent, serve_gateway
from a2a_bridge.auth import ApiKeys, Authentication, BearerTokens, KeyFile, KeySetSource
from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.cards import interface, select
from a2a_bridge.hosting import Agent, AgentExecutor, Event, Run
from benchmarks import agent
from benchmarks.hosts import upstream_card
from benchmarks.servers.listening import AUDIENCE, FOLDER, ISSUER, JWKS, KEYS, VARIABLE, ready

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class Executor(AgentExecutor):
    """See `benchmarks.agent`."""

    async def execute(self, run: Run, /) -> AsyncIterator[Event]:
        text = run.text
        if text not in (agent.TASK, agent.STREAM, agent.LONG, agent.HOLD):
            yield run.reply(text)
            return
        yield run.start()
        yield run.status("working")
        if text == agent.HOLD:
            await asyncio.Event().wait()
        elif text == agent.TASK:
            yield run.artifact(agent.ANSWER, name=agent.ARTIFACT)
        else:
            artifact = str(uuid.uuid4())
            chunks = (
                agent.CHUNKS if text == agent.STREAM else agent.LONG_EVENTS - (agent.EVENTS - agent.CHUNKS)
            )
            for index in range(chunks):
                yield run.artifact(
                    agent.CHUNK,
                    artifact_id=artifact,
                    name=agent.ARTIFACT,
                    append=index > 0,
                    last=index == chunks - 1,
                )
        yield run.status("completed")


measured_agent = Agent(Executor(), name="Measured", description="Answers as fast as it can.")


def observing(variant: str) -> ServeOptions:
    """The options of a variant of `benchmarks.observed`; the default ones without."""
    if variant in ("", "default"):
        return ServeOptions()
    if variant == "off":
        return ServeOptions(tracing="off")
    folder = Path(os.environ.get(FOLDER, ""))
    if variant == "API key":
        return ServeOptions(tracing="off", authentication=Authentication([ApiKeys(KeyFile(folder / KEYS))]))
    if variant == "JWT":
        keys = KeySetSource(ISSUER, str(folder / JWKS))
        return ServeOptions(
            tracing="off", authentication=Authentication([BearerTokens(ISSUER, [AUDIENCE], keys)])
        )
    importlib.import_module("opentelemetry.trace")
    if variant == "without an SDK":
        return ServeOptions(admin=ListenAddress())
    # Only this variant loads the SDK.
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, _spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return ServeOptions(admin=ListenAddress(), tracing=provider)


def measured(upstream: str, store: str, *, legacy: bool) -> AbstractAsyncContextManager[Server]:
    interfaces = [
        *(interface(binding) for binding in BINDINGS),
        *(interface(binding, version="0.3") for binding in BINDINGS if legacy),
    ]
    options = replace(observing(os.environ.get(VARIABLE, "")), store=store or None)
    if not upstream:
        return serve_agent(measured_agent, interfaces, options)
    card = upstream_card(upstream)
    return serve_gateway(card, select(card, known=["GRPC", "JSONRPC"]), interfaces, options)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", default="", help="host:port of a gRPC agent to be a gateway for")
    parser.add_argument("--legacy", action="store_true", help="serve version 0.3 beside 1.0")
    parser.add_argument("--store", default="", help="URL of a database to keep tasks in")
    arguments = parser.parse_args()
    async with measured(arguments.upstream, arguments.store, legacy=arguments.legacy) as server:
        assert server.http is not None
        assert server.grpc is not None
        ready(http=server.http.port, grpc=server.grpc.port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
