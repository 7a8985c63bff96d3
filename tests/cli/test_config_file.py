"""Configuration files: lines of keys, and what is wrong with a file."""

import json
import tomllib
from codecs import BOM_UTF8
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from typer.main import get_command
from typer.testing import CliRunner

from a2a_bridge.cli import app
from a2a_bridge.cli.config_file import ConfigError, ConfigFile, suggestion
from a2a_bridge.cli.connect import card_file
from a2a_bridge.cli.flags import AgentFlags, DialFlags
from a2a_bridge.cli.server_flags import (
    OPERATIONS,
    AgentSettings,
    GatewayFlags,
    GrpcUrlForm,
    LogLevel,
    ServeFlags,
)
from a2a_bridge.cli.settings import effective, model_of, schema
from a2a_bridge.core import operations as ops
from a2a_bridge.core.options import options_of
from a2a_bridge.testing.each import each

TEXT = '''# a comment
http = ":0"
"max-calls" = 5
card = """
max_streams = 1
"""
max_streams = 2

[agents.weather]
upstream = ":1"
  grpc-tls = true
[agents."traffic"] # with a comment
upstream = ":2"
[[rules]]
operations = ["read"]
[[rules]]
scopes = [
  "a",
]
'''


def written(folder: Path, text: str) -> Path:
    path = folder / "bridge.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("http",), 2),
        (("max_calls",), 3),
        (("max_streams",), 7),
        (("agents",), 9),
        (("agents", "weather"), 9),
        (("agents", "weather", "grpc_tls"), 11),
        (("agents", "weather", "no_such_key"), 9),
        (("agents", "traffic", "upstream"), 13),
        (("rules", 0, "operations"), 15),
        (("rules", 1, "scopes", 0), 17),
        (("other",), 0),
    ],
)
def test_the_line_of_a_key(place: tuple[str | int, ...], line: int, tmp_path: Path) -> None:
    assert ConfigFile.read(written(tmp_path, TEXT)).line_of(place) == line


