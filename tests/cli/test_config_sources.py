"""Options from flags, variables and files together; `--print-config`; `a2a-bridge config`."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from typer.main import get_command
from typer.testing import CliRunner

from a2a_bridge.cli import app
from a2a_bridge.cli.config_file import ConfigFile
from a2a_bridge.cli.flags import AgentFlags, DialFlags
from a2a_bridge.cli.server_flags import AgentSettings, GatewayFlags, GrpcUrlForm, LogLevel, ServeFlags
from a2a_bridge.cli.settings import effective, model_of, schema
from a2a_bridge.core.options import options_of

RUNNER = CliRunner()
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]

FULL = """
http = "127.0.0.1:0"
versions = ["1.0", "0.3"]
max-calls = 5
drain_window = 1
log_level = "debug"
grpc_urls = "http"
cacert = "ca.pem"
grpc_tls = false
header = ["X-Team: blue", "Authorization: @token"]
store_key = "@keys"
push_allow = ["10.0.0.0/8"]

[agents.weather]
upstream = "http://weather.example"
peer = "a2a-go-0.3"
silence-timeout = "5s"
max_streams = 7
header = ["Authorization: @weather"]

[agents.traffic]
upstream = "traffic.example:50051"
grpc_tls = true
host = "traffic.example"

[[rules]]
operations = ["read"]
scopes = ["a"]

