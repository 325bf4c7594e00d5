"""A suite on cassettes that stand in its folder: no server answers."""

import pytest
import yaml


@pytest.fixture
def suite(project):
    """A project without a model, to which cassettes are written."""
    project.server.stop()
    project.plugins += ("recording", "no:unraisableexception")
    (project.root / "test_shop.py").unlink()
    return project


@pytest.fixture
def write_cassette(project):
    """Writes a cassette of (method, url, body, status, headers, reply) rows below `cassettes`; gives its file."""

    def write(name, *interactions):
        rows = []
        for method, url, body, status, headers, reply in interactions:
            request = {"method": method, "uri": url, "body": body, "headers": {}}
            response = {"status": {"code": status, "message": None}, "headers": headers, "body": {"string": reply}}
            rows.append({"request": request, "response": response})
        file = project.root / "cassettes" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump({"version": 1, "interactions": rows}), encoding="utf-8")
        return file

    return write


@pytest.fixture
def read_cassettes(project):
    """Gives all cassettes by file."""
    return lambda: {file: file.read_bytes() for file in project.root.rglob("cassettes/**/*.yaml")}
