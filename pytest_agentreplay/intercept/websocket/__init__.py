"""WebSocket clients: `websockets` and aiohttp, and which messages belong to which call."""
