"""The meaning of failures on the way to an agent: library exceptions → A2AError. It opens no connection.

A failure before the request was sent is UNAVAILABLE with metadata phase=connect: the agent has not seen the
call. A later one is phase=call, and phase=stream after the first events.
"""

import os
from typing import NoReturn

import aiohttp
from yarl import URL

from a2a_bridge.bindings.binding import is_unconnected, unconnected_error
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge_transports._http.agent_connection import NoResponseError, SpeaksHttp2Error
from a2a_bridge_transports._http.certificates import alert_problem, certificate_problem
from a2a_bridge_transports._http.connector import HTTP_2_ONLY, unavailable
from a2a_bridge_transports._http.decoding import UndecodableError
from a2a_bridge_transports._http.proxy import redact_url

#: why a peer breaks a TLS connection off without a word, at the first use
_WANTED = "it wants a client certificate (--cert)"

#: the system's resolver raises UnicodeError for a host that is no name
FAILURES = (aiohttp.ClientError, TimeoutError, OSError, UnicodeError, UndecodableError)
_NOT_CONNECTED = (aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)


def raise_failure(
    error: BaseException, phase: str, proxy: URL | None = None, *, secure: bool = False
) -> NoReturn:
    """Raises the A2AError for a failure of an exchange. Runs inside `except`, and hides the library's
    exception. proxy: the proxy of the request. secure: whether the request was sent over TLS.
    """
    through = (
        f" (through the proxy {redact_url(proxy)}, which the environment names)" if proxy is not None else ""
    )
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = certificate_problem(_reason(error.certificate_error))
        text = f"the certificate of {error.host}:{error.port} {problem}"
        raise unavailable(text, "connect") from error
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        description = str(error)
        text = alert_problem(description) or (
            f"{error.host}:{error.port} does not speak TLS; its URL may begin with http://"
            if "WRONG_VERSION_NUMBER" in description or "UNEXPECTED_EOF" in description
            else f"no TLS connection to {error.host}:{error.port}: {_reason(error.os_error)}"
        )
        raise unavailable(text, "connect") from error
    if isinstance(error, aiohttp.ClientConnectorError) and error.ssl and _is_reset(error.os_error):
        text = f"{error.host}:{error.port} ended the TLS handshake, as it does where {_WANTED}"
        raise unavailable(text, "connect") from error
    if isinstance(error, aiohttp.ClientConnectorError):
        text = f"no connection to the agent{through}: {_unconnected(error)}"
        raise unavailable(text, "connect") from error
    if isinstance(error, UnicodeError):
        text = f"no connection to the agent{through}: its host is not a valid name"
        raise unavailable(text, "connect") from error
    if isinstance(error, _NOT_CONNECTED):
        raise unavailable(f"no connection to the agent{through}: {error}", "connect") from error
    if isinstance(error, aiohttp.SocketTimeoutError):
        raise unavailable("the agent has been silent for too long", phase) from error
    if isinstance(error, TimeoutError) and is_unconnected(error.__cause__):
        raise unconnected_error(reason=Reason.DEADLINE_EXCEEDED) from error
    if isinstance(error, TimeoutError):
        raise A2AError(Reason.DEADLINE_EXCEEDED) from error
    if isinstance(error, SpeaksHttp2Error):
        raise unavailable(HTTP_2_ONLY, phase) from error
    if isinstance(error, UndecodableError):
        text = "the agent's answer cannot be decompressed: it is not what its Content-Encoding says"
        raise A2AError(Reason.INVALID_AGENT_RESPONSE, text, blame=Blame.PEER) from error
    text = f"the connection to the agent{through} broke"
    if phase == "call" and secure and (problem := alert_problem(str(error))):
        text += f": {problem}"
    elif phase == "call" and (
        isinstance(error, aiohttp.ServerDisconnectedError) or (secure and _is_reset(error.__cause__))
    ):
        text += (
            f" before an answer came, as it does where {_WANTED if secure else 'TLS is wanted (https://)'}"
        )
    broken = unavailable(text, phase)
    if isinstance(error, NoResponseError):
        broken.add_note(f"its answer is no HTTP: {error}")
    raise broken from error


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    """The address and the system's reason, for messages. aiohttp names its settings of TLS even without TLS,
    and asyncio only says that a call failed.
    """
    host = f"[{error.host}]" if ":" in error.host else error.host
    number = error.os_error.errno
    # Numbers of the resolver are negative; its text is the reason.
    reason = os.strerror(number) if number is not None and number > 0 else error.strerror
    return f"{host}:{error.port}: {reason or error.os_error}"


def _is_reset(error: BaseException | None) -> bool:
    return isinstance(error, ConnectionResetError)


def _reason(error: BaseException) -> str:
    """OpenSSL's reason, without the place in its source."""
    text = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
    return str(text)
