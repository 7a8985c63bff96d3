"""The policy: which addresses, ports and hosts notifications may go to. No network."""

from __future__ import annotations

import ipaddress

import pytest

from a2a_bridge.push.ssrf_policy import Allowed, SsrfPolicy, is_public
from a2a_bridge.testing.each import each

CLOSED = [
    # of IPv4: this machine, private, carrier and test networks, broadcast, unspecified
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.9", "192.0.0.170",
    "192.0.2.1", "192.88.99.1", "192.88.99.254", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7",
    "203.0.113.7", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    # of IPv6
    "::", "::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "5f00::1",
    "2001:db8::1", "3fff::1", "3ffe::1", "4000::1",
    # IPv4 in IPv6, of any kind: some of these lead to 127.0.0.1 or 10.0.0.1
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2002:808:808::1", "2001::7f00:1", "2001:0:a00:1::1", "2001:10::1", "2001:20::1",
]  # fmt: skip
OPEN = [
    "1.1.1.1", "8.8.8.8", "93.184.215.14", "100.63.255.255", "100.128.0.0", "168.63.129.15", "168.63.129.17", "172.15.255.255", "172.32.0.0",
    "192.0.1.1", "192.88.98.1", "198.17.255.255", "223.255.255.255",
    "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450:4001::1", "2003::1", "3ffd::1",
]  # fmt: skip


@each("text", CLOSED)
def test_addresses_that_are_not_global_are_rejected(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    assert SsrfPolicy().rejection("hook.example", 443, [text])


@each("text", OPEN)
def test_global_addresses_are_allowed(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))
    assert SsrfPolicy().rejection("hook.example", 443, [text]) == ""


def test_python_closes_nothing_that_is_open_here() -> None:
    """The tables of Python grow with each version; addresses that only they reject are worth a look."""
    for text in OPEN:
        assert ipaddress.ip_address(text).is_global
        assert not ipaddress.ip_address(text).is_multicast


def test_one_closed_address_closes_a_name() -> None:
    assert SsrfPolicy().rejection("hook.example", 443, ["1.1.1.1", "8.8.8.8"]) == ""
    assert SsrfPolicy().rejection("hook.example", 443, ["1.1.1.1", "127.0.0.1"])
    assert SsrfPolicy().rejection("hook.example", 443, ["1.1.1.1", "no address"])


@pytest.mark.parametrize(("port", "fine"), [(80, True), (443, True), (8080, True), (8443, True), (22, False), (6379, False), (25, False)])  # fmt: skip
def test_ports(port: int, fine: bool) -> None:
    assert (SsrfPolicy().rejection("hook.example", port, ["1.1.1.1"]) == "") is fine
    assert (SsrfPolicy().rejection("hook.example", port, []) == "") is fine
    assert SsrfPolicy(ports=frozenset({port})).rejection("hook.example", port, ["1.1.1.1"]) == ""


def test_schemes() -> None:
    assert SsrfPolicy().scheme("https")
    assert SsrfPolicy().scheme("HTTP")
    assert not SsrfPolicy(schemes=frozenset({"https"})).scheme("http")
    assert not SsrfPolicy().scheme("ftp")


@each(
    ("allowed", "host", "port", "address", "fine"),
    [
        ("127.0.0.1", "127.0.0.1", 5000, "127.0.0.1", True),
        ("127.0.0.1", "hook.example", 5000, "127.0.0.1", True),
        ("127.0.0.1", "hook.example", 5000, "127.0.0.2", False),
        ("127.0.0.1", "hook.example", 5000, "1.1.1.1", False),
        ("127.0.0.1", "hook.example", 443, "::ffff:127.0.0.1", False),
        ("127.0.0.1:5000", "127.0.0.1", 5000, "127.0.0.1", True),
        ("127.0.0.1:5000", "127.0.0.1", 5001, "127.0.0.1", False),
        ("10.0.0.0/8", "hook.example", 5000, "10.1.2.3", True),
        ("10.1.2.3/8", "hook.example", 5000, "10.9.9.9", True),
        ("10.0.0.0/8", "hook.example", 5000, "11.0.0.1", False),
        ("::1", "::1", 5000, "::1", True),
        ("[::1]:5000", "::1", 5000, "::1", True),
        ("[::1]:5000", "::1", 443, "::1", False),
        ("fd00::/8", "x", 1, "fd12::1", True),
        ("localhost", "localhost", 5000, "127.0.0.1", True),
        ("LocalHost.", "localhost", 5000, "::1", True),
        ("localhost", "LOCALHOST.", 5000, "127.0.0.1", True),
        ("localhost:5000", "localhost", 5001, "127.0.0.1", False),
        ("localhost", "not-localhost", 443, "127.0.0.1", False),
        ("hooks.internal", "evil.hooks.internal", 443, "10.0.0.1", False),
    ],
)
def test_allowed_targets(allowed: str, host: str, port: int, address: str, fine: bool) -> None:
    guard = SsrfPolicy([Allowed.parse(allowed)])
    assert (guard.rejection(host, port, [address]) == "") is fine


@each(
    "text", ["", " ", "http://localhost", "localhost/x", "a@b", "localhost:x", "[::1", "host?x", "host:70000"]
)
def test_invalid_allow_entries(text: str) -> None:
    with pytest.raises(ValueError, match="is no host, address or network"):
        Allowed.parse(text)
