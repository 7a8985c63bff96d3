"""The gateway: any client to any upstream. A dialled client is mounted in the place of an agent."""
