"""Flags, their environment variables, and how values are read. Nothing is served or called."""

import errno
import inspect
import json
import os
import socket
import subprocess
import sys
from codecs import BOM_UTF8
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from a2a_bridge.bindings.binding import DialOptions, HostOptions
from a2a_bridge.bindings.frames import Frame, shown_lines
from a2a_bridge.cli import app
from a2a_bridge.cli.commands import SUMMARIES, Command
from a2a_bridge.cli.environment import read_variables
from a2a_bridge.cli.output import cannot_listen
from a2a_bridge.cli.reading import with_flags
from a2a_bridge.cli.server_flags import (
    AgentSettings,
    ClientAuth,
    ClientCertificate,
    GatewayFlags,
    LogLevel,
    ServedAgent,
    ServeFlags,
)
from a2a_bridge.cli.values import listen_address, parameters, use_bridge_key
from a2a_bridge.codec.budget import REQUEST_VALUES
from a2a_bridge.core.masking import mask
from a2a_bridge.core.option_classes import (
    EngineOptions,
    HostValues,
    JwtValues,
    Limits,
    ServerTlsValues,
    StoreOptions,
    TokenEndpointValues,
    UpstreamValues,
)
from a2a_bridge.core.options import Table, flag, options_of, taken
from a2a_bridge.dialects import signed_extras
from a2a_bridge.pb import lf_a2a_v1 as hub

RUNNER = CliRunner()
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("group", [ServeFlags, GatewayFlags, ServedAgent, AgentSettings])
def test_an_option_of_the_library_is_the_same_in_a_command(group: type) -> None:
    """Its type, but for those that a command line has in other forms, and its default."""
    shared = [one for one in options_of(group).values() if one.described.source is not None]
    assert shared
    for one in shared:
        library, name = one.described.source  # type: ignore[misc]
        kind = get_type_hints(library)[name]
        if get_origin(kind) in (tuple, frozenset):
            assert (one.type, one.default) in [(str, ""), (list[str] | None, None), (list[Path] | None, None)]
        elif isinstance(one.type, type) and issubclass(one.type, Enum):
            words = {member.value for member in one.type}
            assert words - set(get_args(kind)) <= {"auto"}
        elif one.described.metavar != "DAYS":
            assert one.type in (kind, kind | None, Path | None), one.name
        if not issubclass(group, Table):
            assert taken(library, group())[name] == getattr(library(), name), one.name


def test_the_number_of_values_in_a_request_is_the_one_of_the_decoders() -> None:
    assert HostValues().max_values == REQUEST_VALUES


def test_the_values_of_a_command_are_taken_by_the_classes_of_the_library() -> None:
    flags = ServeFlags(max_tasks=3, silence_timeout=4.0, max_body=5, max_calls=6, lease=7.0)
    engine, host = EngineOptions(**taken(EngineOptions, flags)), HostOptions(**taken(HostOptions, flags))
    assert (engine.tasks, engine.silence_timeout, engine.history) == (3, 4.0, EngineOptions().history)
    assert (host.max_body, host.max_values) == (5, HostOptions().max_values)
    assert (taken(Limits, flags)["calls"], taken(StoreOptions, flags)["lease"]) == (6, 7.0)
    several = GatewayFlags(endpoint=["http://a.example"], credentials_for=None)
    assert taken(UpstreamValues, several)["endpoints"] == ("http://a.example",)
    assert taken(DialOptions, several)["credentials_for"] == frozenset()
    # The same name, of another class.
    assert taken(DialOptions, GatewayFlags(silence_timeout=8.0))["silence_timeout"] == 8.0
    days = taken(StoreOptions, ServeFlags(keep_tasks=2.0, keep_events=0.5))
    assert (days["tasks_kept"], days["events_kept"]) == (2 * 86400, 43200)
    days = taken(StoreOptions, ServeFlags(keep_tasks=0.0, keep_events=0.0))
    assert (days["tasks_kept"], days["events_kept"]) == (None, 0)
    forms = ServeFlags(
        ssl_certfile=Path("a.pem"), ssl_cert_reqs=ClientCertificate.OPTIONAL, jwt_algorithms="RS256, ES256,"
    )
    assert taken(ServerTlsValues, forms) == {
        "certificate": "a.pem",
        "key": "",
        "client_ca": "",
        "cert_reqs": "optional",
    }
    assert taken(JwtValues, forms)["algorithms"] == ("RS256", "ES256")
    assert taken(TokenEndpointValues, GatewayFlags(upstream_client_auth=ClientAuth.POST))["method"] == "post"


