"""The dimension of the playground: the frames of a call, which its page gets as lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from a2a_bridge import Agent, interface, serve
from a2a_bridge.bindings.binding import DialOptions, ListenAddress
from a2a_bridge.cli.target import Target, TargetKind
from a2a_bridge_tools.playground.page import Playground
from a2a_bridge_tools.playground.subject import Subject
from benchmarks.scale.dimension import Dimension, Window
from benchmarks.scale.hosted import Made, options


@asynccontextmanager
async def playground(_size: int, /) -> AsyncIterator[str]:
    """An agent, and the playground that calls it."""
    async with serve(Agent(Made(), name="Made"), [interface("JSONRPC")], options()) as server:
        target = Target(TargetKind.URL, f"http://{server.http}")
        subject = Subject("Made", target, DialOptions(trust_card_urls=True))
        page = Playground("benchmark", "client", lambda: [subject], ListenAddress())
        async with page.open() as place:
            yield place


async def frames(place: str, size: int, window: Window) -> None:
    """A call with so many events, read as the page does: of a long call the first megabytes of frames."""
    url, _, token = place.partition("/?token=")
    async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {token}"}) as session:

        async def call(number: int) -> None:
            message = {"role": "ROLE_USER", "parts": [{"text": f"artifacts {number}"}]}
            asked = {
                "operation": "SendStreamingMessage",
                "request": {"message": message},
                "cells": ["JSONRPC 1.0"],
            }
            async with session.post("/api/calls", json=asked) as response:
                lines = await response.read()
            assert b'"state":"completed"' in lines, lines[-500:]
            assert lines.count(b"artifactUpdate") >= min(number, 5_000), number

        await call(1)
        async with window():
            await call(size)


ROWS = (
    Dimension(
        "frames of the playground", "one call", (1_000, 3_000, 10_000), 1.0, playground, frames,
        small=(200, 800),
    ),
)  # fmt: skip
