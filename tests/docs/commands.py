"""The pages of the commands, from the same declarations as `--help`: one page for each command."""

import inspect
import re
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer.main

from a2a_bridge.cli import app
from a2a_bridge.cli.help import _GROUPS, is_client, newest, takes_file
from a2a_bridge.core.options import Option, _Description
from tests.docs.pages import DOCS

FOLDER = DOCS / "reference" / "commands"
#: the page of the options that all client commands have
SHARED = FOLDER / "client-options.md"
ROOT: Any = typer.main.get_command(app)
HEAD = ["| flag | variable | default | meaning |", "|---|---|---|---|"]
NOTE = "<!-- generated from the declarations of the command by `make generate` -->"

#: what a page says beyond its declarations: the pages to read, by command
READ = {
    "check": "how-to/check-an-agent.md",
    "compare": "reference/client-commands.md",
    "conformance": "reference/client-commands.md#conformance-documents",
    "config check": "how-to/configure-by-file.md",
    "config schema": "how-to/configure-by-file.md",
    "config show": "how-to/configure-by-file.md",
    "db check": "explanation/durability.md#damaged-rows",
    "db upgrade": "how-to/keep-tasks.md#upgrade-the-tables",
    "export envoy": "how-to/deploy.md#envoy-in-front",
    "front mcp": "how-to/serve-mcp-clients.md",
    "front openai": "how-to/serve-openai-clients.md",
    "gateway": "how-to/bridge-an-agent.md",
    "keys create": "how-to/authenticate-callers.md",
    "keys list": "how-to/authenticate-callers.md",
    "keys revoke": "how-to/authenticate-callers.md",
    "peers": "reference/peers.md",
    "push key": "how-to/send-push-notifications.md#secrets",
    "push list": "how-to/send-push-notifications.md#when-it-fails",
    "push retry": "how-to/send-push-notifications.md#when-it-fails",
    "serve": "how-to/write-an-agent.md",
    "ui": "how-to/use-the-playground.md",
    "usage": "how-to/migrate-clients.md#6-count-the-callers",
}
#: the page that says more about a flag, by its name
MORE = {
    "--admin": "how-to/operate-a-server.md",
    "--advertise": "how-to/change-the-card.md#clients-that-reject-cards",
    "--affinity": "how-to/set-up-upstreams.md#several-endpoints",
    "--api-keys": "how-to/authenticate-callers.md",
    "--base64-files": "reference/peers.md#file-bytes",
    "--bridge-key": "explanation/versions.md#what-means-the-same",
    "--cacert": "reference/commands.md#tls",
    "--card-keys": "how-to/sign-cards.md#verify",
    "--card-refresh": "how-to/set-up-upstreams.md#the-card",
    "--card-signing-key": "how-to/sign-cards.md",
    "--card-versions": "how-to/change-the-card.md#clients-that-reject-cards",
    "--cluster": "how-to/run-replicas.md#nats",
    "--config": "how-to/configure-by-file.md",
    "--credentials-for": "reference/commands.md#where-a-card-leads",
    "--drain-window": "how-to/operate-a-server.md#probes-and-draining",
    "--endpoint": "how-to/set-up-upstreams.md#several-endpoints",
    "--exec": "how-to/serve-a-program.md",
    "--grpc-urls": "reference/card.md#grpc-addresses-of-0x",
    "--header": "reference/commands.md#secrets",
    "--idempotent-sends": "explanation/durability.md#sending-twice",
    "--jwt-issuer": "how-to/authenticate-callers.md",
    "--lease": "explanation/replicas.md#who-is-alive",
    "--listen": "how-to/choose-a-server.md#envoy",
    "--log-config": "how-to/operate-a-server.md#logs",
    "--max-body": "reference/limits.md",
    "--max-memory": "reference/limits.md#memory-of-one-process",
    "--middleware": "how-to/write-middleware.md",
    "--peer": "reference/peers.md",
    "--push-allow": "how-to/send-push-notifications.md#where-they-may-go",
    "--push-relay": "how-to/relay-push-notifications.md",
    "--push-signing-key": "reference/webhooks.md#signatures",
    "--reload": "how-to/configure-by-file.md#changes-while-it-runs",
    "--replay-memory": "explanation/gateways.md#streams-that-break",
    "--retries": "how-to/set-up-upstreams.md#retries",
    "--server": "how-to/choose-a-server.md",
    "--ssl-certfile": "how-to/use-tls.md",
    "--store": "how-to/keep-tasks.md",
    "--store-key": "how-to/send-push-notifications.md#secrets",
    "--task-access": "how-to/authenticate-callers.md#gateways",
    "--tracing": "how-to/operate-a-server.md#traces",
    "--ui": "how-to/use-the-playground.md",
    "--upstream-auth": "how-to/set-up-upstreams.md#credentials",
    "--upstream-client-secret": "reference/commands.md#secrets",
    "--usage-file": "how-to/migrate-clients.md#6-count-the-callers",
    "--usage-listen": "how-to/migrate-clients.md#6-count-the-callers",
    "--versions": "explanation/versions.md",
    "--workers": "how-to/run-replicas.md#workers-on-one-machine",
}


def flat(commands: dict[str, Any]) -> dict[str, Any]:
    """Verbs -> commands; those of a group as `group verb`."""
    found: dict[str, Any] = {}
    for name, command in commands.items():
        inner = getattr(command, "commands", None)
        found |= (
            {name: command} if inner is None else {f"{name} {key}": one for key, one in flat(inner).items()}
        )
    return found


