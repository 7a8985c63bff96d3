"""The interface of the playground as its scripts use it. No tests."""

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.cli.commands import Running
from tests.patience import PATIENCE


@dataclass(frozen=True)
class Api:
    """A playground and its token."""

    session: aiohttp.ClientSession
    #: without a path
    place: str
    token: str

    async def get(self, path: str) -> Any:
        async with self.session.get(path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def lines(self, path: str) -> list[Any]:
        async with self.session.get(path) as response:
            assert response.status == 200, await response.text()
            return [json.loads(line) for line in (await response.read()).splitlines()]

    async def call(self, operation: str, request: Any, *cells: str, **more: Any) -> list[Any]:
        """The lines of a call; over all cells unless some are named."""
        ids = list(cells) or [one["id"] for one in (await self.get("/api/agent"))["cells"]]
        asked = {"operation": operation, "request": request, "cells": ids, **more}
        async with self.session.post("/api/calls", json=asked) as response:
            assert response.status == 200, await response.text()
            return [json.loads(line) for line in (await response.read()).splitlines()]

    async def rejected(self, path: str, body: Any) -> tuple[int, Any]:
        async with self.session.post(path, json=body) as response:
            return response.status, (await response.json())["error"]


@asynccontextmanager
async def api_at(address: str) -> AsyncIterator[Api]:
    """The interface of the playground at an address with its token."""
    place, _, token = address.partition("/?token=")
    timeout = aiohttp.ClientTimeout(PATIENCE)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(place, headers=headers, timeout=timeout) as session:
        yield Api(session, place, token)


def api_of(running: Running) -> AbstractAsyncContextManager[Api]:
    """The interface of a serving command with a playground."""
    return api_at(running.addresses["ui"])


def message(text: str, **members: Any) -> dict[str, Any]:
    return {"message": {"role": "ROLE_USER", "parts": [{"text": text}], **members}}


def of(lines: list[Any], member: str, *, cell: str | None = None, hop: str | None = None) -> list[Any]:
    return [
        one
        for one in lines
        if member in one and cell in (None, one.get("cell")) and hop in (None, one.get("hop"))
    ]
