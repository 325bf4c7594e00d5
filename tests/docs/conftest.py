import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.model_server import ModelServer
from tests.support.pages import ROOT, PlayedPage, model


@pytest.fixture
def play(tmp_path, pytestconfig):
    """Makes the run of a page."""
    flags = pytestconfig._parser.optparser._option_string_actions
    with ModelServer(model) as server:
        yield lambda page: PlayedPage(tmp_path, page, server, flags)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def address(site):
    """Serve the site: a browser loads no search index from a file."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
