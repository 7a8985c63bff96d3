"""The URL that a client used: Host headers, proxies, and trusted addresses."""

import pytest
from multidict import CIMultiDict

from a2a_bridge.core.addresses import Trust
from a2a_bridge.testing.each import each
from a2a_bridge_transports._http.parameters import base_url, is_host, is_local_name


def url(
    scheme: str = "http", host: str = "in:8080", root: str = "", *, trusted: bool = True, **headers: str
) -> str:
    found = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return base_url(scheme, host, root, found, trusted=trusted)


@pytest.mark.parametrize("host", ["a", "a.b:80", "127.0.0.1", "[::1]:80", "[fe80::1]", "a_b", "x-1.example"])
def test_hosts(host: str) -> None:
    assert is_host(host)


@each(
    "host",
    ["", " ", "a b", "u@a", "a/b", "a,b", "a:b", "a:", "::1", "[::1", "a?b", "a#b", "a\\b", "é", "a:123456"],
)
def test_invalid_hosts(host: str) -> None:
    assert not is_host(host)


def test_without_proxies() -> None:
    assert url() == "http://in:8080"
    assert url("https", root="/app/") == "https://in:8080/app"


@each(
    ("headers", "expected"),
    [
        ({"X_Forwarded_Proto": "https"}, "https://in:8080"),
        ({"X_Forwarded_Proto": "https", "X_Forwarded_Host": "out"}, "https://out"),
        ({"X_Forwarded_Host": "out:81, in"}, "http://out:81"),
        (
            {"X_Forwarded_Host": "out", "X_Forwarded_Port": "8443", "X_Forwarded_Proto": "https"},
            "https://out:8443",
        ),
        ({"X_Forwarded_Host": "out", "X_Forwarded_Port": "443", "X_Forwarded_Proto": "https"}, "https://out"),
        ({"X_Forwarded_Host": "out:9", "X_Forwarded_Port": "443"}, "http://out:9"),
        ({"X_Forwarded_Prefix": "/a/b/"}, "http://in:8080/a/b"),
        ({"Forwarded": "for=1.2.3.4;proto=https;host=out"}, "https://out"),
        ({"Forwarded": 'for="[::1]:5";host="out:9";proto=HTTPS, for=x;host=y'}, "https://out:9"),
        ({"Forwarded": "for=1.2.3.4, host=other"}, "http://in:8080"),
        ({"Forwarded": "host=out", "X_Forwarded_Host": "other"}, "http://out"),
    ],
)
def test_proxies(headers: dict[str, str], expected: str) -> None:
    assert url(**headers) == expected
    assert url(trusted=False, **headers) == "http://in:8080"


@each(
    "headers",
    [
        {"X_Forwarded_Proto": "javascript"},
        {"X_Forwarded_Host": "a/b"},
        {"X_Forwarded_Host": "u@a"},
        {"X_Forwarded_Prefix": "//evil"},
        {"X_Forwarded_Prefix": "evil"},
        {"X_Forwarded_Prefix": '/"<script>'},
        {"X_Forwarded_Port": "x"},
        {"X_Forwarded_Port": "1234567"},
        {"Forwarded": "host=a b"},
        {"Forwarded": ";;;"},
        {"Forwarded": 'host="'},
    ],
)
def test_nonsense_is_as_if_it_were_not_there(headers: dict[str, str]) -> None:
    assert url(**headers) == "http://in:8080"


def test_a_prefix_that_the_server_knows_counts_once() -> None:
    assert url(root="/api", X_Forwarded_Prefix="/api") == "http://in:8080/api"
    assert url(root="/api/v1", X_Forwarded_Prefix="/api") == "http://in:8080/api/v1"
    assert url(root="/apiary", X_Forwarded_Prefix="/api") == "http://in:8080/api/apiary"


@each(
    ("entries", "peer", "trusted"),
    [
        ((), "127.0.0.1", False),
        (("*",), "", True),
        (("127.0.0.1",), "127.0.0.1", True),
        (("127.0.0.1",), "127.0.0.2", False),
        (("10.0.0.0/8",), "10.1.2.3", True),
        (("10.0.0.0/8",), "::ffff:10.1.2.3", True),
        (("::1",), "::1", True),
        (("10.0.0.0/8",), "unknown", False),
        (("10.0.0.0/8",), "::1", False),
    ],
)
def test_whom_to_believe(entries: tuple[str, ...], peer: str, trusted: bool) -> None:
    assert (peer in Trust(entries)) is trusted


def test_a_name_is_no_address() -> None:
    with pytest.raises(ValueError, match="proxy"):
        Trust(("proxy",))


@each(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:9090", True),
        ("10.0.0.7:9090", True),
        ("[::1]:9090", True),
        ("localhost", True),
        ("LOCALHOST:9090", True),
        ("evil.example:9090", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("localhost.", False),
        ("2130706433", False),
        ("", False),
    ],
)
def test_local_names(host: str, is_local: bool) -> None:
    assert is_local_name(host) is is_local
