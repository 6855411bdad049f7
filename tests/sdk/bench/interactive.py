"""Milliseconds from the wish for a sandbox to its first output, through the Python SDK.

Usage: interactive.py sequential|burst COUNT
"""

import asyncio
import json
import sys
import time

from daytona import AsyncDaytona, Daytona


def sequential(count):
    daytona = Daytona()
    taken = []
    # The first one loads modules and fills pools.
    for round in range(count + 1):
        begun = time.perf_counter()
        sandbox = daytona.create()
        answer = sandbox.process.exec("echo ready")
        took = (time.perf_counter() - begun) * 1000
        assert answer.result.strip() == "ready", answer
        daytona.delete(sandbox)
        if round > 0:
            taken.append(took)
    return taken


async def burst(count):
    async with AsyncDaytona() as daytona:
        first = await daytona.create()
        await daytona.delete(first)

        async def one():
            begun = time.perf_counter()
            sandbox = await daytona.create()
            answer = await sandbox.process.exec("echo ready")
            took = (time.perf_counter() - begun) * 1000
            assert answer.result.strip() == "ready", answer
            return took, sandbox

        outcomes = await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)
        taken = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                print(f"failed: {outcome!r}", file=sys.stderr)
                continue
            taken.append(outcome[0])
            await daytona.delete(outcome[1])
        return taken


mode, count = sys.argv[1], int(sys.argv[2])
print(json.dumps(sequential(count) if mode == "sequential" else asyncio.run(burst(count))))
