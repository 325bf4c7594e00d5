"""What a fork runs in place of `python -m MODULE` or `python -c CODE`: asks the server of forks for another one, and is it.

    python -IS fork_of.py ADDRESS MODULE WORDS...

Its streams, folder and environment are the fork's, the signals it gets are passed on, and it ends as the fork does.
"""

import json
import os
import signal
import socket
import sys


def main(address, module, *words):
    """Return the exit code of the fork; a signal that ended it ends this process too."""
    request = {"module": module, "words": words, "cwd": os.getcwd(), "env": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection, open(os.memfd_create("request"), "w+b") as file:
        file.write(json.dumps(request).encode())
        file.seek(0)
        connection.connect(address)
        socket.send_fds(connection, [b"."], [0, 1, 2, file.fileno()])
        with connection.makefile("r") as answers:
            fork = int(answers.readline())
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: os.kill(fork, number))
            code = int(answers.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


sys.exit(main(*sys.argv[1:]))
