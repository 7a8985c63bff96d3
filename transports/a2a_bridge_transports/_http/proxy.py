"""Which proxy the environment prescribes for a URL. It connects to none.

aiohttp's `trust_env` would ask two threads for each request, and send what ~/.netrc says; this asks once.
"""

from __future__ import annotations

from urllib.request import getproxies, proxy_bypass

from yarl import URL


def proxy_of(url: URL) -> URL | None:
    """The proxy of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in either case; None to connect directly.

    Raises ValueError for a proxy that is no HTTP proxy (SOCKS, say).
    """
    named = getproxies().get(url.scheme)
    if not named or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    proxy = URL(named if "://" in named else f"http://{named}")
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise ValueError(f"{proxy.scheme} proxies are not supported")
    return proxy
