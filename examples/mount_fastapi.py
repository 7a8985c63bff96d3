"""An agent inside a FastAPI application that also serves other paths.

    uvicorn --app-dir examples mount_fastapi:app --port 8080
    a2a-bridge send -a :8080/agents/weather Oslo

Both HTTP bindings and the card are under the mount path. The agent needs no lifespan of its own; the
addresses in its card follow the path, and the forwarded headers of the proxies that `ServeOptions` trusts.
"""

from __future__ import annotations

from fastapi import FastAPI
from weather import weather

from a2a_bridge import asgi, connect

app = FastAPI()
app.mount("/agents/weather", asgi(weather))


@app.get("/forecast/{city}")
async def forecast(city: str) -> dict[str, str]:
    """Calls the agent in the same process, without a socket."""
    async with connect(weather) as peer:
        return {"forecast": (await peer.send(city)).text}
