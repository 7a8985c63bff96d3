"""The proxy that the environment prescribes for a URL. It connects to none.

aiohttp's `trust_env` would use two threads per request, and send credentials of ~/.netrc; this looks once.
"""

import os
from ipaddress import ip_address
from urllib.request import getproxies, proxy_bypass

from yarl import URL

#: the variables that gRPC reads, in its order
_GRPC = ("grpc_proxy", "https_proxy", "http_proxy")


def is_loopback(host: str) -> bool:
    """True if a host name or address is this machine itself."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def redact_url(proxy: URL) -> str:
    """A proxy for messages, without its credentials."""
    return str(proxy.with_user(None))


def grpc_proxy(host: str, port: str) -> str:
    """The proxy that gRPC uses for a host, without its credentials; empty if it connects directly."""
    named = next((os.environ[name] for name in _GRPC if os.environ.get(name)), "")
    if not named or is_loopback(host) or proxy_bypass(f"{host}:{port}"):
        return ""
    return named.rpartition("@")[2]


def proxy_of(url: URL) -> URL | None:
    """The proxy of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in either case; None for a direct connection, as to
    this machine. Raises ValueError for a proxy that is no HTTP proxy (for example SOCKS).
    """
    named = getproxies().get(url.scheme)
    if not named or is_loopback(url.host or "") or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    proxy = URL(named if "://" in named else f"http://{named}")
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise ValueError(f"{proxy.scheme} proxies are not supported")
    return proxy
