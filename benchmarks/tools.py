"""wrk and h2load: the load on unary calls and on streams, counted in requests and in bytes. They work the
same for every side.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import BenchmarkError, on_core

MISSING = """\
The benchmarks need {names}, real load generators that are not Python.
  Debian, Ubuntu:  apt-get install wrk nghttp2-client
  Fedora:          dnf install wrk nghttp2
  macOS:           brew install wrk nghttp2"""


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of a load generator: seconds, complete responses, bytes read, and failures: responses that
    were not 2xx, and broken connections. `raw_bytes` counts heads too with wrk, bodies only with h2load.
    """

    seconds: float
    requests: int
    raw_bytes: int
    failures: int


def missing() -> list[str]:
    """The load generators this machine lacks."""
    return [name for name in ("wrk", "h2load") if shutil.which(name) is None]


@dataclass(frozen=True, slots=True)
class Target:
    """One request, to be repeated: method, address `host:port`, path, header fields, body."""

    method: str
    address: str
    path: str
    headers: Mapping[str, str]
    body: bytes


# The output of wrk is rounded; the arguments of its hook are exact.
_DONE = """
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\nRESULT {"seconds": %.6f, "requests": %d, "raw_bytes": %.0f, "failures": %d}\\n',
    summary.duration / 1e6, summary.requests, summary.bytes, e.connect + e.read
    + e.write + e.status + e.timeout))
end
"""


def wrk(target: Target, *, seconds: int, connections: int, core: int | None) -> Load:
    """Repeats a request on HTTP/1.1 connections, one at a time on each."""
    lines = [f"wrk.method = {_lua(target.method.encode())}"]
    lines += [f"wrk.headers[{_lua(k.encode())}] = {_lua(v.encode())}" for k, v in target.headers.items()]
    if target.body:
        lines.append(f"wrk.body = {_lua(target.body)}")
    with tempfile.TemporaryDirectory(prefix="a2a-bench-") as folder:
        script = Path(folder) / "request.lua"
        script.write_text("\n".join(lines) + _DONE)
        url = f"http://{target.address}{target.path}"
        out = _run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script), url],
            seconds,
            core,
        )
    found = re.search(r"^RESULT (.*)$", out, re.MULTILINE)
    if not found:
        raise BenchmarkError(f"wrk gave no result:\n{out}")
    return Load(**json.loads(found[1]))


def h2load(target: Target, *, seconds: int, connections: int, streams: int, core: int | None) -> Load:
    """Repeats a request on HTTP/2 connections, `streams` at a time on each. gRPC is that, with framed
    bodies.
    """
    with tempfile.TemporaryDirectory(prefix="a2a-bench-") as folder:
        body = Path(folder) / "body"
        body.write_bytes(target.body)
        command = ["h2load", "-t1", f"-c{connections}", f"-m{streams}", f"-D{seconds}", "-d", str(body)]
        for name, value in target.headers.items():
            command += ["-H", f"{name}: {value}"]
        out = _run([*command, f"http://{target.address}{target.path}"], seconds, core)
    done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", out)
    data = re.search(r"\((\d+)\) data", out)
    if not done or not data:
        raise BenchmarkError(f"h2load gave no result:\n{out}")
    succeeded, failed, _, timeout = (int(number) for number in done.groups())
    return Load(float(seconds), succeeded, int(data[1]), failed + timeout)


def _run(command: list[str], seconds: int, core: int | None) -> str:
    with on_core(core):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
    try:
        out, _ = process.communicate(timeout=seconds + 20)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode:
        raise BenchmarkError(f"{command[0]} failed with {process.returncode}:\n{out}")
    return out


def _lua(value: bytes) -> str:
    """A Lua string literal."""
    return '"' + "".join(f"\\{byte:03d}" for byte in value) + '"'