def problems(group: type, text: str, folder: Path) -> list[str]:
    """What is wrong with a file, each with its line."""
    with pytest.raises(ConfigError) as caught:
        effective(group, ConfigFile.read(written(folder, text)), {})
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{folder}/bridge.toml:") for line in lines)
    return [line.removeprefix(f"{folder}/bridge.toml:") for line in lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('stroe = ":1"', "1: unknown key stroe; did you mean store?"),
        ("zzzzzz = 1", "1: unknown key zzzzzz"),
        ("\nmax_calls = '5'", "2: max_calls has to be a valid integer"),
        ("max_calls = true", "1: max_calls has to be a valid integer"),
        ("max-calls = -1", "1: max_calls has to be greater than or equal to 0"),
        ("linger = 1e300", "1: linger has to be less than or equal to 1000000000"),
        ("linger = nan", "1: linger has to be less than or equal to 1000000000"),
        ("linger = '1y'", "1: linger '1y' is no time such as 5s, 500ms or 2m"),
        ("linger = '300000h'", "1: linger has to be less than or equal to 1000000000"),
        ("no_http = 1", "1: no_http has to be a valid boolean"),
        ('grpc_tls = "yes"', "1: grpc_tls has to be a valid boolean"),
        ('log_level = "loud"', "1: log_level has to be 'error', 'warning', 'info' or 'debug'"),
        ("http = 8080", '1: http has to be a text: "…"'),
        ('header = "X: a"', "1: header has to be a valid list"),
        ("max_calls = 1\nmax-calls = 2", "1: max_calls stands there twice, with _ and with -"),
        ("config = 'x'", "1: unknown key config; did you mean log_config?"),
        ("print_envoy_config = true", "1: unknown key print_envoy_config"),
        ("[agents.a]\npeer = 'x'", "1: upstream of [agents.a] is missing"),
        ("[agents.a]\nupstream = ':1'\nperr = 'x'", "3: unknown key perr of [agents.a]; did you mean peer?"),
        (
            "[agents.a]\nupstream = ':1'\nmax_calls = 'x'",
            "3: max_calls of [agents.a] has to be a valid integer",
        ),
        (
            "[agents.A_b]\nupstream = ':1'",
            "1: A_b of [agents]: a name has 1 to 63 of a-z, 0-9 and -, and does not begin with -",
        ),
        (
            "[[rules]]\noperations = ['read']\n[[rules]]\nscopes = 'x'",
            "4: scopes of [rules.1] has to be a valid tuple",
        ),
        (
            "a = 1\n[[rules]]",
            '2: rules: entry 1 says nothing, and would allow everything; principals = ["*"] says that',
        ),
        (
            "[[rules]]\noperations = []",
            '1: rules: entry 1 says nothing, and would allow everything; principals = ["*"] says that',
        ),
        (
            "max_calls = 1\n[[rules]]\noperations = ['read', 'SendMesage']",
            f"3: [[rules]] 1: operations: 'SendMesage' is none of {', '.join(sorted(OPERATIONS))}",
        ),
        (
            "[[rules]]\nagents = ['blue']\n[agents.red]\nupstream = ':1'",
            "2: [[rules]] 1: agents: none of the agents here: red",
        ),
        ("MAX_CALLS = 5", "1: unknown key MAX_CALLS; did you mean max_calls?"),
        ("Store_Key = 'hunter2'", "1: unknown key Store_Key; did you mean store_key?"),
        ("a = 1\na = 2", "2: is not TOML: Cannot overwrite a value"),
        ("a = ", "1: is not TOML: Invalid value"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, expected: str, tmp_path: Path) -> None:
    assert expected in problems(GatewayFlags, text, tmp_path)


def test_the_mark_of_a_byte_order_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_bytes(BOM_UTF8 + b"max_calls = 5")
    assert effective(GatewayFlags, ConfigFile.read(path), {}).values["max_calls"] == 5
    path = tmp_path / "card.json"
    url = {"url": "http://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    path.write_bytes(BOM_UTF8 + json.dumps({"name": "a", "supportedInterfaces": [url]}).encode())
    assert card_file(path).name == "a"


def test_rules_of_files_know_the_operations() -> None:
    assert {one.name for one in ops.ALL} | ops.GROUPS.keys() == OPERATIONS


def test_every_problem_is_told_in_the_order_of_lines(tmp_path: Path) -> None:
    text = "max_calls = 'x'\nstroe = ':1'\n[agents.a]\nagent = 5\nbridge_key = 'x'\n"
    assert [line.partition(":")[0] for line in problems(ServeFlags, text, tmp_path)] == ["1", "2", "4", "5"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('store_key = "hunter2"', 1),
        ('bridge-key = "hunter2"', 1),
        ('store = "postgresql://bridge:hunter2@db/bridge"', 1),
        ('store = "postgresql://db/bridge?password=hunter2"', 1),
        ('header = ["Authorization: Bearer hunter2"]', 1),
        ('header = ["hunter2"]', 1),
        ('[agents.a]\nupstream = ":1"\nheader = ["X-Api-Key: hunter2"]', 3),
    ],
)
def test_a_secret_in_a_file_is_an_error_that_does_not_repeat_it(
    text: str, where: int, tmp_path: Path
) -> None:
    (problem,) = problems(GatewayFlags, text, tmp_path)
    assert problem.startswith(f"{where}: ")
    assert "is a secret: write" in problem
    assert "@FILE" in problem
    assert "hunter2" not in problem


def test_a_wrong_value_is_not_repeated(tmp_path: Path) -> None:
    for text in ("store_key = ['hunter2']", "[agents.a]\nupstream = ['hunter2']", "max_calls = 'hunter2'"):
        assert "hunter2" not in "".join(problems(GatewayFlags, text, tmp_path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        ConfigFile.read(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 \(byte 2\)"):
        ConfigFile.read(tmp_path / "latin.toml")
    path = written(tmp_path, f'store = "@{tmp_path}/none"')
    with pytest.raises(ConfigError, match=r"1: store: .*none cannot be read"):
        effective(GatewayFlags, ConfigFile.read(path), {})


@each(
    "text, reason",
    [
        ("max_calls = " + "9" * 5000, "has a number or a date that is out of range"),
        ("exec = " + "[" * 5000, "has too many brackets inside of each other"),
    ],
)
def test_toml_that_python_cannot_read(text: str, reason: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bridge.toml"
        path.write_text(text)
        with pytest.raises(ConfigError, match=reason):
            ConfigFile.read(path)


def test_suggestions() -> None:
    assert suggestion("stroe", ["store", "http"]) == "; did you mean store?"
    assert suggestion("zzz", ["store", "http"]) == ""


# --- Options from flags, variables and files together; `--print-config`; `a2a-bridge config` ---

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
