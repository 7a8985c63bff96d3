"""On-call, first part: commands that end at once, with the mistake and its fix on stderr, as text."""

import shlex
from collections.abc import Iterator

import pytest

from tests.cli.commands import command
from tests.oncall.rows import Mistake, check_fix, check_parts, places

SERVE, GATEWAY = "serve {agent} {any} ", "gateway http://{nobody} {any} "
TLS = "--ssl-certfile {folder}/server.pem "
JWT = "--jwt-issuer https://idp.example --jwt-audience me "

ROWS = [
    # ---------------------------------------------------------------- flags, keys and variables
    Mistake("a command that does not exist", "gatway x", ("No such command 'gatway'",), "Did you mean 'gateway'?"),
    Mistake("a flag that does not exist", SERVE + "--htpp x", ("No such option: --htpp",), "--http"),
    Mistake("a word that is none of the choices", SERVE + "--log-level loud", ("'loud' is not one of",), "--log-level"),
    Mistake("a number below the least one", SERVE + "--workers 0", ("greater than or equal to 1",), "--workers"),
    Mistake("a variable that does not exist", SERVE, ("A2A_BRIDGE_MAX_CALS: no command has this variable",), "did you mean A2A_BRIDGE_MAX_CALLS?", env={"A2A_BRIDGE_MAX_CALS": "3"}),
    Mistake("a variable of the wrong type", SERVE, ("should be a valid integer",), "A2A_BRIDGE_MAX_CALLS", env={"A2A_BRIDGE_MAX_CALLS": "x"}),
    Mistake("a variable twice", SERVE, ("A2A_BRIDGE_STORE is set as well",), "A2A_BRIDGE_STORE_FILE", env={"A2A_BRIDGE_STORE": "memory://", "A2A_BRIDGE_STORE_FILE": "x"}),
    Mistake("a file of a variable that is missing", SERVE, ("absent cannot be read: No such file",), "A2A_BRIDGE_KEY_FILE", env={"A2A_BRIDGE_KEY_FILE": "absent"}),
    Mistake("a key that does not exist", SERVE + "--config {folder}/key.toml", ("key.toml:1: unknown key max_cals",), "did you mean max_calls?"),
    Mistake("a key of the wrong type", SERVE + "--config {folder}/type.toml", ("type.toml:1: max_calls has to be a valid integer",), "--config"),
    Mistake("a file that is not TOML", SERVE + "--config {folder}/syntax.toml", ("syntax.toml:1: is not TOML",), "--config"),
    Mistake("a file that is missing", SERVE + "--config {folder}/absent.toml", ("absent.toml: cannot be read: No such file",), "--config"),
    Mistake("a folder for a file", SERVE + "--config {folder}/directory", ("cannot be read: Is a directory",), "--config"),
    Mistake("a secret in the file", "gateway --config {folder}/secret.toml", ("header is a secret: write",), "--config"),
    Mistake("a file that is checked", "config check {folder}/key.toml", ("key.toml:1: unknown key max_cals",), "did you mean max_calls?"),
    Mistake("an operation in a rule that does not exist", SERVE + "--config {folder}/rules.toml", ("SendMesage",), "--config"),
    Mistake("nothing to serve", SERVE + "--no-http --no-grpc", ("nothing to serve",), "--no-grpc"),
    Mistake("a flag of another server", SERVE + "--listen :9", ("needs",), "--server envoy"),
    Mistake("a version that does not exist", SERVE + "--versions 9.9", ("'9.9' is not one of 1.0, 0.3",), "--versions"),
    Mistake("a binding that does not exist", SERVE + "--advertise QUEUE", ("'QUEUE' is not all of JSONRPC",), "--advertise"),
    Mistake("a configuration of logging that is none", SERVE + "--log-config {folder}/log.toml", ("is no configuration of logging",), "--log-config"),
    Mistake("middleware that is missing", SERVE + "--middleware absent:it", ("there is no module absent",), "--middleware"),
    # ---------------------------------------------------------------- the agent
    Mistake("no agent", "serve {any}", ("missing; give AGENT",), "--config FILE"),
    Mistake("a file without an agent", "serve {folder}/empty.py {any}", ("there is no agent in",), "decorate a function with @a2a_bridge.agent"),
    Mistake("a file that raises", "serve {folder}/broken.py {any}", ('broken.py", line 1', "ZeroDivisionError"), "at the line shown above", traceback=True),
    Mistake("several agents in a file", "serve {folder}/agents.py {any}", ("several agents", "choose one"), "agents.py:echo"),
    Mistake("an agent that is not in the file", "serve {agent}s {any}", ("has no echos",), "agents there: echo, other"),
    Mistake("code for a gateway", "gateway {agent} {any}", ("is Python code, not a running agent",), "a2a-bridge serve"),
    Mistake("a URL for serve", "serve http://{nobody} {any}", ("serve needs Python code",), "a2a-bridge gateway http://"),
    Mistake("a card that asks and is not checked", "serve {folder}/agents.py:asking {any}", ("asks for credentials (token), and nothing here checks them",), "--api-keys FILE"),
    # ---------------------------------------------------------------- addresses
    Mistake("a port of HTTP that is taken", "serve {agent} --http {taken} --grpc 127.0.0.1:0", ("cannot listen", "in use"), "--http"),
    Mistake("a port of gRPC that is taken", "serve {agent} --grpc {taken} --http 127.0.0.1:0", ("cannot listen", "in use"), "--grpc"),
    Mistake("the port of the admin listener is taken", SERVE + "--admin {taken}", ("cannot listen", "in use"), "--admin"),
    Mistake("an address of another machine", "serve {agent} --http {elsewhere} --grpc 127.0.0.1:0 --allow-unauthenticated", ("cannot listen", "an address of this machine"), "--http"),
    Mistake("an address that is none", SERVE + "--admin 127.0.0.1:99999", ("is above 65535",), "--admin"),
    Mistake("a public gRPC address with a path", SERVE + "--public-grpc https://agent.example/grpc", ("has a path, and gRPC has none: name agent.example",), "--public-grpc"),
    Mistake("a public URL without a scheme", SERVE + "--public-url agent.example", ("is not an http(s) URL such as https://agent.example",), "--public-url"),
    # ---------------------------------------------------------------- TLS and keys
    Mistake("a certificate that is missing", SERVE + "--ssl-certfile {folder}/absent.pem", ("absent.pem cannot be read: No such file",), "--ssl-certfile"),
    Mistake("a certificate that is not PEM", SERVE + "--ssl-certfile {folder}/junk.pem", ("junk.pem holds no certificate as PEM",), "--ssl-certfile"),
    Mistake("a certificate without its key", SERVE + TLS, ("holds no private key as PEM",), "--ssl-keyfile names its file"),
    Mistake("the key of another certificate", SERVE + TLS + "--ssl-keyfile {folder}/other.key", ("is not the key of the certificate in",), "--ssl-keyfile"),
    Mistake("authorities that are none", SERVE + TLS + "--ssl-keyfile {folder}/server.key --ssl-ca-certs {folder}/junk.pem", ("junk.pem holds no certificate as PEM",), "--ssl-ca-certs"),
    Mistake("authorities without a certificate", SERVE + "--ssl-ca-certs {folder}/server.pem", ("needs --ssl-certfile",), "--ssl-certfile"),
    Mistake("a key for cards that is none", SERVE + "--card-signing-key {folder}/junk.pem", ("has to be a private EC or Ed25519 key",), "--card-signing-key"),
    Mistake("a shared key that is too short", SERVE + "--bridge-key @{folder}/short.key", ("has at least 16 bytes",), "--bridge-key"),
    Mistake("keys of the store that are missing", SERVE + "--store-key @{folder}/absent", ("absent cannot be read",), "--store-key"),
    # ---------------------------------------------------------------- who may call
    Mistake("no file of keys", SERVE + "--api-keys {folder}/absent.json", ("there is no file",), "a2a-bridge keys create --file"),
    Mistake("a file of keys that is broken", SERVE + "--api-keys {folder}/keys_junk.json", ("it is not JSON",), "--api-keys"),
    Mistake("a file of keys that is another one", SERVE + "--api-keys {folder}/keys_other.json", ("is no file of API keys of format 1",), "--api-keys"),
    Mistake("keys that are listed are missing", "keys list --file {folder}/absent.json", ("there is no file",), "a2a-bridge keys create --file"),
    Mistake("tokens for everybody", SERVE + "--jwt-issuer https://idp.example", ("tokens that were made for other services would be accepted",), "--jwt-audience"),
    Mistake("an issuer that is no URL", SERVE + "--jwt-issuer idp --jwt-audience me", ("'idp' is no http(s) URL",), "--jwt-issuer"),
    Mistake("an algorithm with a shared secret", SERVE + JWT + "--jwt-algorithms HS256", ("HS256: allowed are RS256",), "--jwt-algorithms"),
    Mistake("a key set that is missing", SERVE + JWT + "--jwt-jwks {folder}/absent.json", ("absent.json cannot be read: No such file",), "--jwt-jwks"),
    Mistake("a key set that is none", SERVE + JWT + "--jwt-jwks {folder}/list.json", ("list.json has no keys: it is no JSON object",), "--jwt-jwks"),
    Mistake("a key set without public keys", SERVE + JWT + "--jwt-jwks {folder}/jwks_private.json", ("it has no key that verifies signatures",), "--jwt-jwks"),
    Mistake("a header of any caller", SERVE + "--proxy-user-header X-User", ("otherwise every caller could name itself",), "--forwarded-allow-ips"),
    # ---------------------------------------------------------------- the store
    Mistake("a store that is no database", SERVE + "--store sqlite:///{folder}/junk.db", ("file is not a database",), "--store sqlite:///ANOTHER"),
    Mistake("a store of another program", SERVE + "--store sqlite:///{folder}/foreign.db", ("holds tables of something else",), "--store"),
    Mistake("a store in a folder that is missing", SERVE + "--store sqlite:///{folder}/absent/tasks.db", ("there is no folder",), "mkdir -p "),
    Mistake("a folder for a store", SERVE + "--store sqlite:///{folder}/directory", ("cannot be written: Is a directory",), "--store sqlite:///ANOTHER"),
    Mistake("a store of a kind that does not exist", SERVE + "--store mysql://db/tasks", ("there is no store mysql://",), "--store sqlite:///PATH or postgresql://"),
    Mistake("a database that does not answer", SERVE + "--store postgresql://{nobody}/tasks", ("cannot be used", "Connection refused"), "a2a-bridge db check postgresql://", code=3),
    Mistake("a store to check that is missing", "db check sqlite:///{folder}/absent.db", ("there is no file",), "a2a-bridge db upgrade sqlite:///"),
    Mistake("dead letters of no store", "push list --store sqlite:///{folder}/absent.db", ("there is no file",), "--store sqlite:///PATH"),
    Mistake("a store of a gateway without notifications", GATEWAY + "--store sqlite:///{folder}/x.db", ("needs --push-relay",), "--push-relay"),
    # ---------------------------------------------------------------- the agent behind a gateway
    Mistake("nobody listens at the agent's address", GATEWAY, ("no connection to the agent", "Connection refused"), "--card FILE", code=3),
    Mistake("the agent's host does not exist", "gateway http://agent.invalid {any}", ("no connection to the agent", "agent.invalid"), "--card FILE", code=3),
    Mistake("a card that is no card", "gateway {folder}/list.json {any}", ("is not an agent card",), "a2a-bridge card", code=1),
    Mistake("a card in place of the agent's that is missing", "gateway http://agent.invalid {any} --card {folder}/absent.json", ("absent.json cannot be read: No such file",), "--card"),
    Mistake("an authority that is missing", GATEWAY + "--cacert {folder}/absent.pem", ("absent.pem cannot be read: No such file",), "--cacert"),
    Mistake("an authority that is none", GATEWAY + "--cacert {folder}/junk.pem", ("junk.pem cannot be used",), "--cacert"),
    Mistake("a client certificate without its key", GATEWAY + "--cert {folder}/server.pem", ("server.pem cannot be used",), "--cert-key"),
    Mistake("a header without a name", GATEWAY + "-H nothing", ("a header is 'NAME: VALUE' or 'NAME: @FILE'",), "--header"),
    Mistake("a header whose file is missing", GATEWAY + "-H 'X-Key: @{folder}/absent'", ("absent cannot be read",), "--header"),
    Mistake("a peer profile that does not exist", GATEWAY + "--peer nobody", ("there is no peer profile 'nobody'; known",), "--peer"),
    Mistake("a token endpoint that is missing", GATEWAY + "--upstream-auth client-credentials", ("needs one of",), "--upstream-token-url"),
    Mistake("a client without a kind of credentials", GATEWAY + "--upstream-client-id x", ("needs",), "--upstream-auth client-credentials"),
    Mistake("signatures without keys", GATEWAY + "--require-signed-card", ("needs",), "--card-keys FILE|URL"),
    Mistake("an endpoint that is none", GATEWAY + "--endpoint nothing", ("is neither an http(s) URL nor the host:port",), "--endpoint"),
    Mistake("a relay that is no URL", GATEWAY + "--push-relay gateway", ("is not an http(s) URL",), "--push-relay"),
    # ---------------------------------------------------------------- many agents
    Mistake("an agent without its address", "gateway --config {folder}/typo.toml {any}", ("upstream of [agents.red] is missing", "unknown key upstraem of [agents.red]"), "did you mean upstream?"),
    Mistake("a name that is none", "gateway --config {folder}/name.toml {any}", ("a name has 1 to 63 of a-z, 0-9 and -",), "--config"),
    Mistake("two agents with one host name", "gateway --config {folder}/hosts.toml {any}", ("hosts.toml:6: host of [agents.blue] is that of [agents.red], too",), "[agents.blue]"),
    Mistake("two agents with one host name, checked", "config check {folder}/hosts.toml", ("host of [agents.blue] is that of [agents.red], too",), "[agents.blue]"),
    Mistake("credentials for several agents", "gateway --config {folder}/two.toml {any} -H 'Authorization: x'", ("must not share credentials",), "[agents.red]"),
    Mistake("a variable with credentials for several agents", "gateway --config {folder}/two.toml {any}", ("A2A_BRIDGE_HEADER_X_KEY: ", "two.toml:1: [agents.red]: several agents must not share credentials"), "[agents.NAME]", env={"A2A_BRIDGE_HEADER_X_KEY": "x"}),
    Mistake("a store for several agents", "serve --config {folder}/served.toml {any} --store sqlite:///{folder}/one.db", ("several agents cannot share it",), "[agents.red]"),
    Mistake("several agents without HTTP", "gateway --config {folder}/two.toml --no-http", ("are found over HTTP",), "--no-http"),
    Mistake("an agent and a file with agents", "gateway http://{nobody} --config {folder}/two.toml", ("the file of --config has agents already",), "leave UPSTREAM or --config out"),
    Mistake("agents of the other command", "gateway --config {folder}/served.toml {any}", ("upstream of [agents.red] is missing",), "[agents.red]"),
    # ---------------------------------------------------------------- calls by hand
    Mistake("a gRPC address that does not answer", "gateway {nobody} {any}", ("no connection to the agent",), "http://127.0.0.1:9 if that is an HTTP address", code=3),
]  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with places(tmp_path_factory.mktemp("oncall")) as found:
        yield found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_mistake(row: Mistake, names: dict[str, str]) -> None:
    arguments = shlex.split(row.line.format(**names))
    done = await command(*arguments, env={"COLUMNS": "500", **row.env})
    assert done.code == row.code, f"{row.name}: {done.err}"
    assert done.out == ""
    assert ("Traceback" in done.err) is row.traceback
    check_parts(row.says, done.err, row.name)
    check_fix(row.fix, done.err, row.name)


def test_names_are_different() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
