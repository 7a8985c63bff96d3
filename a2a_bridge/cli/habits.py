"""What people type because other programs have it, and what to type here.

`--help` loads this module, so it imports nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from shlex import quote
from types import MappingProxyType

_SERVE = "a2a-bridge serve FILE.py"
_GATEWAY = "a2a-bridge gateway URL"
_SEND = "a2a-bridge send -a TARGET TEXT"

#: names of commands that do not exist, or no longer -> the command to use
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "call": f"{_SEND}, or a2a-bridge compare -a TARGET TEXT for --binding all",
        **dict.fromkeys(
            ("start", "run", "up", "expose", "host"),
            f"{_SERVE} for an agent in Python, {_GATEWAY} for one elsewhere",
        ),
        **dict.fromkeys(("proxy", "bridge", "forward"), _GATEWAY),
        **dict.fromkeys(("ask", "message", "client", "stream"), _SEND),
        **dict.fromkeys(("test", "doctor", "validate", "verify"), "a2a-bridge check TARGET"),
        **dict.fromkeys(("discover", "info", "describe"), "a2a-bridge card -a TARGET"),
        **dict.fromkeys(("list", "tasks"), "a2a-bridge task list -a TARGET"),
        **dict.fromkeys(("get", "status"), "a2a-bridge task get -a TARGET ID"),
        "cancel": "a2a-bridge task cancel -a TARGET ID",
        **dict.fromkeys(("playground", "inspect", "inspector"), "a2a-bridge ui TARGET"),
        "version": "a2a-bridge --version",
    }
)

_ADDRESS = "--http HOST:PORT and --grpc HOST:PORT"
#: options that servers of other programs have -> what to use
_LISTENING = MappingProxyType(
    {
        **dict.fromkeys(("--port", "-p", "--host", "--bind", "-b", "--address", "--addr"), _ADDRESS),
        "--http-port": "--http HOST:PORT",
        "--grpc-port": "--grpc HOST:PORT",
        **dict.fromkeys(("--url", "--base-url"), "--public-url URL, the address that the card shows"),
        **dict.fromkeys(("--cert", "--certfile", "--tls-cert"), "--ssl-certfile FILE"),
        **dict.fromkeys(("--key", "--keyfile", "--tls-key"), "--ssl-keyfile FILE"),
    }
)
#: options that clients of other programs have
_CALLING = MappingProxyType(
    {
        **dict.fromkeys(("--url", "--agent-url", "--server", "--host", "--port", "-p"), "-a TARGET"),
        **dict.fromkeys(("--token", "--auth"), "--bearer TOKEN"),
        **dict.fromkeys(("--json", "--format"), "-o json"),
        **dict.fromkeys(("--message", "-m", "--text"), "the text without an option"),
    }
)
_SERVERS = frozenset({"serve", "gateway", "server", "ui"})
#: commands that take one text, which has to be quoted if it has several words
_ONE_TEXT = frozenset({"send", "compare"})
_TARGET = re.compile(r"\w+://\S+|[\w.\[\]-]*:\d+(?:/\S*)?|\S+\.(?:py|json)(?::\w+)?")


#: groups whose first word may be taken for the agent -> their command for one
_GROUPS = MappingProxyType({"card": "get", "task": "list"})


def instead_of_command(group: str, word: str) -> str:
    """The command line for a word that is no command of a group; empty if that is not known."""
    if group not in _GROUPS or not _TARGET.fullmatch(word):
        return ""
    return f"a2a-bridge {group} {_GROUPS[group]} -a {quote(word)}"


def instead_of_option(command: str, option: str) -> str:
    """What to use instead of an option that a command lacks; empty if that is not known."""
    known = _LISTENING if command in _SERVERS else _CALLING
    return known.get(option.partition("=")[0], "")


def instead_of_words(command: str, words: Sequence[str]) -> str:
    """The command line for words of which a command takes fewer; empty if that is not known."""
    target = next((word for word in words if _TARGET.fullmatch(word)), "")
    if command == "server":
        return f"a2a-bridge serve {target}; `server` serves a demo agent" if target else ""
    if command in _SERVERS or not (target or command in _ONE_TEXT):
        return ""
    target = target or "TARGET"
    rest = [word for word in words if word is not target]
    if command in _ONE_TEXT:
        rest = [" ".join(rest)] if rest else []
    return " ".join(["a2a-bridge", command, "-a", target, *(quote(word) for word in rest)])
