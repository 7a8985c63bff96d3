"""Secrets of every kind are in no printed configuration and in no frame; `test_admin.py` has logs, metrics and
traces.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from a2a_bridge.cli import app
from a2a_bridge.cli.frames import masked
from a2a_bridge.cli.secret_values import without_query_secrets

CANARY = "s3cr3t-canary"
URL = f"http://user:{CANARY}@idp.example/?api_key={CANARY}&page=2"
HEADERS = (
    "Authorization: Bearer", "Cookie:", "X-Key:", "Ocp-Apim-Subscription-Key:", "X-Session-Id:", "X-Amz-Signature:",
    "X-JWT:", "X-Password:",
)  # fmt: skip


@pytest.mark.parametrize("printing", [("gateway", "--print-config"), ("config", "show", "--origin")])
def test_no_printed_configuration_has_a_secret(
    printing: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {
        "A2A_BRIDGE_STORE": f"postgresql://bridge:{CANARY}@db.example/x?password={CANARY}",
        "A2A_BRIDGE_KEY": CANARY * 2,
        "A2A_BRIDGE_STORE_KEY": CANARY,
        "A2A_BRIDGE_UPSTREAM_CLIENT_SECRET": CANARY,
        "A2A_BRIDGE_UPSTREAM_TOKEN_URL": URL,
        "A2A_BRIDGE_JWT_ISSUER": URL,
        "A2A_BRIDGE_JWT_JWKS": URL,
        "A2A_BRIDGE_PUBLIC_URL": f"https://{CANARY}@agent.example",
    }
    flags = (
        [part for name in HEADERS for part in ("-H", f"{name} {CANARY}")] if printing[0] == "gateway" else []
    )
    done = CliRunner().invoke(app, [*printing, *flags], env=variables)
    assert done.exit_code == 0, done.stderr
    assert "http://user:***@idp.example/?api_key=***&page=2" in done.stdout
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Authorization", f"Bearer {CANARY}", "Bearer ***"),
        ("Authorization", f"{CANARY} x", "***"),
        ("Cookie", f"session={CANARY}; page=2", "***"),
        ("X-Team", f"{CANARY}", "***"),
        ("A2A-Version", "1.0", "1.0"),
    ],
)
def test_no_frame_has_a_secret(name: str, value: str, expected: str) -> None:
    assert masked(name, value, {"x-team"}) == expected


def test_no_first_line_of_a_frame_has_a_secret() -> None:
    line = without_query_secrets(f"> POST /?key={CANARY}&page=2 HTTP/1.1")
    assert line == "> POST /?key=***&page=2 HTTP/1.1"
