"""Which variables a child gets, and which upstream stands behind each."""

from pytest_agentreplay.intercept.gateway.routes import DUMMY, VARIABLES, keys_for, routes_for
from pytest_agentreplay.model.exchanges import HttpCall

SIGNED = (("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260102/eu-west-1/bedrock/aws4_request, Signature=0"),)


def upstream(environ, variable, rest, *, recorded=(), headers=()):
    """Where a request goes that a child makes below the base URL in `variable`."""
    routes = routes_for(environ, recorded)
    _, _, route, *path = routes.variables[variable].split("/")
    return routes.upstream(route, "/".join(["", *path]) + rest, headers, environ)


UPSTREAMS = [
        ("OPENAI_BASE_URL", "/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("OPENAI_API_BASE", "/embeddings?x=1", "https://api.openai.com/v1/embeddings?x=1"),
        ("ANTHROPIC_BASE_URL", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("GOOGLE_GEMINI_BASE_URL", "/v1beta/models/m:generateContent", "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"),
        ("GOOGLE_VERTEX_BASE_URL", "/v1/projects/p/locations/europe-west4/x", "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/x"),
        ("GOOGLE_VERTEX_BASE_URL", "/v1/projects/p/locations/global/x", "https://aiplatform.googleapis.com/v1/projects/p/locations/global/x"),
        ("ANTHROPIC_VERTEX_BASE_URL", "/projects/p/locations/us-east5/x", "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/x"),
        ("GROQ_BASE_URL", "/openai/v1/chat/completions", "https://api.groq.com/openai/v1/chat/completions"),
        ("GROQ_API_BASE", "/chat/completions", "https://api.groq.com/openai/v1/chat/completions"),
        ("CO_API_URL", "/v2/chat", "https://api.cohere.com/v2/chat"),
        ("OLLAMA_HOST", "/api/chat", "http://127.0.0.1:11434/api/chat"),
        ("HF_INFERENCE_ENDPOINT", "/v1/chat/completions", "https://router.huggingface.co/v1/chat/completions"),
]  # fmt: skip


def test_the_usual_upstream():
    assert [(variable, rest, upstream({}, variable, rest)) for variable, rest, _ in UPSTREAMS] == UPSTREAMS


def test_the_region_of_bedrock_is_that_of_the_signature_else_of_the_environment():
    rest = "/model/a.b%3A0/converse"
    variable = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
    assert upstream({}, variable, rest, headers=SIGNED) == f"https://bedrock-runtime.eu-west-1.amazonaws.com{rest}"
    here = {"AWS_REGION": "us-west-2"}
    assert upstream(here, variable, rest) == f"https://bedrock-runtime.us-west-2.amazonaws.com{rest}"


def test_what_was_set_before_is_the_upstream():
    environ = {"OPENAI_BASE_URL": "https://llm.corp:8443/openai/v1/", "OLLAMA_HOST": "box:11434"}
    assert upstream(environ, "OPENAI_BASE_URL", "/responses") == "https://llm.corp:8443/openai/v1/responses"
    assert upstream(environ, "OPENAI_API_BASE", "/responses") == "https://api.openai.com/v1/responses"
    assert upstream(environ, "OLLAMA_HOST", "/api/tags") == "http://box:11434/api/tags"


def test_a_replay_elsewhere_takes_the_upstream_from_the_recording():
    recorded = [
        HttpCall("POST", "https://llm.corp/openai/v1/chat/completions"),
        HttpCall("POST", "https://shop.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"),
        HttpCall("POST", "http://127.0.0.1:5001/v1/messages?beta=true"),
    ]
    assert upstream({}, "OPENAI_BASE_URL", "/chat/completions", recorded=recorded) == recorded[0].url
    rest = "/openai/deployments/d/chat/completions?api-version=1"
    assert upstream({}, "AZURE_OPENAI_ENDPOINT", rest, recorded=recorded[1:]) == recorded[1].url
    assert upstream({}, "ANTHROPIC_BASE_URL", "/v1/messages?beta=true", recorded=recorded) == recorded[2].url
    recorded.append(HttpCall("GET", "https://api.groq.com/openai/v1/models"))
    assert upstream({}, "GROQ_BASE_URL", "/openai/v1/models", recorded=recorded) == recorded[3].url
    mixed = [recorded[1], recorded[0]]
    assert upstream({}, "OPENAI_BASE_URL", "/chat/completions", recorded=mixed) == recorded[0].url


def test_a_variable_without_an_upstream_is_left_alone():
    without = {name for name, _, usual in VARIABLES if not usual}
    assert "AZURE_OPENAI_ENDPOINT" in without
    assert not without & routes_for({}).variables.keys()
    assert routes_for(dict.fromkeys(without, "https://mine.example.com")).variables.keys() >= without


def test_a_replay_gives_no_real_key_and_none_for_a_provider_that_was_not_called():
    called = [HttpCall("POST", "https://api.openai.com/v1/responses")]
    real = {"GROQ_API_KEY": "gsk_live"}
    given = keys_for(real, routes_for(real, called), called, replaying=True)
    assert given == {"OPENAI_API_KEY": DUMMY, "GROQ_API_KEY": DUMMY}


def test_a_recording_gives_keys_for_servers_of_this_machine_only():
    environ = {"OPENAI_BASE_URL": "http://localhost:8000/v1"}
    assert keys_for(environ, routes_for(environ), (), replaying=False) == {"OPENAI_API_KEY": DUMMY}
    environ["OPENAI_API_KEY"] = "sk-mine"
    assert keys_for(environ, routes_for(environ), (), replaying=False) == {}
