"""The shipped table of what is not compared: data only, one row a rule, each with its reason and source.

What is not in here matches, even where it looks like noise: `user`, `safety_identifier`, `metadata`, `store`,
`service_tier`, `stream_options` and every field that nobody has heard of are part of a request. Of the headers only
those of MATCHED_HEADERS match; the rows below say why the others that clients send by themselves do not, and every
other one is watched, by a digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.rules import BOUNDARY, Rule, RuleTable

if TYPE_CHECKING:
    from pytest_agentreplay.model.rules import Action, Part

_RFC9110 = "RFC 9110"
_RFC3986 = "RFC 3986"
_W3C = "W3C Trace Context, W3C Baggage"
_STAINLESS = "openai and anthropic Python SDKs, _base_client"
_SIGV4 = "AWS Signature Version 4"
_BOTO = "botocore, idempotencyToken trait"
_IDEMPOTENCY = "draft-ietf-httpapi-idempotency-key-header"
_API = "the provider's API reference"
_AWS = "amazonaws.com"
_PRACTICE = "common practice"
_S3 = "Amazon S3, checking object integrity"
_DRAWN = "drawn for each request"
_TRACE = "ids of the running trace"
_CLIENT = "the version of the SDK, not what it asks"
_MCP = "io.modelcontextprotocol/"
_CACHE = "steers a cache, not the answer"


def _rows(part: Part, action: Action, names: str, reason: str, source: str, *, host: str = "") -> tuple[Rule, ...]:
    return tuple(Rule("http", part, name, action, reason, source, host) for name in names.split())


RULES: tuple[Rule, ...] = (
    # --- the wire: made by the HTTP client for this one connection
    *_rows("header", "drop", "content-length transfer-encoding", "the body says it", _RFC9110),
    *_rows("header", "drop", "content-md5 content-digest repr-digest digest", "the body says it", "RFC 9530"),
    *_rows("header", "drop", "connection keep-alive te expect upgrade via", "about the connection", _RFC9110),
    *_rows("header", "drop", "trailer proxy-connection http2-settings priority", "about the connection", _RFC9110),
    *_rows("header", "drop", "cache-control pragma", "about caches on the way", "RFC 9111"),
    *_rows("header", "drop", "sec-websocket-key sec-websocket-version sec-websocket-extensions", _DRAWN, "RFC 6455"),
    *_rows("header", "drop", "sec-fetch-* sec-ch-* upgrade-insecure-requests dnt", "about the client", "browsers"),
    *_rows("header", "drop", "forwarded x-forwarded-for x-forwarded-proto x-real-ip", "about the way", "RFC 7239"),
    *_rows("header", "drop", "accept-encoding", "what the client can unpack", _RFC9110),
    *_rows("header", "drop", "date", "the time of sending", _RFC9110),
    *_rows("header", "drop", "user-agent", "names versions of the client and of Python", _RFC9110),
    *_rows("header", "drop", BOUNDARY, "drawn at random for each request", "RFC 2046"),
    *_rows("url", "drop", "loopback-port", "the system picks a free one for each run", "bind(2) with port 0"),
    *_rows("url", "drop", "fragment", "never sent", _RFC3986),
    *_rows("url", "drop", "userinfo", "a credential", _RFC3986),
    # --- who asks: credentials are redacted, and CI has none
    *_rows("header", "drop", "authorization proxy-authorization", "a credential", _RFC9110),
    *_rows("header", "drop", "cookie", "a credential", "RFC 6265"),
    *_rows("header", "drop", "x-api-key api-key x-goog-api-key", "a credential", _API),
    *_rows("header", "watch", "openai-organization openai-project", "who pays, at the desk or in CI", _API),
    *_rows("header", "watch", "x-goog-user-project x-hf-bill-to", "who pays, at the desk or in CI", _API),
    *_rows("query", "drop", "api_key apikey api-key access_token", "a credential", "RFC 6750, section 2.3"),
    *_rows("query", "drop", "key", "a credential", _API, host="googleapis.com"),
    *_rows("query", "drop", "sig", "made for this request", "Azure SAS", host="windows.net"),
    # --- signatures: made anew for each attempt
    *_rows("header", "drop", "x-amz-date x-amz-content-sha256 x-amz-security-token", "signature", _SIGV4),
    *_rows("header", "drop", "x-amz-checksum-* x-amz-trailer x-amz-decoded-content-length", "the body says it", _S3),
    *_rows("header", "drop", "x-amz-sdk-checksum-algorithm x-amzn-query-mode", _CLIENT, "botocore"),
    *_rows("header", "drop", "signature signature-input x-signature x-nonce", "signature", "RFC 9421"),
    *_rows("header", "drop", "x-timestamp timestamp x-date x-ms-date", "the time of sending", _PRACTICE),
    *_rows("header", "drop", "amz-sdk-invocation-id amz-sdk-request", "drawn for each call", "botocore.retries"),
    *_rows("query", "drop", "x-amz-date x-amz-credential x-amz-signature x-amz-security-token", "signature", _SIGV4),
    *_rows("query", "drop", "x-goog-date x-goog-credential x-goog-signature", "signature", "GOOG4-RSA-SHA256"),
    # --- SDK telemetry
    *_rows("header", "drop", "x-stainless-*", "versions, platform and retry count of the SDK", _STAINLESS),
    *_rows("header", "drop", "x-goog-api-client x-amz-user-agent x-ms-useragent", "versions of the SDK", "the SDKs"),
    *_rows("header", "drop", "x-fern-*", "versions and platform of the SDK", "cohere Python SDK, client_wrapper"),
    *_rows("header", "drop", "x-goog-upload-header-content-*", "the body says it", "google-genai Python SDK"),
    *_rows("header", "drop", "x-client-version x-sdk-version x-sdk-name x-retry-count x-attempt", _CLIENT, _PRACTICE),
    *_rows("header", "drop", "x-server-timeout", "about the connection, not the request", "google-genai Python SDK"),
    # --- idempotency: drawn at random so that a retry is known as one
    *_rows("header", "drop", "idempotency-key x-idempotency-key", _DRAWN, _IDEMPOTENCY),
    *_rows("body", "drop", "$.idempotency_key $.idempotencyKey", _DRAWN, _API),
    *_rows("body", "drop", "$.clientToken $.ClientToken", _DRAWN, _BOTO, host=_AWS),
    *_rows("body", "drop", "$.clientRequestToken $.ClientRequestToken", _DRAWN, _BOTO, host=_AWS),
    # --- tracing: the ids of this run
    *_rows("header", "drop", "traceparent tracestate baggage", _TRACE, _W3C),
    *_rows("header", "drop", "b3 x-b3-*", _TRACE, "B3 propagation"),
    *_rows("header", "drop", "sentry-trace x-datadog-* uber-trace-id x-cloud-trace-context", _TRACE, "the propagators"),
    *_rows("header", "drop", "x-amzn-trace-id newrelic elastic-apm-traceparent", _TRACE, "the propagators"),
    *_rows("header", "drop", "x-request-id x-client-request-id x-ms-client-request-id", _DRAWN, "the SDKs"),
    *_rows("header", "drop", "x-correlation-id x-trace-id x-span-id trace-id", _TRACE, _PRACTICE),
    *_rows("header", "drop", "grpc-trace-bin x-envoy-* x-amz-cf-id cf-ray", _TRACE, "the propagators"),
    *_rows("body", "drop", "$.params._meta.traceparent $.params._meta.tracestate", _TRACE, "MCP, _meta"),
    *_rows("body", "drop", "$.params._meta.baggage", _TRACE, "MCP, _meta"),
    # --- model APIs
    Rule("openai_chat", "body", "$.prompt_cache_key", "watch", _CACHE, _API),
    Rule("openai_responses", "body", "$.prompt_cache_key", "watch", _CACHE, _API),
    Rule("mcp", "body", "$.params.clientInfo.version", "watch", _CLIENT, "MCP, initialize"),
    Rule("mcp", "body", f"$.params._meta['{_MCP}clientInfo'].version", "watch", _CLIENT, "MCP, _meta"),
)  # fmt: skip
"""Every shipped rule. JSON-RPC ids are not here: they are in the key, renamed (`CallReading.client_ids`)."""

# Headers alone, built once: each header of each call is looked up.
_HEADERS = RuleTable(rule for rule in RULES if rule.part == "header")


def is_declared(name: str) -> bool:
    """Return whether a shipped rule says why the header `name`, in lower case, is not compared."""
    rule = _HEADERS.find_rule("header", name, "")
    return rule is not None and rule.action == "drop"
