"""The time limits of the tests."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

#: Seconds. It only bounds a hang: no test passes because it is over, and it is long enough for a machine with
#: a load of 30.
PATIENCE = 240.0

#: Seconds. The time limits of a call that has to end by its limit after it has arrived: the next one if it had
#: not arrived by then, as on a machine with much other work.
LIMITS = (0.1, 0.5, 5.0, 50.0)


async def until(look: Callable[[], Any], pause: float = 0.005) -> Any:
    """The value of `look`, which may be awaitable, once it is true. For states without a notification."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = look()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(pause)
