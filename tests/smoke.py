"""The installed wheel, away from the checkout: the plugin is met, records and replays. `.ci/run` copies this file."""

import importlib.metadata
import subprocess
import sys


def run(*words):
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=120)


def test_the_plugin_is_met_by_its_entry_point():
    assert "--snapshot-record" in run("pytest", "--help").stdout
    names = [point.name for point in importlib.metadata.distribution("frozen-agentreplay").entry_points]
    assert sorted(names) == ["agentreplay", "pytest_agentreplay"]


def test_record_then_replay(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import time\n"
        "def now() -> float:\n    return time.perf_counter()\n"
        "def test_it(agentreplay):\n"
        "    agentreplay.tool(now)\n"
        "    first = now()\n"
        "    (__import__('pathlib').Path(__file__).with_name('said')).open('a').write(f'{first}\\n')\n",
        encoding="utf-8",
    )
    environ = {k: v for k, v in __import__("os").environ.items() if k not in {"CI", "AGENTREPLAY"}}
    for flags in (["--snapshot-record"], ["--replay=model"]):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *flags], cwd=tmp_path, env=environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
    said = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    assert len(said) == 3, "recorded, proved, replayed"
    assert len(set(said)) == 1, "a replay gives the recorded value"
    for words in (["verify", "--lock"], ["verify", "."]):
        done = subprocess.run(
            [sys.executable, "-m", "pytest_agentreplay", *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "agentreplay.lock").read_bytes().count(b"\n") == 1
