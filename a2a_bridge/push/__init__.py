"""Push notifications: what one looks like for whom, who registered for it, and a plain way to send it."""

from a2a_bridge.push.notification import Notification, notification
from a2a_bridge.push.registrations import Registrations
from a2a_bridge.push.sender import WebhookSender
from a2a_bridge.push.webhook import Webhook

__all__ = ["Notification", "Registrations", "Webhook", "WebhookSender", "notification"]
