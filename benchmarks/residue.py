"""What keeping everything costs those who send nothing unusual: the codec of 0.3 against itself without residues.

The other side is the same source, less the lines that say `# residue`: a codec that forgets what the hub cannot
hold. Both are loaded anew and take turns, round by round. It measures no sockets.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from a2a_bridge import codec
from benchmarks.codec import documents

PACKAGE = "a2a_bridge.dialects.v0_3"
#: in the order in which they import each other
MODULES = ("parts", "messages", "tasks", "events", "params")
MARK = "# residue"
#: with residues over without, at most
GOAL = 1.03
ROUNDS = 61
ROUND_SECONDS = 0.02


def rows() -> list[dict[str, Any]]:
    """One row per document and direction: microseconds with and without, and their ratio."""
    ours, plain = variant(marked=True), variant(marked=False)
    found = []
    for name, (module, reads, writes, tree) in legacy_documents(ours).items():
        text = codec.dumps(tree)
        message = getattr(ours[module], reads)(codec.loads(text))
        if getattr(plain[module], reads)(codec.loads(text)) != message:
            raise AssertionError(f"{name}: the two sides read different messages")
        for direction, function, argument in (
            ("decode", reads, codec.loads(text)),
            ("encode", writes, message),
        ):
            with_, without = _medians(
                getattr(ours[module], function), getattr(plain[module], function), argument
            )
            found.append(
                {
                    "title": f"residues: {direction} 0.3 {name}",
                    "ours_us": round(with_ * 1e6, 2),
                    "plain_us": round(without * 1e6, 2),
                    "ratio": round(with_ / without, 3),
                    "target": GOAL,
                    "reached": with_ / without <= GOAL,
                }
            )
    return found


def variant(*, marked: bool) -> dict[str, ModuleType]:
    """The modules of the codec, compiled from their source with or without the marked lines."""
    known = {
        name: sys.modules.pop(f"{PACKAGE}.{name}") for name in MODULES if f"{PACKAGE}.{name}" in sys.modules
    }
    made = {}
    try:
        for name in MODULES:
            full = f"{PACKAGE}.{name}"
            spec = importlib.util.find_spec(full)
            assert spec is not None
            assert spec.origin is not None
            with open(spec.origin, encoding="utf-8") as file:  # noqa: PTH123  a module's own file
                lines = file.read().splitlines()
            source = "\n".join(line for line in lines if marked or not line.rstrip().endswith(MARK))
            module = ModuleType(full)
            module.__file__ = spec.origin
            sys.modules[full] = made[name] = module
            title = f"<{name} {'with' if marked else 'without'} residues>"
            exec(compile(source, title, "exec"), module.__dict__)  # noqa: S102  our own source
    finally:
        for name in MODULES:
            sys.modules.pop(f"{PACKAGE}.{name}", None)
        for name, module in known.items():
            sys.modules[f"{PACKAGE}.{name}"] = module
    return made


def legacy_documents(modules: dict[str, ModuleType]) -> dict[str, tuple[str, str, str, Any]]:
    """The documents of the codec's rows in the shape of 0.3: module, functions, tree."""
    found = {}
    for name, (cls, tree) in documents().items():
        message = codec.decoder(cls)(tree)
        match cls.__name__:
            case "SendMessageRequest":
                found[name] = ("params", "decode_send", "encode_send", modules["params"].encode_send(message))
            case "Task":
                found[name] = (
                    "tasks",
                    "decode_task",
                    "encode_task",
                    modules["tasks"].encode_task(message),
                )
    return found


def _medians(
    one: Callable[[Any], object], other: Callable[[Any], object], argument: Any
) -> tuple[float, float]:
    """Median seconds per call of each."""
    sides = (one, other)
    start = time.perf_counter()
    for side in sides:
        side(argument)
        side(argument)
    count = max(1, int(ROUND_SECONDS / ((time.perf_counter() - start) / 4)))
    times: list[list[float]] = [[], []]
    for number in range(ROUNDS):
        # Another order each round, since whoever follows finds the caches as the other left them.
        for index in (0, 1) if number % 2 else (1, 0):
            side = sides[index]
            start = time.perf_counter()
            for _ in range(count):
                side(argument)
            times[index].append((time.perf_counter() - start) / count)
    return statistics.median(times[0]), statistics.median(times[1])


if __name__ == "__main__":
    for row in rows():
        print(row)
