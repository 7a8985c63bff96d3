"""The agent card of 0.3 and all that stands in it, as models (spec 0.3.0, 5.5). It judges no signature."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import RootModel

from a2a_bridge.dialects.v0_3.models_shape import A2ABaseModel, Flag, Text, by, tag


class In(StrEnum):
    """Where an API key goes."""

    cookie = "cookie"
    header = "header"
    query = "query"


class TransportProtocol(StrEnum):
    """The transports that 0.3 has; others may be named as plain text (spec 5.5.5)."""

    jsonrpc = "JSONRPC"
    grpc = "GRPC"
    http_json = "HTTP+JSON"


class AgentProvider(A2ABaseModel):
    """Who runs an agent (spec 5.5.1)."""

    organization: Text
    url: Text


class AgentExtension(A2ABaseModel):
    """An extension that an agent supports (spec 5.5.2.1)."""

    description: Text | None = None
    params: dict[str, Any] | None = None
    required: Flag | None = None
    uri: Text


class AgentCapabilities(A2ABaseModel):
    """What an agent can do beyond answering (spec 5.5.2)."""

    extensions: list[AgentExtension] | None = None
    push_notifications: Flag | None = None
    state_transition_history: Flag | None = None
    streaming: Flag | None = None


class AgentInterface(A2ABaseModel):
    """An address and what is spoken there (spec 5.5.5)."""

    transport: Text
    url: Text


class AgentCardSignature(A2ABaseModel):
    """A JSON Web Signature of the card, in its detached form (spec 5.5.6)."""

    header: dict[str, Any] | None = None
    protected: Text
    signature: Text


class AgentSkill(A2ABaseModel):
    """Something the agent is good at (spec 5.5.4)."""

    description: Text
    examples: list[Text] | None = None
    id: Text
    input_modes: list[Text] | None = None
    name: Text
    output_modes: list[Text] | None = None
    security: list[dict[str, list[Text]]] | None = None
    tags: list[Text]


# Security (spec 5.5.3)


class SecuritySchemeBase(A2ABaseModel):
    """What all schemes may say."""

    description: Text | None = None


class APIKeySecurityScheme(SecuritySchemeBase):
    """A key in a header, a query parameter or a cookie."""

    in_: In
    name: Text
    type: Literal["apiKey"] = "apiKey"


class HTTPAuthSecurityScheme(SecuritySchemeBase):
    """A scheme of the Authorization header."""

    bearer_format: Text | None = None
    scheme: Text
    type: Literal["http"] = "http"


class AuthorizationCodeOAuthFlow(A2ABaseModel):
    """The flow through a browser."""

    authorization_url: Text
    refresh_url: Text | None = None
    scopes: dict[str, Text]
    token_url: Text


class ClientCredentialsOAuthFlow(A2ABaseModel):
    """The flow between programs."""

    refresh_url: Text | None = None
    scopes: dict[str, Text]
    token_url: Text


class ImplicitOAuthFlow(A2ABaseModel):
    """The flow that hands the token to the browser."""

    authorization_url: Text
    refresh_url: Text | None = None
    scopes: dict[str, Text]


class PasswordOAuthFlow(A2ABaseModel):
    """The flow that takes the owner's password."""

    refresh_url: Text | None = None
    scopes: dict[str, Text]
    token_url: Text


class OAuthFlows(A2ABaseModel):
    """The flows a scheme offers, any number of them."""

    authorization_code: AuthorizationCodeOAuthFlow | None = None
    client_credentials: ClientCredentialsOAuthFlow | None = None
    implicit: ImplicitOAuthFlow | None = None
    password: PasswordOAuthFlow | None = None


class OAuth2SecurityScheme(SecuritySchemeBase):
    """OAuth 2.0."""

    flows: OAuthFlows
    oauth2_metadata_url: Text | None = None
    type: Literal["oauth2"] = "oauth2"


class OpenIdConnectSecurityScheme(SecuritySchemeBase):
    """OpenID Connect."""

    open_id_connect_url: Text
    type: Literal["openIdConnect"] = "openIdConnect"


class MutualTLSSecurityScheme(SecuritySchemeBase):
    """Certificates on both sides."""

    type: Literal["mutualTLS"] = "mutualTLS"


SCHEMES = {
    "apiKey": "APIKeySecurityScheme",
    "http": "HTTPAuthSecurityScheme",
    "oauth2": "OAuth2SecurityScheme",
    "openIdConnect": "OpenIdConnectSecurityScheme",
}
_SCHEMES = SCHEMES | {"mutualTLS": "MutualTLSSecurityScheme"}


def scheme_of(tree: Mapping[str, Any], schemes: Mapping[str, str] = _SCHEMES) -> str:
    """The class that the `type` of a scheme stands for; "" for none."""
    kind = tree.get("type")
    return schemes.get(kind, "") if isinstance(kind, str) else ""


class SecurityScheme(
    RootModel[
        Annotated[
            Annotated[APIKeySecurityScheme, tag("APIKeySecurityScheme")]
            | Annotated[HTTPAuthSecurityScheme, tag("HTTPAuthSecurityScheme")]
            | Annotated[OAuth2SecurityScheme, tag("OAuth2SecurityScheme")]
            | Annotated[OpenIdConnectSecurityScheme, tag("OpenIdConnectSecurityScheme")]
            | Annotated[MutualTLSSecurityScheme, tag("MutualTLSSecurityScheme")],
            by(scheme_of, "needs a type", "type", _SCHEMES),
        ]
    ]
):
    """One of the schemes, in `root`."""


class AgentCard(A2ABaseModel):
    """What an agent says about itself before anybody calls it (spec 5.5)."""

    additional_interfaces: list[AgentInterface] | None = None
    capabilities: AgentCapabilities
    default_input_modes: list[Text]
    default_output_modes: list[Text]
    description: Text
    documentation_url: Text | None = None
    icon_url: Text | None = None
    name: Text
    preferred_transport: Text | None = "JSONRPC"
    protocol_version: Text = "0.3.0"
    provider: AgentProvider | None = None
    security: list[dict[str, list[Text]]] | None = None
    security_schemes: dict[str, SecurityScheme] | None = None
    signatures: list[AgentCardSignature] | None = None
    skills: list[AgentSkill]
    supports_authenticated_extended_card: Flag | None = None
    url: Text
    version: Text
