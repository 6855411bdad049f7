"""Runs checks one after another, whichever of the two Python SDKs is behind them."""

import asyncio
import inspect
import signal
import sys
import time
import traceback
import uuid

CHECK_SECONDS_MAX = 120


async def do(result):
    """The value of a call: the sync SDK gives it at once, the async SDK gives something to wait for."""
    return await result if inspect.isawaitable(result) else result


async def collect(iterable):
    iterable = await do(iterable)
    if hasattr(iterable, "__aiter__"):
        return [item async for item in iterable]
    return list(iterable)


def unique(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def same(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def contains(whole, part):
    if part not in whole:
        raise AssertionError(f"{part!r} is not in {whole!r}")


def holds(condition, otherwise):
    if not condition:
        raise AssertionError(otherwise)


async def raises(kind, call):
    """What the call raises; `call` is a function, since the sync SDK raises while it is called."""
    try:
        await do(call())
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


async def until(condition, what, seconds=30):
    """Waits for a state that the server reaches by itself."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


class Report:
    def __init__(self, words):
        self.wanted = [word for word in words if not word.startswith("-")]
        self.unwanted = [word[1:] for word in words if word.startswith("-")]
        self.passed = 0
        self.failed = []

    def selects(self, name):
        if any(name.startswith(word) for word in self.unwanted):
            return False
        return not self.wanted or any(name.startswith(word) for word in self.wanted)

    async def run(self, name, check, *arguments):
        if not self.selects(name):
            return
        # An alarm also ends a call of the sync SDK that never comes back.
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(CHECK_SECONDS_MAX)
        try:
            await check(*arguments)
        except Exception as error:  # every failure is one line, and the next check runs
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            place = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in place if "/tests/sdk/" in frame.filename]
            where = f" ({ours[-1].filename.rsplit('/', 1)[-1]}:{ours[-1].lineno})" if ours else ""
            print(f"FAIL {name}: {reason[:400]}{where}", flush=True)
            self.failed.append(name)
        else:
            print(f"ok {name}", flush=True)
            self.passed += 1
        finally:
            signal.alarm(0)

    def finish(self):
        print(f"{self.passed} passed, {len(self.failed)} failed")
        sys.exit(1 if self.failed or not self.passed else 0)


def _too_long(_signal, _frame):
    raise TimeoutError(f"no end within {CHECK_SECONDS_MAX} s")
