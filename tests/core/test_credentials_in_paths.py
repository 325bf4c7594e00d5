"""Credentials that services take in the path of a URL are redacted on any host, in calls and in texts; ids are kept."""

import pytest

from pytest_agentreplay.core.model import Body, HttpCall, ToolCall
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.places import Places

TOKEN = "Xq3vT9LmZp" + "R2sWkY8dHfJb4N"
TELEGRAM = "ABC-DEF1234ghIkl-" + "zyx57W2v1u123ew11"
HEXADECIMAL = "3d89bb7572e0fb30d8128367b3b1b44f" * 2 + "6ecd"

PATHS = {
    f"/bot123456:{TELEGRAM}/sendMessage": "/bot[[redacted:telegram-key:1]]/sendMessage",
    f"/file/bot123456:{TELEGRAM}/photos/1.jpg": "/file/bot[[redacted:telegram-key:1]]/photos/1.jpg",
    f"/services/T024BE7LD/B024BE7LE/{TOKEN}": "/services/T024BE7LD/B024BE7LE/[[redacted:slack-webhook:1]]",
    f"/api/webhooks/223704706495545344/{HEXADECIMAL}": "/api/webhooks/223704706495545344/[[redacted:discord-webhook:1]]",
    f"/api/v10/webhooks/223704706495545344/{TOKEN}-{TOKEN}_{TOKEN}/messages/1": (
        "/api/v10/webhooks/223704706495545344/[[redacted:discord-webhook:1]]/messages/1"
    ),
    "/hooks/xr4w5i8mfjgr5e9gk1q3cz7hoy": "/hooks/[[redacted:key:1]]",
    "/open-apis/bot/v2/hook/8c4d2a10-7f3e-4b7a-9c55-2b1e9f6a7d3c": "/open-apis/bot/v2/hook/[[redacted:key:1]]",
    f"/trigger/late/with/key/{TOKEN}": "/trigger/late/with/key/[[redacted:key:1]]",
}

KEPT = [
    "/bot/123456/messages",
    "/bots/123456:abc/threads",
    "/bot123456:your-telegram-bot-token-goes-here/getMe",
    "/services/T024BE7LD/B024BE7LE",
    "/services/Translation/Batch/2024",
    "/repos/octo/shop/hooks/223704706495545344",
    "/v1/hooks/01hv3vqk6c0fd6vv2v9y6k2z8a",  # a ULID
    "/webhooks/223704706495545344/deliveries",
    "/v1/orders/8c4d2a10-7f3e-4b7a-9c55-2b1e9f6a7d3c",
]


@pytest.mark.parametrize("host", ["https://api.example.com", "http://127.0.0.1:8080"])
@pytest.mark.parametrize(("path", "stored"), PATHS.items())
def test_the_path_is_stored_without_its_credential(host, path, stored):
    redaction = Redaction(Places({}))
    assert redaction.call(HttpCall("POST", f"{host}{path}?limit=5")).url == f"{host}{stored}?limit=5"
    secret = path.removeprefix(stored.partition("[[")[0]).removesuffix(stored.rpartition("]]")[2])
    log = HttpCall("POST", f"{host}/log", body=Body(f'{{"line": "the token is {secret}."}}'.encode()))
    assert secret not in str(redaction.call(log).body.data), "it is known from then on"


@pytest.mark.parametrize("path", PATHS)
def test_it_is_redacted_in_texts_too(path):
    stored = Redaction(Places({})).call(ToolCall("log", {"line": f"POST {path} HTTP/1.1 404"}))
    assert stored.arguments == {"line": f"POST {PATHS[path]} HTTP/1.1 404"}


@pytest.mark.parametrize("path", KEPT)
def test_ids_and_stand_ins_stay(path):
    url = f"https://api.example.com{path}"
    assert Redaction(Places({})).call(HttpCall("GET", url)).url == url