[[rules]]
principals = ["admin*"]
agents = ["weather"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bridge.toml"
    path.write_text(FULL)
    return path


def read(path: Path, group: type = GatewayFlags, **given: Any) -> Any:
    return group(**effective(group, ConfigFile.read(path), given).values)


def test_a_file(file: Path) -> None:
    flags: GatewayFlags = read(file)
    assert (flags.http, flags.max_calls, flags.drain_window) == ("127.0.0.1:0", 5, 1.0)
    assert (flags.log_level, flags.grpc_urls) == (LogLevel.DEBUG, GrpcUrlForm.HTTP)
    assert (flags.versions, flags.cacert, flags.grpc_tls) == ("1.0,0.3", Path("ca.pem"), False)
    assert flags.header == ["X-Team: blue", "Authorization: @token"]
    assert flags.linger == GatewayFlags().linger
    weather, traffic = flags.agents["weather"], flags.agents["traffic"]
    assert isinstance(weather, AgentSettings)
    assert (weather.upstream, weather.peer, weather.silence_timeout) == (
        "http://weather.example",
        "a2a-go-0.3",
        5.0,
    )
    assert weather.given == {"upstream", "peer", "silence_timeout", "max_streams", "header"}
    assert (weather.max_calls, weather.max_streams, traffic.max_streams) == (None, 7, None)
    assert (traffic.grpc_tls, traffic.host) == (True, "traffic.example")
    first, second = flags.rules
    assert (first.operations, first.scopes, first.principals) == (("read",), ("a",), ())
    assert (second.principals, second.agents) == (("admin*",), ("weather",))


def test_an_agent_has_the_options_of_connections() -> None:
    known = options_of(AgentSettings)
    for group in (DialFlags, AgentFlags):
        for name, one in options_of(group).items():
            assert known[name].described == one.described
    for name in ("card", "binding", "silence_timeout", "forward"):
        assert known[name].described == options_of(GatewayFlags)[name].described


@pytest.mark.parametrize("group", [ServeFlags, GatewayFlags])
def test_the_model_has_the_declared_options_and_defaults(group: type) -> None:
    model = model_of(group)
    assert issubclass(model, BaseSettings)
    declared = {name: one for name, one in options_of(group).items() if one.described.in_file}
    assert model.model_fields.keys() == declared.keys()
    made: Any = model()
    assert {name: getattr(made, name) for name in declared} == {
        name: getattr(group(), name) for name in declared
    }
    with pytest.raises(ValidationError, match="frozen"):
        made.max_calls = 5
    with pytest.raises(ValidationError, match="Extra inputs"):
        model(no_such_option=1)


def test_given_values_outweigh_the_file(file: Path) -> None:
    assert read(file, max_calls=9, log_level=LogLevel.ERROR).max_calls == 9
    settings = effective(GatewayFlags, ConfigFile.read(file), {"max_calls": 9})
    assert "max_calls" not in settings.in_file
    assert "http" in settings.in_file


def said(*arguments: str, **variables: str) -> str:
    done = RUNNER.invoke(app, [*arguments], env=variables)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_where_values_come_from(file: Path) -> None:
    shown = said("config", "show", "--origin", "--config", str(file), A2A_BRIDGE_MAX_CALLS="6").splitlines()
    assert "max_calls = 6  # environment A2A_BRIDGE_MAX_CALLS" in shown
    assert f'http = "127.0.0.1:0"  # {file}:2' in shown
    assert "linger = 30.0  # default" in shown
    rows = json.loads(
        said("config", "show", "gateway", "-o", "json", "--origin", A2A_BRIDGE_CONFIG=str(file))
    )
    assert rows["max_calls"] == {"value": 5, "origin": f"{file}:4"}
    assert rows["agents"]["value"]["traffic"]["host"] == "traffic.example"
    assert rows.keys() == {name for name, one in options_of(GatewayFlags).items() if one.described.in_file}
    assert json.loads(said("config", "show", "serve", "-o", "json"))["keep_events"] == 1.0


def test_a_file_is_shown_for_the_command_that_its_agents_are_for(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('[agents.weather]\nagent = "weather.py"\n')
    rows = json.loads(said("config", "show", "--config", str(file), "-o", "json"))
    assert (rows["agents"], rows["keep_events"]) == ({"weather": {"agent": "weather.py"}}, 1.0)


def test_flags_outweigh_variables_which_outweigh_the_file(file: Path) -> None:
    def most(*arguments: str, **variables: str) -> int:
        shown = said("gateway", "--config", str(file), "--print-config", *arguments, **variables)
        found: int = tomllib.loads(shown)["max_calls"]
        return found

    assert (most(), most(A2A_BRIDGE_MAX_CALLS="6")) == (5, 6)
    assert most("--max-calls", "7", A2A_BRIDGE_MAX_CALLS="6") == 7


@pytest.mark.parametrize(
    ("command", "group", "arguments"),
    [
        ("gateway", GatewayFlags, ["--config", "bridge.toml"]),
        ("gateway", GatewayFlags, []),
        (
            "gateway",
            GatewayFlags,
            [
                "--http",
                ":0",
                "--exact",
                "--grpc-plaintext",
                "-H",
                'X: "\\ä\t',
                "-H",
                "Y: 1",
                "--linger",
                "1e-3",
            ],
        ),
        (
            "serve",
            ServeFlags,
            ["--no-push", "--store", "postgresql://me@db/x", "--usage-file", "a b", "--loop", "asyncio"],
        ),
        ("serve", ServeFlags, ["--workers", "3", "--card-versions", "1.0,0.3", "--push-allow", "10.0.0.0/8"]),
    ],
)
def test_a_printed_configuration_has_the_same_effect(
    command: str, group: type, arguments: list[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    printed = said(command, *arguments, "--print-config")
    copy = file.parent / "copy.toml"
    copy.write_text(printed)
    context = COMMANDS[command].make_context(command, list(arguments))
    expected = {name: context.params[name] for name, one in options_of(group).items() if one.flags}
    if "--config" in arguments:
        expected = vars(read(file, group))
    found = read(copy, group)
    for name, one in options_of(group).items():
        if one.described.in_file and name in expected:
            assert getattr(found, name) == expected[name], name
    assert said(command, "--config", "copy.toml", "--print-config") == printed


def test_secrets_are_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["-H", "Authorization: Bearer hunter2", "-H", "X-Auth-Token: hunter2"]
    variables = {
        "A2A_BRIDGE_STORE": "postgresql://bridge:hunter2@db.example/x?sslpassword=hunter2",
        "A2A_BRIDGE_KEY": "hunter2-hunter2-hunter2",
        "A2A_BRIDGE_STORE_KEY": "hunter2",
    }
    printed = said("gateway", *arguments, "--print-config", **variables)
    printed += said("config", "show", "--origin", **variables)
    printed += said("config", "show", "-o", "json", **variables)
    assert "hunter2" not in printed
    assert "postgresql://bridge:***@db.example/x" in printed
    assert '# bridge_key = "***"  # a secret: A2A_BRIDGE_KEY, or "@FILE" here' in printed


def test_a_store_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "url").write_text("postgresql://bridge:hunter2@db/x\n")
    (tmp_path / "bridge.toml").write_text('store = "@url"')
    assert read(tmp_path / "bridge.toml", ServeFlags).store == "postgresql://bridge:hunter2@db/x"
    printed = said("serve", "--config", "bridge.toml", "--print-config")
    assert 'store = "@url"' in printed.splitlines()
    assert "hunter2" not in printed


def test_a_configuration_is_checked(file: Path, tmp_path: Path) -> None:
    assert said("config", "check", "--no-files", str(file)) == f"{file}: valid for gateway\n"
    served = tmp_path / "served.toml"
    served.write_text('bridge_key = "@secret"\n[agents.a]\nagent = "weather.py"')
    shown = json.loads(said("config", "check", str(served), "--no-files", "-o", "json"))
    assert shown == {"file": str(served), "command": "serve", "valid": True}
    done = RUNNER.invoke(app, ["config", "check", str(served), "--command", "gateway", "-o", "json"])
    assert done.exit_code == 2
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "A2ACLI_ERR_USAGE"
    assert [one["line"] for one in error["data"]] == [1, 2, 3]
    done = RUNNER.invoke(app, ["config", "check", str(tmp_path / "none.toml")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "none.toml: cannot be read" in done.stderr


def test_texts_that_the_command_reads_at_its_start_are_checked(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("""http = "127.0.0.1:99999"
grpc = "nohost"
[agents.a]
upstream = "http://a,b:80"
binding = "nonsense"
a2a_version = "9"
[agents.b]
upstream = "dns://127.0.0.1/agent:80"
peer = "nobody"
[agents.c]
upstream = "http://127.0.0.1:9"
binding = "grpc"
""")
    for words in ((), ("--no-files",)):
        done = RUNNER.invoke(app, ["config", "check", str(wrong), *words, "-o", "json"])
        error = json.loads(done.stdout)["error"]
        assert [one["line"] for one in error["data"]] == [1, 2, 4, 5, 6, 8, 9]


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_the_schema_has_every_key(command: str) -> None:
    found = json.loads(said("config", "schema", command))
    group = {"serve": ServeFlags, "gateway": GatewayFlags}[command]
    keys = {name for name, one in options_of(group).items() if one.described.in_file}
    assert found["properties"].keys() == keys
    assert found["additionalProperties"] is False
    for name in keys:
        assert found["properties"][name]["description"] == options_of(group)[name].described.help
    assert (found, found["properties"]["max_calls"]["minimum"]) == (schema(group), 0)
    agents = found["$defs"][{"serve": "ServedAgent", "gateway": "AgentSettings"}[command]]
    assert agents.get("required") == {"serve": None, "gateway": ["upstream"]}[command]


@pytest.mark.parametrize(
    ("arguments", "text", "reason"),
    [
        (["gateway"], "", "missing"),
        (["serve"], "", "missing"),
        (["gateway", ":1"], '[agents.a]\nupstream = ":1"', "has agents already"),
        (["gateway", ":1"], '[[rules]]\nagents = ["a"]', "[[rules]] 1: agents: none of the agents here"),
        (
            ["gateway"],
            '[agents.red]\nupstream = ":1"\n[[rules]]\nagents = ["blue"]',
            "[[rules]] 1: agents: none of the agents here",
        ),
        (["gateway", ":1"], '[[rules]]\noperations = ["fly"]', "[[rules]] 1: operations: 'fly' is none of"),
        (["gateway", ":1"], 'listen = ":0"', "needs --server envoy"),
        (
            ["gateway", ":1"],
            'store = "sqlite:///x.db"',
            "needs --push-relay, or callers that are checked here",
        ),
        (["gateway", ":1"], "max_calls = 'x'", "bridge.toml:1: max_calls has to be a valid integer"),
    ],
)
def test_files_that_do_not_fit_the_command(
    arguments: list[str], text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A2A_BRIDGE_STORE", raising=False)
    path = tmp_path / "bridge.toml"
    path.write_text(text)
    done = RUNNER.invoke(app, [*arguments, "--config", str(path)])
    assert done.exit_code == 2
    assert reason in done.stderr
    assert done.stdout == ""
