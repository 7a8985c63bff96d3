"""The official specification of an A2A command line as data: variants, tiers, error codes.

Source: a2aproject/a2a-cli, specification/SPEC.md and COMPLIANCE.md, and the variants merged since. It still
moves, so what may be renamed is in these tables only: options, variables and `config show` are made of them.
The first variant of an option or a command is the newest: help, completion and documentation show it; all
others are accepted. `--help` reads this module, which loads little.
"""

from dataclasses import dataclass

from a2a_bridge.core.options import CLIENT_PREFIX

#: of error codes
ERROR = "A2ACLI_ERR_"


@dataclass(frozen=True, slots=True)
class Variant:
    """How an option is written, and the tier that it belongs to."""

    #: the newest long variant first
    names: tuple[str, ...]
    short: str = ""
    tier: int = 1
    #: whether a variable and a key of .env files set it
    variable: bool = True

    @property
    def shown(self) -> tuple[str, ...]:
        """The variants in help and completion."""
        return (self.short, self.names[0]) if self.short else self.names[:1]

    @property
    def variable_name(self) -> str:
        """The environment variable; empty if there is none."""
        name = self.names[0].removeprefix("--").upper().replace("-", "_")
        return CLIENT_PREFIX + name if self.variable else ""


def _once(*names: str, short: str = "", tier: int = 1) -> Variant:
    """An option of one invocation, which nothing configures."""
    return Variant(names, short, tier, variable=False)


#: field of the classes of flags -> variant
OPTIONS = {
    "agent_card": Variant(("--agent-card",), "-a"),
    "endpoint": Variant(("--endpoint",), "-e"),
    "transport": Variant(("--transport", "--binding")),
    "a2a_version": Variant(("--a2a-version",)),
    "bearer": Variant(("--bearer",)),
    "api_key": Variant(("--api-key",)),
    # Values have blanks, at which variables are split; A2A_BRIDGE_HEADER_NAME is the variable of one.
    "svc_param": Variant(("--svc-param", "--header"), "-H", variable=False),
    "insecure": Variant(("--insecure",)),
    "timeout": Variant(("--timeout",)),
    "poll_interval": Variant(("--poll-interval",)),
    "output": Variant(("--output",), "-o"),
    "stream": _once("--stream"),
    "verbose": Variant(("--verbose",), "-v"),
    "debug": Variant(("--debug",)),
    "env_file": Variant(("--env-file", "--config")),
    "return_immediately": Variant(("--async", "--return-immediately", "--no-wait")),
    "wait": Variant(("--wait", "--watch")),
    "context_id": Variant(("--context-id",)),
    "task_id": Variant(("--task-id",)),
    "metadata": Variant(("--metadata",), tier=2),
    "text_part": _once("--text-part", "--text"),
    "file_part": _once("--file-part", "--file"),
    "data_part": _once("--data-part", "--data"),
    "media_type": _once("--media-type"),
    "save_fileparts": Variant(("--save-fileparts",), tier=2),
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