def test_the_commands() -> None:
    ours = [
        "check",
        "config",
        "db",
        "export",
        "front",
        "gateway",
        "init",
        "keys",
        "peers",
        "push",
        "serve",
        "ui",
        "usage",
    ]
    official = ["auth", "conformance", "send", "task", "card", "chat", "completion", "help", "server"]
    assert sorted(COMMANDS) == sorted([*ours, *official, "compare", "skill"])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_each_command(name: str) -> None:
    result = RUNNER.invoke(app, [name, "--help"])
    assert result.exit_code == 0
    summary = inspect.cleandoc(COMMANDS[name].help).splitlines()[0]
    assert summary.split(":")[0].split()[0] in result.stdout


@pytest.mark.parametrize("name", ["serve", "gateway"])
def test_every_flag_of_a_server_has_an_environment_variable(name: str) -> None:
    options = [param for param in COMMANDS[name].params if param.opts[0].startswith("-")]
    without = {param.name for param in options if not param.envvar} - {
        "help",
        "header",
        "forward",
        "print_config",
        "print_envoy_config",
    }
    assert without == set()
    for param in options:
        if param.envvar:
            long = [one.removeprefix("--") for one in param.opts if one.startswith("--")]  # with aliases
            if long == ["bridge-key"]:
                assert param.envvar == "A2A_BRIDGE_KEY"
                continue
            assert param.envvar in {"A2A_BRIDGE_" + one.upper().replace("-", "_") for one in long}


