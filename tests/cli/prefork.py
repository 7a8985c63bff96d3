"""Processes of the command, forked from one that has imported everything, which takes half a second."""

import asyncio
import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

#: of a request on the socket
_MOST = 1 << 20


class Process:
    """A forked command; it has the part of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, pid: int, status: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdout: asyncio.StreamReader
        self.stderr: asyncio.StreamReader
        self.returncode: int | None = None
        self._status = status
        self._transports: list[asyncio.ReadTransport] = []

    async def wait(self) -> int:
        line = await self._status.read()
        if line:
            self.returncode = int(line)
            for transport in self._transports:
                transport.close()
        assert self.returncode is not None
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    """The process that forks, and our end of its socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "GRPC_VERBOSITY": "NONE"},
        )
        theirs.close()
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def fork(self, request: bytes, descriptors: Sequence[int]) -> None:
        socket.send_fds(self._socket, [request], descriptors)


_server: _Server | None = None


async def spawn(arguments: Sequence[str], env: Mapping[str, str]) -> Process:
    """Starts `a2a-bridge` with these arguments and exactly this environment, in the current folder."""
    global _server  # noqa: PLW0603  one for all tests of a process
    if _server is None:
        _server = _Server()
    request = {"arguments": [*arguments], "env": {**env}, "folder": os.getcwd()}  # noqa: PTH109
    ends = [os.pipe() for _ in range(3)]
    try:
        _server.fork(json.dumps(request).encode(), [writing for _, writing in ends])
    finally:
        for _, writing in ends:
            os.close(writing)
    (status, _), (out, out_transport), (err, err_transport) = [await _reader(end) for end, _ in ends]
    process = Process(int(await status.readline()), status)
    process.stdout, process.stderr = out, err
    process._transports += [out_transport, err_transport]
    return process


async def _reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader, transport


def _serve(server: socket.socket) -> None:
    """Forks for each request until the socket closes. Returns in the process that is to run a command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps finished processes
    while True:
        request, descriptors, _, _ = socket.recv_fds(server, _MOST, 3)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    server.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status, out, err = descriptors
    pid = os.fork()
    if pid:
        # This process waits for the command, and reports its end.
        os.close(out)
        os.close(err)
        os.write(status, f"{pid}\n".encode())
        os.write(status, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        os._exit(0)
    os.close(status)
    for descriptor, number in ((out, 1), (err, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    told = json.loads(request)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["folder"])
    sys.argv = ["a2a-bridge", *told["arguments"]]
    sys.orig_argv = [sys.executable, "-m", "a2a_bridge", *told["arguments"]]


def _import_everything() -> None:
    for name in ("a2a_bridge", "a2a_bridge_transports"):
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not found.name.endswith(("__main__", "env")) and ".testing" not in found.name:
                importlib.import_module(found.name)


if __name__ == "__main__":
    _import_everything()
    # Collections in the forks would copy the pages of all modules.
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from a2a_bridge.cli import main

    main()
