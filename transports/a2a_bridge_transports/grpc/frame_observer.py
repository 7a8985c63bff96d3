"""Reports the frames of gRPC calls to an observer. It changes none, and is not installed without an observer.

grpcio does not expose the bytes of HTTP/2; the reports contain its inputs and outputs: path, metadata,
messages (as bytes and decoded), status and trailers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import grpc.aio

from a2a_bridge.bindings.frames import Frame
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import Row

FrameObserver = Callable[[Frame], None]


def observe_frames(
    start: Callable[..., Any], row: Row[str, bytes], observe: FrameObserver
) -> Callable[..., Any]:
    """A multicallable whose frames are reported to `observe`."""

    def begin(wire: bytes, *, timeout: float | None, metadata: Any) -> _Call:
        observe(Frame(True, row.address, _headers(metadata), wire, row.decode_request(wire)))
        return _Call(start(wire, timeout=timeout, metadata=metadata), row, observe)

    return begin


class _Call:
    """A call of grpc.aio that reports its reads; everything else is delegated."""

    def __init__(self, call: Any, row: Row[str, bytes], observe: FrameObserver) -> None:
        self._call = call
        self._row = row
        self._observe = observe
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __await__(self) -> Generator[Any, None, bytes]:
        return self._answer().__await__()

    async def read(self) -> Any:
        return await self._show(self._call.read)

    async def _answer(self) -> bytes:
        async def whole() -> bytes:
            answer: bytes = await self._call
            return answer

        answer: bytes = await self._show(whole)
        await self._end()
        return answer

    async def _show(self, read: Callable[[], Any]) -> Any:
        try:
            answer = await read()
        except grpc.aio.AioRpcError:
            await self._begin()
            await self._end()
            raise
        await self._begin()
        if answer is grpc.aio.EOF:
            await self._end()
        else:
            self._observe(Frame(False, body=answer, message=self._decode(answer)))
        return answer

    async def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        if headers := _headers(await self._call.initial_metadata()):
            self._observe(Frame(False, "initial metadata", headers))

    async def _end(self) -> None:
        code = await self._call.code()
        details = await self._call.details()
        head = f"grpc-status: {code.value[0]} {code.name}" + (f" ({details})" if details else "")
        self._observe(Frame(False, head, _headers(await self._call.trailing_metadata())))

    def _decode(self, answer: bytes) -> Any:
        try:
            return self._row.decode_response(answer)
        except A2AError:
            return None  # the client will report the error; this shows the bytes


def _headers(metadata: Any) -> tuple[tuple[str, str], ...]:
    """Metadata as text; values of `-bin` names in hexadecimal."""
    return tuple(
        (name, value.hex() if isinstance(value, bytes) else str(value)) for name, value in metadata or ()
    )
