from collections.abc import AsyncIterator
from typing import Any, Self


class Stream:
    """The outputs of a run; `result` is its last one."""

    def __init__(self, outputs: AsyncIterator[Any]) -> None:
        self.outputs = outputs
        self.result: Any = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.outputs.aclose()  # type: ignore[attr-defined]

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for output in self.outputs:
            if isinstance(output, tuple):
                (self.result,) = output
            else:
                yield output
