"""`capture.Middleware` around WSGI, and how it finds out which of the two an application is."""

import io
import json
import wsgiref.util
import wsgiref.validate

import django.conf
import django.core.asgi
import django.core.wsgi
import django.http
import django.urls
import fastapi
import httpx
import pytest

from pytest_agentreplay import capture
from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT
from tests.support.captured_files import capturing
from tests.support.django_settings import set_up_django
from tests.support.web_servers import serving_wsgi


class Body:
    """A response in three chunks, or with a fault in the second."""

    def __init__(self, fails=""):
        self.fails, self.closed, self.chunks = fails, [], iter([b"a", b"b", b"c"])

    def __iter__(self):
        return self

    def __next__(self):
        assert CALL_CONTEXT.get() is not None
        chunk = next(self.chunks)
        if self.fails and chunk == b"b":
            raise OSError(self.fails)
        return chunk

    def close(self):
        self.closed.append(CALL_CONTEXT.get() is not None)


def call(app, **environ):
    """Call a WSGI application as a server does; return what it has said to `start_response`, and the iterable."""
    given = {"PATH_INFO": "/items/17", **environ}
    wsgiref.util.setup_testing_defaults(given)
    started = []
    return started, app(given, lambda *arguments: started.append(arguments) or bytes)


def answer_with(body, status="200 OK", kind="text/plain"):
    """An application that answers with `body`."""

    def app(environ, start_response):
        start_response(status, [("Content-Type", kind)])
        return body

    return app


def test_the_run_ends_when_the_server_closes_the_response(tmp_path):
    body = Body()
    with capturing(tmp_path) as finish:
        started, chunks = call(capture.Middleware(answer_with(body)))
        assert started == [("200 OK", [("Content-Type", "text/plain")])]
        assert next(chunks) == b"a"
        assert CALL_CONTEXT.get() is None
        assert capture.stats()["captured"] == 0
        assert b"".join(chunks) == b"bc"
        assert capture.stats()["captured"] == 0
        chunks.close()
        (run,) = finish()
    assert body.closed == [True]
    assert (run.name, run.arguments["path"]) == ("GET /items/*", "/items/17")
    assert run.kit["output"] == {"status": 200, "body": "abc"}


def test_a_list_is_returned_itself_and_so_is_the_wrapper_of_a_file(tmp_path):
    body, file = [b'{"x": 1}'], wsgiref.util.FileWrapper(io.BytesIO(b"file"))
    environ = {"wsgi.file_wrapper": wsgiref.util.FileWrapper}
    with capturing(tmp_path) as finish:
        assert call(capture.Middleware(answer_with(body, kind="application/json")))[1] is body
        assert call(capture.Middleware(answer_with(file)), **environ)[1] is file
        runs = finish()
    assert [run.kit.get("output") for run in runs] == [{"status": 200, "body": {"x": 1}}, None]


def test_exceptions_and_500_fail_the_run_and_a_response_that_is_left_does_not(tmp_path):
    def broken(environ, start_response):
        raise KeyError("app")

    with capturing(tmp_path) as finish:
        with pytest.raises(KeyError):
            call(capture.Middleware(broken))
        _, chunks = call(capture.Middleware(answer_with(Body("disk"))))
        next(chunks)
        with pytest.raises(OSError, match="disk"):
            next(chunks)
        chunks.close()
        call(capture.Middleware(answer_with([b"no"], "502 Bad Gateway")))
        _, chunks = call(capture.Middleware(answer_with(Body())))
        next(chunks)
        chunks.close()
        runs = finish()
    assert [run.outcome.get("message", "passed") for run in runs] == ["'app'", "disk", "status 502", "passed"]


def test_the_json_body_that_the_application_reads_is_the_input_and_the_protocol_holds(tmp_path):
    def echo(environ, start_response):
        read = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(read)))])
        yield read

    with capturing(tmp_path) as finish, serving_wsgi(wsgiref.validate.validator(capture.Middleware(echo))) as url:
        assert httpx.post(f"{url}/echo?a=1", json={"q": [1]}).json() == {"q": [1]}
        assert httpx.post(f"{url}/echo", content=b"\xff\xfe").content == b"\xff\xfe"
        read, binary = finish(2)
    assert read.arguments == {"method": "POST", "path": "/echo", "query": "a=1", "body": {"q": [1]}}
    assert (read.cold, read.kit["output"]) == ("", {"status": 200, "body": {"q": [1]}})
    assert binary.cold == "what the client sent was not kept"


def answer_order(request, number):
    with capture.run("order", input={"arguments": {"number": number}}):
        return django.http.JsonResponse({"number": number, **json.loads(request.body)})


urlpatterns = [django.urls.path("orders/<int:number>", answer_order)]


@pytest.fixture(scope="module")
def django_settings():
    set_up_django()
    django.conf.settings.ROOT_URLCONF = __name__


def test_django_is_captured_under_wsgi(django_settings, tmp_path):
    app = capture.Middleware(django.core.wsgi.get_wsgi_application())
    with capturing(tmp_path) as finish, serving_wsgi(app) as url:
        assert httpx.post(f"{url}/orders/5", json={"a": 1}).json() == {"number": 5, "a": 1}
        (run,) = finish(1)
    assert (run.name, run.arguments) == ("order", {"number": 5})


def generate(environ, start_response):
    yield b""


async def answer_asgi(scope, receive, send):
    pass


class Forwarding:
    def __call__(self, scope, receive, send):
        return answer_asgi(scope, receive, send)


def test_it_finds_out_which_an_application_is(django_settings):
    asgi = [fastapi.FastAPI(), django.core.asgi.get_asgi_application(), answer_asgi, Forwarding()]
    asgi += [capture.Middleware(app) for app in asgi]
    wsgi = [django.core.wsgi.get_wsgi_application(), generate, answer_with(())]
    wsgi += [capture.Middleware(app) for app in wsgi]
    assert [type(capture.Middleware(app)).__name__ for app in asgi] == ["AsgiMiddleware"] * 8
    assert [type(capture.Middleware(app)).__name__ for app in wsgi] == ["WsgiMiddleware"] * 6
    assert capture.Middleware(asgi[0]).routes is asgi[0].routes
