"""Our codec against json_format with the standard library's json, as in the official SDK.

Both sides get the same text and the same classes; rounds of the two are interleaved and medians compared, so
that a busy machine slows both. It measures no sockets.
"""

from __future__ import annotations

import base64
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format

from a2a_bridge import codec
from a2a_bridge.pb import lf_a2a_v1 as a2a

ROUNDS = 15
ROUND_SECONDS = 0.02

# name, JSON → message, message → JSON: the factor over json_format that we aim at.
TARGETS = {
    "message 300 B": (6.0, 3.0),
    "task 18 KB": (6.0, 3.0),
    "data part 6 KB": (2.5, 1.7),
    "file part 1 MB": (2.5, 2.5),
}


def rows() -> list[dict[str, Any]]:
    """One row per document and direction: microseconds of both sides, the ratio, and the target of
    the ratio.
    """
    found = []
    for name, (cls, document) in documents().items():
        text = codec.dumps(document)
        message = codec.decode_bytes(cls, text)
        decode, encode = codec.decoder(cls), codec.encoder(cls)
        theirs_decode, ours_decode = _medians(
            lambda cls=cls, text=text: json_format.ParseDict(json.loads(text), cls()),  # type: ignore[misc]
            lambda decode=decode, text=text: decode(codec.loads(text)),  # type: ignore[misc]
        )
        theirs_encode, ours_encode = _medians(
            lambda message=message: json.dumps(json_format.MessageToDict(message)),  # type: ignore[misc]
            lambda encode=encode, message=message: codec.dumps(encode(message)),  # type: ignore[misc]
        )
        parse, printed = TARGETS[name]
        found.append(_row(name, "decode", len(text), theirs_decode, ours_decode, parse))
        found.append(_row(name, "encode", len(text), theirs_encode, ours_encode, printed))
    return found


def documents() -> dict[str, tuple[type[Any], dict[str, Any]]]:
    """The documents that are measured, with the class each is JSON of."""
    return {
        "message 300 B": (a2a.SendMessageRequest, _message()),
        "task 18 KB": (a2a.Task, _task()),
        "data part 6 KB": (a2a.Part, _data_part()),
        "file part 1 MB": (a2a.Part, _file_part()),
    }


def _message() -> dict[str, Any]:
    return {
        "message": {
            "messageId": "5b1c6b0e-6c1f-4b0a-9d0e-4f3b6a1c2d3e",
            "contextId": "c6a0f4b2-1d0b-4c1e-8f43-0f7f0a9f2f6a",
            "role": "ROLE_USER",
            "parts": [
                {"text": "What will the weather be like in Lisbon tomorrow, and should I take an umbrella?"}
            ],
        },
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 10},
    }


def _task() -> dict[str, Any]:
    def turn(index: int) -> dict[str, Any]:
        return {
            "messageId": f"message-{index:04}",
            "contextId": "c6a0f4b2-1d0b-4c1e-8f43-0f7f0a9f2f6a",
            "taskId": "7a52ad16-25b3-4f5c-a5a5-3d3a4c7f7d21",
            "role": "ROLE_AGENT" if index % 2 else "ROLE_USER",
            "parts": [
                {"text": f"Turn {index}: " + "the quick brown fox jumps over the lazy dog. " * 3},
                {"url": f"https://files.example.com/{index}.pdf", "mediaType": "application/pdf"},
            ],
            "metadata": {"turn": index, "source": "chat"},
        }

    return {
        "id": "7a52ad16-25b3-4f5c-a5a5-3d3a4c7f7d21",
        "contextId": "c6a0f4b2-1d0b-4c1e-8f43-0f7f0a9f2f6a",
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2025-06-01T12:30:45.123Z"},
        "artifacts": [
            {
                "artifactId": f"artifact-{index}",
                "name": f"Section {index}",
                "parts": [{"text": "Lorem ipsum dolor sit amet, consectetur adipiscing elit. " * 4}],
            }
            for index in range(14)
        ],
        "history": [turn(index) for index in range(28)],
        "metadata": {"priority": "high"},
    }


def _data_part() -> dict[str, Any]:
    chance = random.Random(1)
    return {
        "data": {
            "rows": [
                {
                    "id": index,
                    "name": f"row number {index}",
                    "score": chance.random() * 100,
                    "active": index % 2 == 0,
                    "tags": ["a", "b", f"t{index}"],
                    "nested": {"x": index * 2, "y": None},
                }
                for index in range(48)
            ],
            "total": 48,
        },
        "mediaType": "application/json",
    }


def _file_part() -> dict[str, Any]:
    raw_bytes = random.Random(1).randbytes(1_000_000 * 3 // 4)
    return {
        "raw": base64.b64encode(raw_bytes).decode(),
        "filename": "scan.bin",
        "mediaType": "application/octet-stream",
    }


def _medians(*sides: Callable[[], object]) -> list[float]:
    """Median seconds per call of each side."""
    counts = []
    for side in sides:
        start = time.perf_counter()
        side()
        side()
        counts.append(max(1, int(ROUND_SECONDS / ((time.perf_counter() - start) / 2))))
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(ROUNDS):
        for side, count, taken in zip(sides, counts, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                side()
            taken.append((time.perf_counter() - start) / count)
    return [statistics.median(taken) for taken in times]


def _row(name: str, direction: str, size: int, theirs: float, ours: float, target: float) -> dict[str, Any]:
    return {
        "suite": "codec",
        "case": name,
        "direction": direction,
        "bytes": size,
        "json_format_us": round(theirs * 1e6, 2),
        "ours_us": round(ours * 1e6, 2),
        "ratio": round(theirs / ours, 2),
        "target": target,
        "reached": theirs / ours >= target,
    }


if __name__ == "__main__":
    for row in rows():
        json.dump(row, sys.stdout)
        print()