def declared(command: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(command.callback, "options", {})
    return found


VERBS = flat(ROOT.commands)
CLIENT = {verb: one for verb, one in VERBS.items() if is_client(declared(one))}
#: the options that every client command has
COMMON = set.intersection(*(set(declared(one)) for one in CLIENT.values()))


def page(verb: str) -> Path:
    return FOLDER / f"{verb.replace(' ', '-')}.md"


def link(target: str, folder: str = "reference/commands") -> str:
    """The address of a page, as pages of a folder write it."""
    return "../" * len(Path(folder).parts) + target


def default(option: Any) -> str:
    """The default of an option as people would write it; empty if there is none."""
    value = option.default
    if value is None or value is False or value == "" or callable(value):
        return ""
    return str(getattr(value, "value", value))


def _choices(option: Any) -> str:
    kinds = [option.type, *get_args(option.type)]
    enums = [one for one in kinds if isinstance(one, type) and issubclass(one, Enum)]
    if not enums:
        return ""
    return ". One of " + ", ".join(f"`{one.value}`" for one in enums[0])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").removesuffix(".")


def row(option: Any, described: Any) -> str:
    """A line of a table."""
    shown = newest(option, described.described)
    names = sorted(shown.opts, key=len, reverse=True) + list(option.secondary_opts)
    unit = described.described.metavar
    flags = ", ".join(f"`{one}`" for one in names) + (f" {_cell(unit)}" if unit else "")
    older = [one for one in option.opts if one not in shown.opts]
    meaning = _cell(described.described.help) + _choices(described)
    if older:
        meaning += ". Also " + ", ".join(f"`{one}`" for one in older)
    if described.described.live:
        meaning += ". A running server takes a new value"
    more = next((MORE[one] for one in names if one in MORE), None)
    if more is not None:
        meaning += f". [More]({link(more)})"
    plain = f"`{_cell(default(option))}`" if default(option) else ""
    variable = f"`{option.envvar}`" if option.envvar else ""
    return f"| {flags} | {variable} | {plain} | {meaning} |"


def _examples(text: str) -> tuple[str, list[str]]:
    about, _, examples = inspect.cleandoc(text).partition("For example:")
    lines = [f"$ {one.strip()}" for one in examples.splitlines() if one.strip()]
    return re.sub(r"(?<!\n)\n(?!\n)", " ", about.strip()), lines


def _arguments(command: Any) -> list[str]:
    lines = []
    for one in command.params:
        if one.param_type_name == "argument":
            name = one.metavar or one.name.upper()
            variable = f", or the variable `{one.envvar}`" if one.envvar else ""
            lines.append(f"- `{name}`: {(one.help or '').removesuffix('.')}{variable}.")
    return lines


def text(verb: str) -> str:
    command = VERBS[verb]
    about, examples = _examples(command.help)
    context = command.make_context(f"a2a-bridge {verb}", [], resilient_parsing=True)
    usage = re.sub(r"\s+", " ", command.get_usage(context)).removeprefix("Usage: ")
    lines = [f"# {verb}", "", NOTE, "", about, "", "```text", usage, "```", "", *_arguments(command)]
    if verb in READ:
        lines += ["", f"[When to use it, and how]({link(READ[verb])})."]
    lines += ["", "## Examples", "", "```console", *examples, "```"]
    sections: dict[str, list[str]] = {}
    for one in command.params:
        described = declared(command).get(one.name)
        if one.param_type_name != "option" or (verb in CLIENT and one.name in COMMON):
            continue
        if described is None:
            described = Option(one.name, str, one.default, one.required, _Description(one.help, one.metavar))
        grouped = takes_file(declared(command)) or verb in CLIENT
        heading = (described.described.group or "Other") if grouped else "Options"
        sections.setdefault(heading, []).append(row(one, described))
    for heading in sorted(
        sections, key=lambda name: _GROUPS.index(name) if name in _GROUPS else len(_GROUPS)
    ):
        lines += ["", f"## {heading}", "", *HEAD, *sections[heading]]
    if takes_file(declared(command)):
        lines += [
            "",
            f"Each option is also a key of the [configuration file]({link('reference/configuration.md')}).",
        ]
    if verb in CLIENT:
        lines += ["", f"It also has the [options of all client commands]({SHARED.name})."]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def shared() -> str:
    """The page of the options that every client command has."""
    command = next(iter(CLIENT.values()))
    sections: dict[str, list[str]] = {}
    for one in command.params:
        if one.name in COMMON:
            described = declared(command)[one.name]
            sections.setdefault(described.described.group or "Other", []).append(row(one, described))
    lines = ["# Options of client commands", "", NOTE, ""]
    lines.append(", ".join(f"[`{verb}`]({page(verb).name})" for verb in CLIENT) + " have these options.")
    for heading, rows in sections.items():
        lines += ["", f"## {heading}", "", *HEAD, *rows]
    return "\n".join(lines) + "\n"


def index() -> str:
    lines = ["| command | what it does |", "|---|---|"]
    for verb, command in VERBS.items():
        about, _ = _examples(command.help)
        first = re.split(r"(?<=\.)\s", about, maxsplit=1)[0].removesuffix(".")
        lines.append(f"| [`{verb}`](commands/{page(verb).name}) | {_cell(first)} |")
    return "\n".join(lines) + "\n"


def navigation() -> str:
    """The part of `mkdocs.yml` with the pages of the commands."""
    pages = [SHARED, *(page(verb) for verb in VERBS)]
    names = ["Options of client commands", *VERBS]
    lines = [f"          - {name}: {one.relative_to(DOCS)}\n" for name, one in zip(names, pages, strict=True)]
    return "".join(lines)
