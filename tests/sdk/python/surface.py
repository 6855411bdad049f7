"""The whole main surface of the Python SDK: surface.py sync|async [name…] [-name…]."""

import asyncio
import sys

from daytona import AsyncDaytona, CreateSandboxFromSnapshotParams, Daytona

import checks_box
import checks_files
import checks_git
import checks_interpreter
import checks_lifecycle
import checks_lsp
import checks_plane
import checks_process
import checks_pty
from harness import Report, do, unique

# These share one sandbox; those of `checks_lifecycle` and `checks_plane` make their own.
IN_ONE_SANDBOX = [
    checks_box,
    checks_process,
    checks_pty,
    checks_interpreter,
    checks_files,
    checks_git,
    checks_lsp,
]


async def run(daytona, report):
    for module in [checks_plane, checks_lifecycle]:
        for check in module.CHECKS:
            await report.run(name(module, check), check, daytona)
    selected = [
        (name(module, check), check)
        for module in IN_ONE_SANDBOX
        for check in module.CHECKS
        if report.selects(name(module, check))
    ]
    if not selected:
        return
    sandbox = await do(daytona.create(CreateSandboxFromSnapshotParams(name=unique("sdk"), language="python")))
    try:
        for title, check in selected:
            await report.run(title, check, sandbox)
    finally:
        await do(daytona.delete(sandbox))


def name(module, check):
    return f"{module.__name__.removeprefix('checks_')}.{check.__name__}"


async def main():
    report = Report(sys.argv[2:])
    if sys.argv[1:2] == ["sync"]:
        await run(Daytona(), report)
    elif sys.argv[1:2] == ["async"]:
        async with AsyncDaytona() as daytona:
            await run(daytona, report)
    else:
        sys.exit(__doc__)
    report.finish()


asyncio.run(main())
