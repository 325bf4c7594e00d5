"""A service with 20 requests at once, each recorded by itself: `python service.py RECORDER [killed]`. Every fifth fails."""

import asyncio
import contextlib
import os
import pathlib
import sys

from openai import AsyncOpenAI

URL, KEY = os.environ["OPENAI_BASE_URL"], os.environ["KEY_IN_PROMPT"]
FOLDER = pathlib.Path("runs")


def pytest_agentreplay(name):
    from pytest_agentreplay import capture

    return capture.run(name)


def vcrpy(name):
    import vcr

    return vcr.use_cassette(str(FOLDER / f"{name}.yaml"))


def cassetter(name):
    import cassetter

    return cassetter.use_cassette(str(FOLDER / f"{name}.yaml"), record_mode="once")


@contextlib.asynccontextmanager
async def cassetteai(name):
    import cassetteai

    place = {"cassette_dir": FOLDER, "mode": "record", "real_base_url": URL.removesuffix("/v1")}
    async with cassetteai.AgentTestSession(name, real_api_key=os.environ["OPENAI_API_KEY"], **place) as session:
        yield session.base_url


def reeltime(_name):
    import reeltime

    return reeltime.session("record")


def agentsnap(name):
    from agentsnap import AgentRecorder

    return AgentRecorder(name, snapshot_dir=str(FOLDER))


def agent_rewind(name):
    import rewind

    return rewind.record(FOLDER / f"{name}.rewind")


def replex(name):
    import replex

    return replex.session(name, "record", cassette_dir=FOLDER, intercept_hosts=["127.0.0.1"])


async def answer(number, recorded, answers):
    """Answer one request: two questions to the model, and an error where its number says so."""
    async with contextlib.AsyncExitStack() as stack:
        run = recorded(f"request-{number:02}")
        url = await stack.enter_async_context(run) if hasattr(run, "__aenter__") else stack.enter_context(run)
        client = AsyncOpenAI(base_url=url if isinstance(url, str) else URL, max_retries=0)
        for part in ("first", "second"):
            content = f"{part} question of request-{number:02}, with {KEY}"
            await client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": content}])
            answers.append(number)
            if "killed" in sys.argv and len(answers) == 20:
                os._exit(0)
        if number % 5 == 0:
            raise ValueError(f"request {number} fails")


async def serve():
    """Answer all requests at once."""
    answers = []
    recorded = globals()[sys.argv[1].replace("-", "_")]
    ended = await asyncio.gather(*(answer(number, recorded, answers) for number in range(20)), return_exceptions=True)
    for error in {repr(error) for error in ended if error and "fails" not in str(error)}:
        print(error)


@contextlib.contextmanager
def started(recorder):
    """What a recorder wants done once for the process."""
    if recorder == "pytest_agentreplay":
        from pytest_agentreplay import capture

        capture.start(FOLDER, keep=os.environ["KEEP"])
        yield
        capture.stop()
    elif recorder == "agentsnap":
        from agentsnap import PatchSet

        with PatchSet():
            yield
    else:
        if recorder == "agent-rewind":
            import rewind

            rewind.auto_patch()
        yield


if __name__ == "__main__":
    FOLDER.mkdir()
    with started(sys.argv[1]):
        asyncio.run(serve())
