"""The types of the agent card that 0.2.5 spells differently from 0.3 (spec 0.2.5, 5.5).

What 0.3 added (`signatures`, `security` of skills, `oauth2MetadataUrl`, mutual TLS) is not refused: it is kept as
undeclared members. Only a security scheme of an unknown type has no place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import RootModel

from a2a_bridge.dialects.v0_3.models_card import (
    SCHEMES,
    AgentCapabilities,
    AgentInterface,
    AgentProvider,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    OAuthFlows,
    OpenIdConnectSecurityScheme,
    SecuritySchemeBase,
    scheme_of,
)
from a2a_bridge.dialects.v0_3.models_shape import A2ABaseModel, Flag, Text, by, tag


class AgentSkill(A2ABaseModel):
    """Something the agent is good at (spec 5.5.4)."""

    description: Text
    examples: list[Text] | None = None
    id: Text
    input_modes: list[Text] | None = None
    name: Text
    output_modes: list[Text] | None = None
    tags: list[Text]


class OAuth2SecurityScheme(SecuritySchemeBase):
    """OAuth 2.0."""

    flows: OAuthFlows
    type: Literal["oauth2"] = "oauth2"


def _scheme(tree: Mapping[str, Any]) -> str:
    return scheme_of(tree, SCHEMES)


class SecurityScheme(
    RootModel[
        Annotated[
            Annotated[APIKeySecurityScheme, tag("APIKeySecurityScheme")]
            | Annotated[HTTPAuthSecurityScheme, tag("HTTPAuthSecurityScheme")]
            | Annotated[OAuth2SecurityScheme, tag("OAuth2SecurityScheme")]
            | Annotated[OpenIdConnectSecurityScheme, tag("OpenIdConnectSecurityScheme")],
            by(_scheme, "needs a type", "type", SCHEMES),
        ]
    ]
):
    """One of the four schemes, in `root`."""


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
    preferred_transport: Text | None = None
    protocol_version: Text = "0.2.5"
    provider: AgentProvider | None = None
    security: list[dict[str, list[Text]]] | None = None
    security_schemes: dict[str, SecurityScheme] | None = None
    skills: list[AgentSkill]
    supports_authenticated_extended_card: Flag | None = None
    url: Text
    version: Text
