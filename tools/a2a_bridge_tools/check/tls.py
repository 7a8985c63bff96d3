"""The certificate of the target: its dates, its names, and whether an authority stands behind it.

Each property is one handshake with only that check switched on, because OpenSSL stops at the first fault and
a certificate may have several.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator
from typing import Any

from a2a_bridge.bindings.binding import TlsFiles
from a2a_bridge.cli.target import TargetKind
from a2a_bridge.gateway.destinations import Place
from a2a_bridge_tools.check.inspection import Finding, Inspection
from a2a_bridge_tools.check.network import place

#: X509_V_FLAG_NO_CHECK_TIME, for which the module ssl has no name
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
_DAY = 86400
#: days before its end in which a certificate should have been renewed
_SOON = 14


async def tls(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """What is wrong with the certificate, if the target is reached over TLS."""
    here = place(inspection)
    if here is None:
        return
    secure = here.secure
    if inspection.target.sort is TargetKind.GRPC and inspection.options.grpc_tls is not None:
        secure = inspection.options.grpc_tls
    if not secure:
        return
    files = inspection.options.tls
    files = files if isinstance(files, TlsFiles) else TlsFiles()
    bare = _Handshakes(here, files, inspection.options.connect_timeout)
    try:
        leaf, protocol = await bare.leaf()
    except (OSError, TimeoutError) as error:
        inspection.is_over = True
        text = getattr(error, "reason", None) or str(error) or "no answer in time"
        fix = "write http:// (gRPC: grpc://) if this port speaks no TLS; else let its TLS accept this client"
        if "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text:
            fix = "give the certificate that the agent asks its callers for: --cert FILE --cert-key FILE"
        yield Finding(
            "TLS", False, f"no handshake with {here.host}:{here.port}: {text}", fix, unreachable=True
        )
        return
    async for finding in _certificate(bare, leaf, protocol):
        # With --insecure nothing of this is looked at by the calls that follow.
        inspection.is_over = inspection.is_over or (not finding.ok and files.verify)
        yield finding


async def _certificate(handshakes: _Handshakes, leaf: str, protocol: str) -> AsyncGenerator[Finding, None]:
    problem, shown = await handshakes.verify_leaf(leaf, dates=True)
    end = ssl.cert_time_to_seconds(str(shown["notAfter"])) - time.time() if shown else 0.0
    if problem:
        fix = "renew the certificate, and let the server read it again"
        if "not yet valid" in problem:
            fix = "wait until it begins, or correct the clock of this machine or of the one that issued it"
        yield Finding("TLS dates", False, problem, fix)
    else:
        advice = f"renew the certificate: {end / _DAY:.0f} days are left" if end < _SOON * _DAY else ""
        yield Finding("TLS dates", True, f"valid until {shown['notAfter']}, over {protocol}", advice)
    problem, _ = await handshakes.verify_leaf(leaf, names=True)
    if problem:
        fix = f"issue the certificate for {handshakes.host} (subjectAltName), or use the name that it is for"
        yield Finding("TLS names", False, problem, fix)
    else:
        yield Finding("TLS names", True, f"the certificate is for {handshakes.host}")
    problem, _ = await handshakes.verify_leaf("")
    if problem:
        fix = "serve the whole chain up to a known authority; if the authority is your own: --cacert FILE"
        yield Finding("TLS chain", False, problem, fix)
    else:
        yield Finding("TLS chain", True, "an authority that is trusted here has signed it")


class _Handshakes:
    """Handshakes with one server."""

    def __init__(self, here: Place, files: TlsFiles, limit: float) -> None:
        self.host = here.host
        self._port = here.port
        self._files = files
        self._limit = limit

    async def leaf(self) -> tuple[str, str]:
        """The certificate of the server as PEM, unverified, and the version of TLS. Raises OSError,
        TimeoutError.
        """
        context = self._context("")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = await self._connect(context)
        return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b""), str(
            connection.version()
        )

    async def verify_leaf(
        self, leaf: str, *, dates: bool = False, names: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """What is wrong with the certificate, empty for nothing, and its content if nothing is.

        leaf: a certificate that counts as trusted; empty for the usual authorities.
        """
        context = self._context(leaf)
        context.check_hostname = names
        if not dates:
            context.verify_flags |= _NO_CHECK_TIME
        try:
            connection = await self._connect(context)
        except ssl.SSLCertVerificationError as error:
            return str(error.verify_message), {}
        except (OSError, TimeoutError) as error:
            return getattr(error, "reason", None) or str(error) or "no answer in time", {}
        return "", dict(connection.getpeercert() or {})

    def _context(self, leaf: str) -> ssl.SSLContext:
        if leaf:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=leaf)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        else:
            context = ssl.create_default_context(cafile=self._files.ca or None)
        if self._files.certificate:
            context.load_cert_chain(self._files.certificate, self._files.key or None)
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    async def _connect(self, context: ssl.SSLContext) -> ssl.SSLObject:
        async with asyncio.timeout(self._limit):
            _, writer = await asyncio.open_connection(self.host, self._port, ssl=context)
        connection: ssl.SSLObject = writer.get_extra_info("ssl_object")
        writer.close()
        return connection
