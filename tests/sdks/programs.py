"""Agents and clients of the SDKs of other languages: how they are built and what they speak. Data; runs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.matrix.versions import BINDINGS, Side
from tests.peers.processes import Program

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / ".build" / "sdks"


@dataclass(frozen=True)
class Sdk:
    """One release of one SDK."""

    name: str
    #: folder below this one with its programs
    folder: str
    #: the tool without which it cannot be built
    toolchain: str
    #: commands that build it, run in its folder; {out} is where the results go
    build: tuple[tuple[str, ...], ...]
    #: the command that starts it, before `agent` or `client`
    command: tuple[str, ...]
    #: (version, flags, bindings) of what it speaks
    speaks: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]

    @property
    def out(self) -> Path:
        return BUILT / self.folder

    def who(self, version: str) -> str:
        """The name of a side that speaks a version: older versions are spoken by a layer of their own."""
        return self.name if version == self.speaks[0][0] else f"{self.name} compat"

    def programs(self, role: str) -> dict[str, Program]:
        """Its agents or clients by name."""
        start = tuple(part.format(out=self.out) for part in self.command)
        return {
            self.who(version): Program(version, bindings, (*start, role, *flags))
            for version, flags, bindings in self.speaks
        }

    def sides(self) -> list[Side]:
        return [
            Side(self.who(version), version, binding)
            for version, _, bindings in self.speaks
            for binding in bindings
        ]


SDKS = (
    Sdk(
        "a2a-go 2.3.1",
        "go2",
        "go",
        (("go", "build", "-o", "{out}/go2", "."),),
        ("{out}/go2",),
        (("1.0", (), BINDINGS), ("0.3", ("--compat",), ("JSONRPC", "GRPC"))),
    ),
)
