"""A webhook that keeps the notifications, by task. It stays when the server that posts is killed."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from a2a_bridge.codec import decoder
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.sites import site

_decode = decoder(hub.StreamResponse)


@dataclass
class Hook:
    """posted: by task, each event once, in the order of arrival. posts, twice: all posts, repeated ones."""

    url: str = ""
    posted: defaultdict[str, list[hub.StreamResponse]] = field(default_factory=lambda: defaultdict(list))
    posts: int = 0
    twice: int = 0

    async def _take(self, request: web.Request) -> web.Response:
        event = _decode(json.loads(await request.read()))
        task = event.task.id or event.status_update.task_id or event.artifact_update.task_id
        self.posts += 1
        if event in self.posted[task]:
            self.twice += 1
        else:
            self.posted[task].append(event)
        return web.Response(status=204)


@asynccontextmanager
async def hook() -> AsyncIterator[Hook]:
    """A webhook that listens while the context is open."""
    made = Hook()
    async with site({"/hook": made._take}) as url:
        made.url = f"{url}/hook"
        yield made
