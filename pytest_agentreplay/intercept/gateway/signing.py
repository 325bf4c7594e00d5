"""Requests to AWS, signed again: a child signs for the gateway's address, which AWS does not take."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import split
from pytest_agentreplay.errors import CannotFreeze

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import HttpCall

_SCOPE = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
_MADE_ANEW = frozenset({"authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"})


def signed_for(call: HttpCall) -> HttpCall:
    """`call` with a signature that its upstream takes; itself, where it was not signed or goes to no AWS host.

    The secret key never leaves the child, so the credentials are those that botocore finds in this process. Raises
    CannotFreeze where there is no botocore, or where it finds other credentials than the child has used.
    """
    signature = next((value for name, value in call.headers if name.lower() == "authorization"), "")
    found = _SCOPE.search(signature)
    if found is None or not split(call.url).host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws")):
        return call
    try:
        from botocore.auth import SigV4Auth  # type: ignore[import-not-found,import-untyped,unused-ignore]
        from botocore.awsrequest import AWSRequest  # type: ignore[import-not-found,import-untyped,unused-ignore]
        from botocore.session import Session  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise _cannot("there is no botocore to sign it again for AWS") from None
    credentials = Session().get_credentials()
    if credentials is None or credentials.get_frozen_credentials().access_key != found[1]:
        raise _cannot("botocore finds other credentials here than the child has used")
    kept = [pair for pair in call.headers if pair[0].lower() not in _MADE_ANEW]
    told = {name: value for name, value in kept if name.lower() in {"content-type", "x-amz-target"}}
    request = AWSRequest(call.method, call.url, told, call.body.data)
    SigV4Auth(credentials.get_frozen_credentials(), found[3], found[2]).add_auth(request)
    anew = [(name, str(value)) for name, value in request.headers.items() if name.lower() in _MADE_ANEW]
    return replace(call, headers=(*kept, *anew))


def _cannot(why: str) -> CannotFreeze:
    return CannotFreeze(
        f"a child's request to AWS is signed for the gateway, and {why}; "
        "call AWS in the test's own process, where the client itself is met",
        path="$",
        kind="HttpCall",
    )
