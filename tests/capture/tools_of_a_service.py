"""Tools of a service: one of each kind of function."""


def add(a: int, b: int) -> int:
    return a + b


async def wait(a: int) -> int:
    return a


def count(to: int):
    for number in range(to):
        got = yield number
        if got:
            yield got
    return to


async def stream(to: int):
    for number in range(to):
        yield number


async def collect():
    return [number async for number in stream(3)]


def fail(text: str) -> None:
    raise ValueError(text)


class Desk:
    def ask(self, question: str) -> str:
        return question.upper()


def keep_all(items: list) -> int:
    return len(items)


def open_lock():
    import threading

    return threading.Lock()