def test_the_list_of_commands_loads_none_and_describes_them() -> None:
    code = (
        "import sys, a2a_bridge.cli as cli\n"
        "try: cli.main()\n"
        "finally: print(sorted(name for name in ('asyncio', 'rich', 'pydantic', 'google') if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"
    for name, command in COMMANDS.items():
        assert f"\n  {name} " in shown.stdout
        full = command.get_short_help_str(200)
        assert full.startswith(SUMMARIES[name].split(",")[0].rstrip("."))


def test_reading_the_flags_of_a_server_loads_no_pydantic() -> None:
    arguments = ["x.py", "--http", ":0", "--store", "memory://", "--log-level", "info", "--no-grpc"]
    code = (
        "import sys; from a2a_bridge.cli.commands import Commands\n"
        f"read = Commands(name='x').commands['serve'].make_context('serve', {arguments}).params\n"
        "print(repr(read['log_level']), read['http'], read['workers'], 'pydantic' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\n")[0] == "<LogLevel.INFO: 'info'> :0 1 False"


@dataclass(frozen=True, kw_only=True)
class Shared:
    most: int = flag(3, "Most.", "N", least=1)


@dataclass(frozen=True, kw_only=True)
class Own(Shared):
    level: LogLevel = flag(LogLevel.INFO, "Level.", None, "-l", "--level")
    quiet: bool = flag(False, "Quiet.", variable="")
    names: list[str] | None = flag(None, "Names.", "NAME", "--name", variable="NAME")


@with_flags
def command(target: Annotated[str, typer.Argument()], *, flags: Own) -> None:
    typer.echo(f"{target} {flags}")


def test_a_command_with_flags() -> None:
    group = typer.Typer(add_completion=False)
    group.command(cls=Command)(command)

    def said(*arguments: str, **variables: str) -> str:
        done = RUNNER.invoke(group, [*arguments], env=variables)
        return done.stdout.strip() if done.exit_code == 0 else f"exit {done.exit_code}"

    assert said("x") == f"x {Own()}"
    given = Own(most=7, level=LogLevel.DEBUG, quiet=True, names=["a", "b"])
    assert said("x", "--most", "7", "-l", "debug", "--quiet", "--name", "a", "--name", "b") == f"x {given}"
    assert said("x", A2A_BRIDGE_MOST="7", A2A_BRIDGE_QUIET="1") == f"x {Own(most=7)}"
    assert [said("x", "--most", "0"), said("x", "--level", "loud"), said()] == ["exit 2"] * 3
    names = [param.name for param in get_command(group).params]
    assert names == ["target", "level", "quiet", "names", "most"]


def test_no_command_is_usage() -> None:
    assert RUNNER.invoke(app, []).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["serve"],
        ["serve", "x.py", "--fly"],
        ["serve", "x.py", "--http", "no-port"],
        ["serve", "x.py", "--grpc", "localhost:x"],
        ["serve", "x.py", "--no-http", "--no-grpc"],
        ["serve", "x.py", "--public-url", "agent.example"],
        ["serve", "x.py", "--max-parts", "-1"],
        ["serve", "tests/cli/commands.py", "--forwarded-allow-ips", "127.0.0.1,proxy"],
        ["serve", "x.py", "--timeout-graceful-shutdown", "inf"],
        ["serve", "x.py", "--keep-tasks", "inf"],
        ["gateway", ":1", "--forwarded-allow-ips", "10.0.0.0/99"],
        ["gateway", ":1", "--credentials-for", "ftp://agent.example"],
        ["send", "-a", ":1", "x", "--credentials-for", "agent.example"],
        ["serve", "x.py", "--log-level", "loud"],
        ["serve", "tests/cli/commands.py", "--store-key", "short"],
        ["serve", "tests/cli/commands.py", "--store-key", "@no-such-file"],
        ["serve", "tests/cli/commands.py", "--push-allow", "10.0.0.0/99"],
        ["serve", "tests/cli/commands.py", "--push-signing-key", "README.md"],
        ["serve", "no-such-file.py"],
        ["serve", "no_such_module:agent"],
        ["serve", "http://127.0.0.1:1"],
        ["gateway", "ftp://127.0.0.1"],
        ["gateway", ":1", "--push-signing-key", "README.md"],
        ["gateway", "no-such-agent.py"],
        ["call", ":1", "x"],
        ["send", "-a", ":1"],
        ["send", "x"],
        ["send", "-a", ":1", "x", "--transport", "SOAP"],
        ["send", "-a", ":1", "x", "-H", "no colon"],
        ["send", "-a", ":1", "x", "--timeout", "0"],
        ["send", "-a", ":1", "x", "--timeout", "1e300"],
        ["send", "-a", ":1", "x", "--timeout", "soon"],
        ["send", "-a", ":1", "--media-type", "text/plain"],
        ["send", "-a", ":1", "x", "--metadata", "[1]"],
        ["send", "-a", ":1", "x", "--async", "--wait"],
        ["send", "-a", ":99999", "x"],
        ["send", "-e", "http://127.0.0.1:1", "x"],
        ["task", "push-config", "create", "-a", ":1", "t"],
        ["card", "get", "-a", "no-such-agent.py"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_the_reason(arguments: list[str]) -> None:
    result = RUNNER.invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (OSError(errno.EADDRINUSE, "in use"), "another port"),
        (OSError(errno.EADDRNOTAVAIL, "not here"), "an address of this machine"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "an address of this machine"),
        (PermissionError(errno.EACCES, "denied"), "a port above 1023"),
    ],
)
def test_the_advice_when_an_address_cannot_be_listened_on(
    error: OSError, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cannot_listen(error).exit_code == 2
    assert f"try: {remedy}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":0", ("127.0.0.1", 0)),
        ("8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
        ("host.example:65535", ("host.example", 65535)),
    ],
)
def test_a_listen_address(text: str, expected: tuple[str, int]) -> None:
    assert listen_address(text, "--http") == expected


