"""What metrics, traces and authentication cost: the CPU of a call with them over that without, with one
server each.

off: neither. default: as a server is without a flag. without an SDK: metrics, and the API of OpenTelemetry
with no provider. on: metrics, and spans that an SDK makes and exports to nowhere. API key, JWT: each caller
proves who it is; the token has been verified before.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joserfc import jwk, jwt

from a2a_bridge.auth import KeyFile
from benchmarks.measure import Plan, Side, load, prepare
from benchmarks.processes import Cores, Server, cpu_seconds
from benchmarks.servers.listening import AUDIENCE, FOLDER, ISSUER, JWKS, KEYS, VARIABLE
from benchmarks.work import WORK, Work

#: variant → most CPU of a call over `off`; None: only shown
VARIANTS: dict[str, float | None] = {
    "default": 1.01,
    "without an SDK": None,
    "on": None,
    "API key": 1.15,
    "JWT": 1.15,
}
OFF = "off"
TITLES = ("JSON-RPC message", "JSON-RPC stream", "gRPC message", "gateway JSON-RPC to gRPC")


def title(work: str) -> str:
    """The title of the rows of a row of load."""
    return f"metrics, traces, callers: {work}"


def observed_rows(
    name: str, plan: Plan, cores: Cores, on_step: Callable[[str], None]
) -> list[dict[str, Any]]:
    """A row for each variant. name: the title of a row of load. Raises BenchmarkError."""
    work = next(one for one in WORK if one.title == name)
    found: dict[str, list[float]] = {variant: [] for variant in (OFF, *VARIANTS)}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        headers = _credentials(folder)
        upstream = ""
        if work.gateway:
            upstream = stack.enter_context(Server("upstream", cores.other)).address("grpc")
        servers = {
            variant: stack.enter_context(
                Server("ours", cores.server, upstream, environment={VARIABLE: variant, FOLDER: str(folder)})
            )
            for variant in found
        }
        sides = {
            variant: prepare(work, variant, server, headers.get(variant))
            for variant, server in servers.items()
        }
        for number in range(2 * plan.rounds + 1):
            order = list(found)
            if number % 2:
                order.reverse()
            for variant in order:
                on_step(f"{title(name)}: {variant}, round {number} of {2 * plan.rounds}")
                spent = cpu_of(work, sides[variant], servers[variant].pid, plan, cores, cold=not number)
                if number:  # the first one warms up
                    found[variant].append(spent)
    spent_by = {variant: statistics.median(times) for variant, times in found.items()}
    rows = []
    for variant, most in VARIANTS.items():
        ratio = spent_by[variant] / spent_by[OFF]
        rows.append(
            {
                "suite": "cpu",
                "title": f"{title(name)}: {variant}",
                "unit": "CPU over off",
                "ours": round(ratio, 3),
                "target": most,
                "reached": None if most is None else ratio <= most,
                "cpu_us": {one: round(spent_by[one], 1) for one in (OFF, variant)},
                "rounds": {one: [round(value, 1) for value in found[one]] for one in (OFF, variant)},
            }
        )
    return rows


def _credentials(folder: Path) -> dict[str, dict[str, str]]:
    """The headers of callers by variant. Writes the files that the servers check them with."""
    key = KeyFile(folder / KEYS).create("caller").text
    private = jwk.generate_key("EC", "P-256", {"use": "sig", "alg": "ES256"}, auto_kid=True)
    (folder / JWKS).write_text(json.dumps({"keys": [private.as_dict(private=False)]}))
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "caller", "iat": now, "exp": now + 24 * 3600}
    token = jwt.encode({"alg": "ES256", "kid": private.kid}, claims, private)
    return {"API key": {"x-api-key": key}, "JWT": {"authorization": f"Bearer {token}"}}


def cpu_of(work: Work, side: Side, pid: int, plan: Plan, cores: Cores, *, cold: bool) -> float:
    """Microseconds of CPU for a call or an event."""
    before = cpu_seconds(pid)
    done = load(work, side, plan, cores, plan.seconds, cold=cold)
    units = done.requests if work.per_answer == 1 else done.raw_bytes / side.raw_bytes * work.per_answer
    return 1e6 * (cpu_seconds(pid) - before) / max(units, 1)
