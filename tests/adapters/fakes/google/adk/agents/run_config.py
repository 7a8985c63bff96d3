"""The configuration of a run."""

from dataclasses import dataclass
from enum import Enum


class StreamingMode(Enum):
    NONE = None
    SSE = "sse"


@dataclass
class RunConfig:
    streaming_mode: StreamingMode = StreamingMode.NONE
