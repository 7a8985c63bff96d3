"""`--cluster` and its files: each mistake is one clear line, before anything is served; and a NATS that is not
to be trusted stops no replica.
"""

from pathlib import Path

import pytest

from a2a_bridge import connect
from tests.cli.commands import command, serving
from tests.nats import running
from tests.replicas.test_nats import Tls
from tests.stores.conftest import _postgres_template, postgres_url

__all__ = ["_postgres_template", "postgres_url"]

AGENT = '''
from a2a_bridge import Run, agent

@agent
async def parrot(run: Run):
    """Repeats."""
    yield run.artifact("said " + run.text)
'''
#: no database listens there: these mistakes are found before it is asked
STORE = ("--store", "postgresql://127.0.0.1:1/x")
NATS = ("--cluster", "nats://127.0.0.1:4222")
ADDRESS = "not an address like nats://HOST:4222 or tls://HOST:4222"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "parrot.py"
    path.write_text(AGENT)
    (tmp_path / "empty").touch()
    (tmp_path / "user.creds").write_text(
        "-----BEGIN NATS USER JWT-----\nx.y.z\n------END NATS USER JWT------\n"
        "-----BEGIN USER NKEY SEED-----\nSUAAAA\n------END USER NKEY SEED------\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--store", "memory://", *NATS), "--cluster: replicas need --store postgresql://"),
        ((*STORE, "--cluster", "http://secret@nats"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster", "nats://u:secret@"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster", "nats://u:secret/x@nats:4222"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster", "nats://nats-1:4222,nats-2:4222"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster-ca", "empty"), "--cluster: the addresses of NATS are missing"),
        ((*STORE, "--cluster-credentials", "empty"), "--cluster: the addresses of NATS are missing"),
        ((*STORE, *NATS, "--cluster-ca", "absent"), "--cluster-ca: absent"),
        ((*STORE, *NATS, "--cluster-credentials", "absent"), "--cluster-credentials: absent"),
        ((*STORE, *NATS, "--cluster-ca", "empty"), "NATS cannot be used: empty has no certificates to trust"),
        (
            (*STORE, *NATS, "--cluster-credentials", "empty"),
            "NATS cannot be used: empty has no NATS user JWT and NKEY seed",
        ),
        (
            (*STORE, *NATS, "--cluster-credentials", "user.creds"),
            "NATS cannot be used: user.creds has an NKEY seed that is damaged",
        ),
    ],
)
async def test_a_mistake_is_one_line(flags: tuple[str, ...], said: str, target: str) -> None:
    done = await command("serve", target, "--http", "127.0.0.1:0", "--no-grpc", *flags)
    assert done.code == 2, done.err
    assert said in " ".join(done.err.split()), done.err
    assert "Traceback" not in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("package", "flags", "said"),
    [
        ("nats", (), 'a2a-transport-bridge[cluster], the package nats: pip install "'),
        (
            "cryptography",
            ("--cluster-credentials", "user.creds"),
            'a2a-transport-bridge[cluster], the package cryptography: pip install "',
        ),
    ],
)
async def test_a_missing_package_is_named_with_its_extra(
    package: str, flags: tuple[str, ...], said: str, target: str, tmp_path: Path
) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('none', name='{package}')")
    variables = {"PYTHONPATH": str(tmp_path)}
    done = await command("serve", target, "--no-grpc", *STORE, *NATS, *flags, env=variables)
    assert done.code == 2, done.err
    assert said.split(":", maxsplit=1)[0] in done.err
    assert f'pip install "{said.split(",", maxsplit=1)[0]}"' in done.err
    assert "Traceback" not in done.err


async def test_a_server_with_a_wrong_certificate_stops_no_replica(
    target: str, postgres_url: str, tmp_path: Path
) -> None:
    tls = Tls(tmp_path)
    with running(*tls.arguments) as nats:
        cluster = ("--cluster", f"tls://u:secret@127.0.0.1:{nats.port}", "--cluster-ca", tls.wrong_ca)
        address = ("--http", "127.0.0.1:0", "--no-grpc", "--store", postgres_url)
        async with serving("serve", target, *address, *cluster) as served:
            async with connect(served.http) as peer:
                answer = await peer.send("hello")
                assert answer.task is not None
                assert answer.task.artifacts[0].parts[0].text == "said hello"
            done = await served.ended_by_signal()
    assert done.code == 0
    assert (
        done.err.count("NATS cannot be reached: its certificate is not trusted: self-signed certificate") == 1
    )
    assert "secret" not in done.err
