"""The official specification of an A2A command line as data: spellings, tiers, identifiers, error codes.

Source: a2aproject/a2a-cli, specification/SPEC.md and COMPLIANCE.md, and the spellings that the project has
merged since. It still moves, so everything that may be renamed is in these tables and nowhere else.

Rules:
1. The first spelling of an option or a command is the newest one: help, completion and the documentation show
   it. All others are accepted.
2. Options, their variables, `config show`, the compliance report and its page are made from these tables.
3. This module loads nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = "0.2"
REVISION = "2026-08-17"
#: of environment variables, and of keys in .env files
PREFIX = "A2ACLI_"
#: of error codes
ERROR = "A2ACLI_ERR_"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How an option is written, and the tier that it belongs to."""

    #: the newest long spelling first
    names: tuple[str, ...]
    short: str = ""
    tier: int = 1
    #: whether a variable and a key of .env files set it
    variable: bool = True

    @property
    def shown(self) -> tuple[str, ...]:
        """The spellings in help and completion."""
        return (self.short, self.names[0]) if self.short else self.names[:1]

    @property
    def variable_name(self) -> str:
        """The environment variable; empty if there is none."""
        return PREFIX + self.names[0].removeprefix("--").upper().replace("-", "_") if self.variable else ""


def _once(*names: str, short: str = "", tier: int = 1) -> Spelling:
    """An option of one invocation, which nothing configures."""
    return Spelling(names, short, tier, variable=False)


#: field of the classes of flags -> spelling
OPTIONS = {
    "agent_card": Spelling(("--agent-card",), "-a"),
    "endpoint": Spelling(("--endpoint",), "-e"),
    "transport": Spelling(("--transport", "--binding")),
    "a2a_version": Spelling(("--a2a-version",)),
    "bearer": Spelling(("--bearer",)),
    "api_key": Spelling(("--api-key",)),
    "svc_param": Spelling(("--svc-param", "--header"), "-H"),
    "insecure": Spelling(("--insecure",)),
    "timeout": Spelling(("--timeout",)),
    "poll_interval": Spelling(("--poll-interval",)),
    "output": Spelling(("--output",), "-o"),
    "stream": _once("--stream"),
    "verbose": Spelling(("--verbose",), "-v"),
    "debug": Spelling(("--debug",)),
    "env_file": Spelling(("--env-file", "--config")),
    "return_immediately": Spelling(("--async", "--return-immediately", "--no-wait")),
    "wait": Spelling(("--wait", "--watch")),
    "context_id": Spelling(("--context-id",)),
    "task_id": Spelling(("--task-id",)),
    "metadata": Spelling(("--metadata",), tier=2),
    "text_part": _once("--text-part", "--text"),
    "file_part": _once("--file-part", "--file"),
    "data_part": _once("--data-part", "--data"),
    "media_type": _once("--media-type"),
    "save_fileparts": Spelling(("--save-fileparts",), tier=2),
    "history": _once("--history"),
    "validate": _once("--validate", tier=2),
    "extended": _once("--extended", tier=3),
}

#: older name of a command -> its newest name
COMMANDS = {"demo-server": "server"}

#: error codes of the tool itself -> exit code (Appendix E)
CODES = {
    "USAGE": 2,
    "CARD_NOT_FOUND": 3,
    "CARD_INVALID": 1,
    "UNREACHABLE": 3,
    "CREDENTIALS_MISSING": 4,
    "AUTH_FAILED": 4,
    "TIMEOUT": 5,
    "INTERNAL": 1,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A row of COMPLIANCE.md."""

    tier: int
    #: sections of SPEC.md
    spec: str
    text: str

    @staticmethod
    def area(identifier: str) -> str:
        """The area of an identifier: TASK_GET of A2ACLI_TASK_GET_001."""
        return identifier.removeprefix(PREFIX).rpartition("_")[0]
