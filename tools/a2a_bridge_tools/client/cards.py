"""`card get`: fetches the card, checks it, and prints it.

Rules:
1. The request for the public card carries no credentials. The extended card is only asked for if the public
   one has it, and over a scheme that the public card declares (SPEC.md 10.4). A gRPC address has no public
   card: its extended one is shown, if there is one.
2. The outcome of signatures is `verified`, `unverifiable` or `absent`; only with --require-signed-card is
   `absent` an error. A card that comes as the response of a call cannot be verified, and a card whose
   signature cannot be checked is never shown as verified.
"""

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

import typer

from a2a_bridge.bindings.binding import CheckCard, DialOptions, names
from a2a_bridge.cards.read import CardError
from a2a_bridge.cards.select import unusable
from a2a_bridge.cli.connect import NO_CARD, version_of
from a2a_bridge.cli.flags import Output
from a2a_bridge.cli.output import data, document, print_message
from a2a_bridge.cli.security import card_check
from a2a_bridge.cli.values import usage_error
from a2a_bridge.codec import compile_required, loads
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.masking import Secrets
from a2a_bridge.dialects import V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client import reaching, text
from a2a_bridge_tools.client.flags import CardGetFlags, ClientFlags
from a2a_bridge_tools.client.recording import HOP, add_observer, record_to


def show_card(context: typer.Context, flags: CardGetFlags) -> None:
    """Prints the card of an agent. Raises typer.Exit."""
    has_keys = bool(flags.card_keys or flags.card_jku_host)
    is_asked = flags.extended or (not flags.endpoint and flags.agent_card.startswith(("grpc://", "grpcs://")))
    if (is_asked or flags.endpoint) and (has_keys or flags.require_signed_card):
        text_ = "only the public card has a signature that can be checked: -a with its URL or its file"
        raise usage_error("--card-keys", text_)
    if is_asked:
        _print(reaching.run(context, flags, partial(_fetch_extended, flags=flags)), flags)
        if flags.validate and flags.output is Output.TEXT:
            data(text.field("Valid", "yes"), end="")
        return
    reaching.refuse_equivalents(flags, "a public card is read without one")
    # With the keys of the user, only a valid signature passes: the outcome has to be true.
    trust = card_check(
        replace(flags, require_signed_card=has_keys or flags.require_signed_card), flags.cacert
    )
    check = SignatureCheck(trust, flags.require_signed_card)
    options = replace(reaching.client_options(flags), check_card=check.check)
    reaching.Credentials.of(flags)  # complains of files that cannot be read
    sends = bool(options.parameters)
    with reaching.report_errors(context, flags, credentials=sends), record_to(flags.record) as recorder:
        if recorder is not None:
            recorder.secrets = Secrets.of(options.parameters) | reaching.secret_values(flags)
            options = add_observer(options, recorder.observer(HOP))
        card = asyncio.run(_public(flags, options))
        if flags.validate:
            _validate(card)
    _print(card, flags)
    if flags.endpoint or not check.document:
        return
    words = text.field("Signature", check.outcome + (f" ({check.reason})" if check.reason else ""))
    if flags.output is Output.JSON:
        print_message(words.rstrip(), "dim")
    else:
        data(words + (text.field("Valid", "yes") if flags.validate else ""), end="")


def _validate(card: hub.AgentCard) -> None:
    if problems := problems_of(card):
        raise CardError(f"the card is not valid: {'; '.join(problems)}")


def problems_of(card: hub.AgentCard) -> list[str]:
    """What is wrong with a card by the schema of 1.0, and with its interfaces."""
    found = [f"{path} is missing" for path in compile_required(hub.AgentCard)(card)]
    declared = set(card.security_schemes)
    for requirement in card.security_requirements:
        found += [
            f"securityRequirements names {one!r}, which is no scheme"
            for one in requirement.schemes
            if one not in declared
        ]
    for scheme in card.security_schemes.values():
        found += [] if scheme.WhichOneof("scheme") else ["a security scheme has no kind"]
    return found + unusable(card, known=names())


def _print(card: hub.AgentCard, flags: CardGetFlags) -> None:
    if flags.output is Output.JSON:
        document(V1_0.card.encode(card))
    else:
        data("".join(text.card(card, verbose=flags.verbose)), end="")


async def _public(flags: ClientFlags, options: DialOptions) -> hub.AgentCard:
    target = None if flags.endpoint else reaching.reference(flags.agent_card)
    wanted, version = reaching.parse_transports(flags), version_of(flags.a2a_version)
    async with (
        asyncio.timeout(flags.timeout),
        reaching.found_card(flags, target, options, wanted, version) as (card, _),
    ):
        return card


async def _fetch_extended(session: reaching.Session, *, flags: CardGetFlags) -> hub.AgentCard:
    if session.card.name and not session.card.capabilities.extended_agent_card:
        raise A2AError(Reason.UNSUPPORTED_OPERATION, "the card says that there is no extended card")
    try:
        card = await session.peer.get_extended_agent_card(None, session.context)
    except A2AError as error:
        if flags.extended or error.reason not in NO_CARD:
            raise
        print_message(f"note: the agent has no card ({error.name}); a minimal one is shown", "yellow")
        card = session.card
    if flags.validate:
        _validate(card)
    return card


@dataclass(slots=True)
class SignatureCheck:
    """Checks a card when it is read, and remembers the outcome. trust: the check with the keys of the user;
    None without keys. required: whether a card without a valid signature is an error.
    """

    trust: CheckCard | None
    required: bool
    outcome: str = "absent"
    #: why it is unverifiable
    reason: str = ""
    #: the document as it was read
    document: bytes = field(default=b"", repr=False)

    async def check(self, raw: bytes, location: str) -> bytes:
        """For `DialOptions.check_card`. Raises the errors of the trust if a signature is required."""
        self.document = raw
        tree = loads(raw)
        if not (isinstance(tree, dict) and bool(tree.get("signatures"))) and not self.required:
            self.outcome = "absent"
            return raw
        self.outcome = "unverifiable"
        if self.trust is None:
            self.reason = "no key is known; --card-keys names some"
            return raw
        try:
            read = await self.trust(raw, location)
        except A2AError as error:
            if self.required:
                raise
            self.reason = error.message
            return raw
        self.outcome = "verified"
        return read
