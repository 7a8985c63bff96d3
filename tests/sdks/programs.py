"""Agents and clients of the SDKs of other languages: their builds, versions and bindings, as data."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.matrix.versions import BINDINGS, Side
from tests.peers.processes import Program

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / ".build" / "sdks"


@dataclass(frozen=True)
class Sdk:
    name: str
    #: folder below this one with its programs
    folder: str
    #: the tool without which it cannot be built
    toolchain: str
    #: its name in the registry of that tool; the version is that in `name`
    package: str
    #: commands that build it, run in its folder; {out} is where the results go
    build: tuple[tuple[str, ...], ...]
    #: the command that starts it, before `agent` or `client`; {out} as above
    command: tuple[str, ...]
    #: its (version, flags, bindings)
    speaks: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    #: the form of requests to its client: 1.0 is ProtoJSON and methods of 1.0, 0.3 is params and methods of
    #: 0.3 (lines.md)
    words: str = "1.0"

    @property
    def out(self) -> Path:
        return BUILT / self.folder

    def who(self, version: str) -> str:
        """The name of a side that speaks a version: SDKs have a layer of their own for older versions."""
        return self.name if version == self.speaks[0][0] else f"{self.name} compat"

    def programs(self, role: str) -> dict[str, Program]:
        """Its agents or clients by name."""
        start = tuple(part.format(out=self.out) for part in self.command)
        start = (shutil.which(start[0]) or start[0], *start[1:])
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


#: one folder has the programs of both releases
_JS = (
    ("cp", "-R", ".", "{out}"),
    ("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix", "{out}"),
)

SDKS = (
    Sdk(
        "a2a-go 2.4.0",
        "go2",
        "go",
        "github.com/a2aproject/a2a-go/v2",
        (("go", "build", "-o", "{out}/go2", "."),),
        ("{out}/go2",),
        (("1.0", (), BINDINGS), ("0.3", ("--compat",), BINDINGS)),
    ),
    Sdk(
        "a2a-go 2.3.1",
        "go2",
        "go",
        "github.com/a2aproject/a2a-go/v2",
        (("go", "build", "-modfile=go-2.3.1.mod", "-o", "{out}/go2-2.3.1", "."),),
        ("{out}/go2-2.3.1",),
        # Its HTTP+JSON of 0.3 has a form of its own.
        (("1.0", (), BINDINGS), ("0.3", ("--compat",), ("JSONRPC", "GRPC"))),
    ),
    Sdk(
        "a2a-go 0.3.15",
        "go03",
        "go",
        "github.com/a2aproject/a2a-go",
        (("go", "build", "-o", "{out}/go03", "."),),
        ("{out}/go03",),
        (("0.3", (), ("JSONRPC", "GRPC")),),
        "0.3",
    ),
    Sdk(
        "a2a-rs 0.5.3",
        "rust",
        "cargo",
        "a2a-server-lf",
        # Cargo leaves a lock file beside its manifest, with the address of a registry in it.
        (
            ("cp", "-R", "Cargo.toml", "src", "{out}"),
            (
                "cargo",
                "build",
                "--quiet",
                "--manifest-path",
                "{out}/Cargo.toml",
                "--target-dir",
                "{out}/target",
            ),
        ),
        ("{out}/target/debug/rust-sdk",),
        (("1.0", (), BINDINGS),),
    ),
    Sdk(
        "a2a-js 1.3.0",
        "js",
        "npm",
        "@a2a-js/sdk",
        _JS,
        ("node", "{out}/main.js", "1"),
        (("1.0", (), BINDINGS), ("0.3", ("--compat",), BINDINGS)),
    ),
    Sdk(
        "a2a-js 0.3.14",
        "js",
        "npm",
        "@a2a-js/sdk",
        _JS,
        ("node", "{out}/main.js", "0.3"),
        (("0.3", (), BINDINGS),),
        "0.3",
    ),
    Sdk(
        "a2a-java 0.3.3",
        "java",
        "mvn",
        "io.github.a2asdk:a2a-java-sdk-client",
        (("mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", "-Dout={out}", "compile"),),
        ("java", "-cp", "{out}/classes:{out}/lib/*", "Main"),
        (("0.3", (), BINDINGS),),
        "0.3",
    ),
)
