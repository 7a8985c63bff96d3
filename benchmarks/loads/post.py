"""Posts one message again and again with `aiohttp.ClientSession`, and does nothing with the responses: the
price of a client alone, beside that of whole gateways.

Arguments: the URL, how many callers, `asyncio` or `uvloop`. Each line on standard input is a number of
seconds; the response is `posted CALLS`.
"""

from __future__ import annotations

import asyncio
import sys
import time

import aiohttp

from benchmarks.work import JSON_HEADERS, SEND, WORK

BODY = next(one for one in WORK if (one.kind, one.operation) == ("JSONRPC", SEND)).target("").body


async def post(url: str, callers: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        end = 0.0

        async def call_on() -> int:
            calls = 0
            while time.monotonic() < end:
                async with session.post(url, data=BODY, headers=JSON_HEADERS) as response:
                    if response.status != 200 or b'"result"' not in await response.read():
                        raise RuntimeError("the answer is not right")
                calls += 1
            return calls

        while line := await asyncio.to_thread(sys.stdin.readline):
            end = time.monotonic() + float(line)
            print("posted", sum(await asyncio.gather(*(call_on() for _ in range(callers)))), flush=True)


def main() -> None:
    url, callers, loop = sys.argv[1:]
    work = post(url, int(callers))
    if loop == "uvloop":
        import uvloop

        uvloop.run(work)
    else:
        asyncio.run(work)


if __name__ == "__main__":
    main()
