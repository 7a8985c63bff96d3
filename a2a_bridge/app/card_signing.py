"""Which server signs its card, and where the keys are published.

Rules:
1. Callers choose the Host header. So a signed card has the addresses of the options and of the listeners
   only, and where these are none that a caller can use, a public URL is needed.
2. One document has the keys of cards and of notifications.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.bindings.binding import Document
from a2a_bridge.cards import Mounted
from a2a_bridge.cards.build import WILDCARDS
from a2a_bridge.push import JWKS_PATH
from a2a_bridge.signing import CardSigner, merge_key_sets


def card_signer(options: ServeOptions) -> CardSigner | None:
    """Signs the card; None without keys. Raises ValueError for keys that cannot."""
    if not options.card_signing_keys:
        return None
    public = options.public_url.rstrip("/")
    return CardSigner(options.card_signing_keys, jku=f"{public}{JWKS_PATH}" if public else "")


def check_signable(plan: Sequence[Mounted], options: ServeOptions, *, serves: bool, mounted: bool) -> None:
    """Raises ValueError if the card would have no addresses of its own to sign. serves: whether there is an
    HTTP listener. mounted: whether that is an application.
    """
    if not serves:
        raise ValueError("a signed card needs an HTTP interface, which serves it")
    if options.public_url:
        return
    named = [one.address for one in plan if one.family != "grpc" or not options.public_grpc]
    wild = next((one for one in named if one.host in WILDCARDS), None)
    if wild is not None or mounted:
        where = "an ASGI application" if wild is None else str(wild)
        raise ValueError(
            f"a signed card needs `public_url`: callers choose the Host header, and {where} is no address"
            " for a card"
        )


def with_keys(documents: Mapping[str, Document], signer: CardSigner | None) -> Mapping[str, Document]:
    """The documents with the keys of the signer, beside other keys at the same path."""
    if signer is None:
        return documents
    own, others = signer.jwks(), documents.get(JWKS_PATH)
    keys = own if others is None else merge_key_sets([others(""), own])
    return {**documents, JWKS_PATH: lambda _: keys}