@pytest.mark.parametrize("text", ["", "65536", "host", "host:", "host:x", "host:65536", "::1:80", "host:-1"])
def test_invalid_listen_addresses(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        listen_address(text, "--http")


def test_headers_become_service_parameters() -> None:
    given = ["Authorization: Bearer a:b", "X-One:1", "x-one: 2"]
    assert parameters(given) == {"authorization": "Bearer a:b", "x-one": "1, 2"}
    assert parameters(None) == {}


@pytest.mark.parametrize("header", ["none", ": x", "a b: c", "x: a\r\nb: c", "ü: x"])
def test_invalid_headers(header: str) -> None:
    with pytest.raises(typer.BadParameter):
        parameters([header])


def test_credentials_in_frames_are_masked() -> None:
    assert mask("Authorization", "Bearer secret") == "Bearer ***"
    assert mask("x-api-key", "secret") == "***"
    assert mask("content-type", "text/plain") == "text/plain"
    frame = Frame(
        True, "POST / HTTP/1.1", (("Authorization", "Basic c2VjcmV0"), ("Accept", "*/*")), b"{}\n\n"
    )
    assert shown_lines(frame) == ["POST / HTTP/1.1", "Authorization: Basic ***", "Accept: */*", "", "{}"]


def test_binary_frames_show_size_and_message() -> None:
    message = hub.GetTaskRequest(id="t")
    lines = shown_lines(Frame(False, body=message.SerializeToString(), message=message))
    assert lines == ["[3 bytes, GetTaskRequest]", '{"id":"t"}']
    assert shown_lines(Frame(False, body=b"\xff\xfe")) == ["[2 bytes]"]


def test_headers_from_files_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("Bearer hunter2\n")
    monkeypatch.setenv("A2A_BRIDGE_HEADER_X_API_KEY", "k")
    monkeypatch.setenv("A2A_BRIDGE_HEADER_X_TEAM", f"@{token}")
    assert parameters(None) == {"x-api-key": "k", "x-team": "Bearer hunter2"}
    found = parameters([f"Authorization: @{token}", "X-Api-Key: mine", "X-Api-Key: too"])
    assert found == {"authorization": "Bearer hunter2", "x-api-key": "mine, too", "x-team": "Bearer hunter2"}


@pytest.mark.parametrize(
    "header", ["Authorization Bearer hunter2", "A b: hunter2", "X: @/no/such/hunter", "X: @{two}"]
)
def test_headers_that_are_none_are_not_quoted(header: str, tmp_path: Path) -> None:
    two = tmp_path / "two"
    two.write_text("hunter2\nhunter2")
    with pytest.raises(typer.BadParameter) as caught:
        parameters([header.replace("{two}", str(two))])
    assert "hunter2" not in caught.value.message


def test_a_bridge_key_in_a_file_is_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[bytes] = []
    monkeypatch.setattr(signed_extras, "use_key", used.append)
    path = tmp_path / "key"
    for content in (b"k" * 16, b"k" * 16 + b"\n", BOM_UTF8 + b"k" * 16 + b"\r\n"):
        path.write_bytes(content)
        use_bridge_key(f"@{path}")
    use_bridge_key("k" * 16)
    assert used == [b"k" * 16] * 4


def test_secrets_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from the file\n")
    names = ("A2A_BRIDGE_STORE", "A2A_BRIDGE_STORE_KEY", "A2A_BRIDGE_KEY", "A2A_BRIDGE_HEADER_AUTHORIZATION")
    for name in names:
        monkeypatch.setenv(name, "")  # so that it is taken back
        monkeypatch.delenv(name)
        monkeypatch.setenv(f"{name}_FILE", str(secret))
    monkeypatch.setenv("A2A_BRIDGE_USAGE_FILE", str(tmp_path / "is a flag of its own"))
    read_variables(COMMANDS, "serve")
    assert {os.environ[name] for name in names} == {"from the file"}
    assert parameters(None) == {"authorization": "from the file"}
    monkeypatch.setenv("A2A_BRIDGE_STORE_FILE", str(secret))
    with pytest.raises(typer.BadParameter, match="set as well"):
        read_variables(COMMANDS, "serve")
    monkeypatch.delenv("A2A_BRIDGE_STORE")
    monkeypatch.setenv("A2A_BRIDGE_STORE_FILE", "")
    with pytest.raises(typer.BadParameter, match="is empty: it names a file"):
        read_variables(COMMANDS, "serve")
    (tmp_path / "blank").write_text("\n")
    monkeypatch.setenv("A2A_BRIDGE_STORE_FILE", str(tmp_path / "blank"))
    with pytest.raises(typer.BadParameter, match="blank has no content"):
        read_variables(COMMANDS, "serve")
    with pytest.raises(typer.BadParameter, match="blank has no content"):
        parameters([f"X-Key: @{tmp_path / 'blank'}"])
    secret.write_bytes(BOM_UTF8 + b"key")
    assert parameters([f"X-Key: @{secret}"])["x-key"] == "key"
    monkeypatch.setenv("A2A_BRIDGE_STORE_FILE", str(tmp_path / "none"))
    assert RUNNER.invoke(app, ["serve", "x.py"]).exit_code == 2


# --- `--help` is short, `--help-all` is complete, and unknown variables are errors ---
def shown(*arguments: str) -> str:
    done = RUNNER.invoke(app, [*arguments], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("name", ["serve", "gateway"])
def test_the_help_of_a_server_fits_on_a_screen(name: str) -> None:
    text = shown(name, "--help")
    assert len(text.splitlines()) <= 60
    assert "A2A_BRIDGE_" not in text
    for shown_flag in (
        "--http",
        "--grpc",
        "--public-url",
        "--store",
        "--config",
        "--log-level",
        "--help-all",
    ):
        assert f"  {shown_flag} " in text
    assert "--drain-window" not in text
    assert [line for line in text.splitlines() if line in ("Listen:", "Card:", "Store:", "Limits:")]


@pytest.mark.parametrize("name", ["serve", "gateway", "send", "compare", "usage"])
def test_all_help_has_every_flag_and_variable(name: str) -> None:
    text = " ".join(shown(name, "--help-all").split())
    for option in COMMANDS[name].params:
        if option.param_type_name == "option":
            assert any(f"{name} " in text for name in option.opts)
            assert option.envvar is None or option.envvar in text
            for word in option.help.split():
                assert word in text


def test_an_error_of_peers_is_json_with_either_flag() -> None:
    for words in (("--json",), ("-o", "json")):
        done = RUNNER.invoke(app, ["peers", "nobody", *words])
        assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (2, "A2ACLI_ERR_USAGE")


@pytest.mark.parametrize("name", ["usage", "peers"])
def test_other_commands_show_all_flags_without_variables(name: str) -> None:
    text = shown(name, "--help")
    assert "A2A_BRIDGE_" not in text
    for option in COMMANDS[name].params:
        if option.param_type_name == "option":
            assert max(option.opts, key=len) in text


def test_an_unknown_variable_is_an_error() -> None:
    done = RUNNER.invoke(app, ["peers"], env={"A2A_BRIDGE_STROE": "memory://"})
    assert done.exit_code == 2
    assert "A2A_BRIDGE_STROE: no command has this variable; did you mean A2A_BRIDGE_STORE?" in done.stderr
    assert done.stdout == ""
    for unknown in ("A2A_BRIDGE_HTTP_FILE", "A2A_BRIDGE_", "A2A_BRIDGE_PORTS", "A2A_BRIDGE_HEADERS"):
        assert RUNNER.invoke(app, ["peers"], env={unknown: "x"}).exit_code == 2


def test_an_unknown_variable_is_an_error_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["a2a-bridge", "peers", "-o", "json"])
    done = RUNNER.invoke(app, ["peers", "-o", "json"], env={"A2A_BRIDGE_STROE": "memory://"})
    assert done.exit_code == 2
    assert "did you mean A2A_BRIDGE_STORE?" in json.loads(done.stdout)["error"]["message"]


def test_variables_of_other_commands_and_of_services_are_none() -> None:
    variables = {
        "A2A_BRIDGE_HTTP": ":0",
        "A2A_BRIDGE_STORE": "memory://",
        "A2A_BRIDGE_CACERT": "ca.pem",
        "A2A_BRIDGE_HEADER_X_TEAM": "blue",
        "A2A_BRIDGE_SERVICE_HOST": "10.0.0.1",
        "A2A_BRIDGE_SERVICE_PORT": "8080",
        "A2A_BRIDGE_SERVICE_PORT_HTTP": "8080",
        "A2A_BRIDGE_PORT": "tcp://10.0.0.1:8080",
        "A2A_BRIDGE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "A2A_BRIDGE_PORT_8080_TCP_ADDR": "10.0.0.1",
        "A2A_BRIDGE_ADMIN_PORT_9090_TCP_PROTO": "tcp",
    }
    assert RUNNER.invoke(app, ["peers"], env=variables).exit_code == 0
