"""Behaviour that wraps a service, one file each, valid on the server side and on the client side alike."""

from a2a_bridge.middleware.deadline import deadline
from a2a_bridge.middleware.extensions import extensions
from a2a_bridge.middleware.limits import Limits, limits
from a2a_bridge.middleware.logging import access_log
from a2a_bridge.middleware.metrics import Metrics
from a2a_bridge.middleware.usage import Usage, usage
from a2a_bridge.middleware.validate import validate

__all__ = [
    "Limits",
    "Metrics",
    "Usage",
    "access_log",
    "deadline",
    "extensions",
    "limits",
    "usage",
    "validate",
]
