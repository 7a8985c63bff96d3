"""Push notifications: what one looks like for whom, who may be sent to, and what delivers them."""

from a2a_bridge.push.courier import Courier
from a2a_bridge.push.delivery import JWKS_PATH, Pushing, pushing
from a2a_bridge.push.gatekeeper import Gatekeeper
from a2a_bridge.push.notification import Notification, notification
from a2a_bridge.push.options import PushOptions
from a2a_bridge.push.registrations import Registrations
from a2a_bridge.push.webhook import Webhook

__all__ = [
    "JWKS_PATH",
    "Courier",
    "Gatekeeper",
    "Notification",
    "PushOptions",
    "Pushing",
    "Registrations",
    "Webhook",
    "notification",
    "pushing",
]
