"""What a replay compares of a request, by its content: services, forms, numbers, ids, headers."""

import pytest

AGENT = """
import json, os, urllib.request
import httpx2

NOW = os.environ.get("PROGRAM") == "changed"

def ask(word):
    return word

def url(path="/v1/things", port=None, host="127.0.0.1"):
    return f"http://{host}:{port or os.environ['MODEL_URL'].rpartition(':')[2]}{path}"

def send(body, **headers):
    httpx2.post(url(), content=body, headers={name.replace("_", "-"): value for name, value in headers.items()})

def urllib_json():
    body = {"code": "2 2" if NOW else "2+2"}
    urllib.request.urlopen(url(), json.dumps(body).encode()).read()

def curl_text():
    send("make & rm -rf build" if NOW else "make && rm -rf build", content_type="application/x-www-form-urlencoded")

def big_number():
    send('{"amount": 12345678901234567.%s}' % ("99" if NOW else "11"), content_type="application/json")

def beyond_floats():
    send('{"limit": 1e%s}' % ("999" if NOW else "400"), content_type="application/json")

def repeated_name():
    send('{"to": "%s", "to": "me"}' % ("eve" if NOW else "ada"), content_type="application/json")

def business_id():
    order = "order-99999" if NOW else "order-12345"
    params = {"name": "ship", "arguments": {"order": order}, "_meta": {"progressToken": order}}
    httpx2.post(url("/mcp"), json={"jsonrpc": "2.0", "id": order, "method": "tools/call", "params": params})

def virtual_host():
    send("{}", host="tenant-b.example" if NOW else "tenant-a.example")

def organization():
    send("{}", openai_organization="org-b" if NOW else "org-a")

def dry_run():
    send("{}", **({} if NOW else {"X_Dry_Run": "true"}))

def idempotency():
    send(json.dumps({"a": 1, "idempotency_key": "b" if NOW else "a"}), content_type="application/json")

def form_again():
    send("b=2&a=x%20y" if NOW else "a=x+y&b=2", content_type="application/x-www-form-urlencoded")
"""

SAME = {
    "organization": "headers.openai-organization",
    "dry_run": "headers.x-dry-run",
    "idempotency": "",
    "form_again": "",
}


@pytest.fixture(scope="module")
def made(programs):
    recorded = programs(AGENT)
    return recorded.replayed("-v", changed=True), recorded.said


@pytest.mark.parametrize(
    "name",
    [
        "urllib_json",
        "curl_text",
        "big_number",
        "beyond_floats",
        "repeated_name",
        "business_id",
        "virtual_host",
    ],
)
def test_another_content_is_a_divergence(made, name):
    (told,) = made[0][name]
    assert told.startswith("[AR-"), told


@pytest.mark.parametrize(("name", "drift"), SAME.items())
def test_what_is_watched_is_reported_and_what_is_dropped_is_not(made, name, drift):
    assert made[0][name] == [""]
    assert not drift or f"drift     {drift} differs in 1 test" in made[1]


def test_nothing_else_is_reported_as_drift(made):
    assert made[1].count("drift     ") == sum(map(bool, SAME.values()))
