"""A replica without a server: commands and numbers on standard input, JSON responses. STORE NATS LEASE."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from a2a_bridge import Run, agent
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import StoreOptions, open_store

#: of one replica
_CALLERS = 12


@agent
async def worker(run: Run) -> Any:
    """Ends at once; or with the text "hang" never."""
    yield run.artifact("done")
    if run.text == "hang":
        await asyncio.Event().wait()


class Commands:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tasks(self, number: float) -> dict[str, Any]:
        """Callers that send for a time: tasks, and CPU of this process."""
        until, began, done = time.monotonic() + number, time.process_time(), 0

        async def call() -> None:
            nonlocal done
            while time.monotonic() < until:
                await self._send("quick")
                done += 1

        await asyncio.gather(*(call() for _ in range(_CALLERS)))
        return {"tasks": done, "cpu": time.process_time() - began}

    async def hang(self, number: float) -> dict[str, Any]:
        """So many tasks that do not end by themselves."""
        ids: list[str] = []
        for at in range(0, int(number), 500):
            some = await asyncio.gather(*(self._send("hang") for _ in range(min(500, int(number) - at))))
            ids += [one.task.id for one in some]
        return {"tasks": ids}

    async def look(self, number: float) -> dict[str, Any]:
        """New tasks one after the other for a time: the start of each by the machine's clock, its seconds."""
        until, looks = time.monotonic() + number, []
        while time.monotonic() < until:
            began = time.monotonic()
            await self._send("quick")
            looks.append((began, time.monotonic() - began))
            await asyncio.sleep(0.01)
        return {"looks": looks}

    async def cancel(self, _: float) -> dict[str, Any]:
        """Cancels the tasks of the next line: seconds and CPU of each."""
        ids = json.loads(sys.stdin.readline())
        began, cpu = time.monotonic(), time.process_time()
        for task_id in ids:
            call: Call[Any, Any] = Call(ops.CANCEL_TASK, hub.CancelTaskRequest(id=task_id), CallContext())
            await self._engine.service.unary(call)
        count = max(1, len(ids))
        return {"wall": (time.monotonic() - began) / count, "cpu": (time.process_time() - cpu) / count}

    async def cpu(self, _: float) -> dict[str, Any]:
        return {"cpu": time.process_time()}

    async def _send(self, text: str) -> Any:
        message = hub.Message(message_id=os.urandom(8).hex(), role=hub.ROLE_USER, parts=[hub.Part(text=text)])
        request = hub.SendMessageRequest(message=message)
        request.configuration.return_immediately = text == "hang"
        return await self._engine.service.unary(Call(ops.SEND_MESSAGE, request, CallContext()))


async def main(store: str, nats: str, lease: str) -> None:
    options = StoreOptions(cluster=nats, lease=float(lease))
    async with open_store(store, options) as opened:
        engine = Engine(worker, store=opened)
        await engine.start()
        commands = Commands(engine)
        print("{}", flush=True)
        read: Callable[[], str] = sys.stdin.readline
        while line := await asyncio.to_thread(read):
            name, number = line.split()
            print(json.dumps(await getattr(commands, name)(float(number))), flush=True)
        await engine.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
