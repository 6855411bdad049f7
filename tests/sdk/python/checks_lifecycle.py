"""One sandbox from creation to its end."""

import asyncio

from daytona import (
    CreateSandboxFromSnapshotParams,
    DaytonaBadRequestError,
    DaytonaConflictError,
    DaytonaError,
    DaytonaNotFoundError,
    Resources,
)

from harness import contains, do, raises, same, unique, until


async def with_sandbox(daytona, body, **params):
    sandbox = await do(daytona.create(CreateSandboxFromSnapshotParams(**params)))
    try:
        await body(sandbox)
    finally:
        try:
            await do(daytona.delete(sandbox))
        except DaytonaNotFoundError:
            pass


async def create_says_what_was_asked(daytona):
    name = unique("full")

    async def body(sandbox):
        same(sandbox.name, name)
        same(str(sandbox.state.value), "started")
        same(sandbox.env["A"], "1")
        same(sandbox.labels["l"], "v")
        same(sandbox.auto_stop_interval, 30)
        same(sandbox.auto_archive_interval, 60)
        same(sandbox.auto_delete_interval, 90)
        same((await do(sandbox.process.exec("printf %s \"$A\""))).result, "1")
        same((await do(daytona.get(name))).id, sandbox.id)
        again = CreateSandboxFromSnapshotParams(name=name)
        await raises(DaytonaConflictError, lambda: daytona.create(again))

    await with_sandbox(
        daytona,
        body,
        name=name,
        language="typescript",
        env_vars={"A": "1"},
        labels={"l": "v"},
        auto_stop_interval=30,
        auto_archive_interval=60,
        auto_delete_interval=90,
    )


async def stop_keeps_files_and_start_brings_them_back(daytona):
    async def body(sandbox):
        await do(sandbox.process.exec("echo kept > kept.txt"))
        await do(sandbox.stop())
        same(sandbox.state.value, "stopped")
        error = await raises(DaytonaBadRequestError, lambda: sandbox.process.exec("true"))
        contains(str(error), "Is the Sandbox started?")
        await do(sandbox.start())
        same(sandbox.state.value, "started")
        same((await do(sandbox.process.exec("cat kept.txt"))).result.strip(), "kept")

    await with_sandbox(daytona, body)


async def archive_and_back(daytona):
    async def body(sandbox):
        await do(sandbox.process.exec("echo kept > kept.txt"))
        await do(sandbox.stop())
        await do(sandbox.archive())

        async def archived():
            await do(sandbox.refresh_data())
            return sandbox.state.value == "archived"

        await until(archived, "the sandbox is archived", seconds=60)
        await do(sandbox.start())
        same((await do(sandbox.process.exec("cat kept.txt"))).result.strip(), "kept")

    await with_sandbox(daytona, body)


async def archive_needs_a_stop(daytona):
    async def body(sandbox):
        await raises(DaytonaBadRequestError, lambda: sandbox.archive())

    await with_sandbox(daytona, body)


async def intervals_and_labels(daytona):
    async def body(sandbox):
        await do(sandbox.set_autostop_interval(31))
        await do(sandbox.set_auto_archive_interval(61))
        await do(sandbox.set_auto_delete_interval(-1))
        labels = await do(sandbox.set_labels({"x": "y"}))
        same(labels["x"], "y")
        await do(sandbox.refresh_activity())
        await do(sandbox.refresh_data())
        same(sandbox.auto_stop_interval, 31)
        same(sandbox.auto_archive_interval, 61)
        same(sandbox.auto_delete_interval, -1)
        same(sandbox.labels, {"x": "y"})

    await with_sandbox(daytona, body)


async def ephemeral_ends_with_its_stop(daytona):
    async def body(sandbox):
        await do(sandbox.stop())

        async def gone():
            try:
                await do(daytona.get(sandbox.id))
            except DaytonaNotFoundError:
                return True
            return False

        await until(gone, "the ephemeral sandbox is gone")

    await with_sandbox(daytona, body, auto_stop_interval=30, auto_delete_interval=0)


async def delete_frees_the_name(daytona):
    name = unique("again")
    for _ in range(2):
        sandbox = await do(daytona.create(CreateSandboxFromSnapshotParams(name=name)))
        await do(daytona.delete(sandbox, wait=True))
        await raises(DaytonaNotFoundError, lambda: daytona.get(name))
        await raises(DaytonaNotFoundError, lambda: daytona.delete(sandbox))


async def resize(daytona):
    async def body(sandbox):
        await do(sandbox.resize(Resources(cpu=2, memory=2)))
        await do(sandbox.refresh_data())
        same((sandbox.cpu, sandbox.memory), (2, 2))

    await with_sandbox(daytona, body)


async def fork_has_the_files_and_goes_its_own_way(daytona):
    async def body(sandbox):
        await do(sandbox.process.exec("echo one > a.txt"))
        fork = await do(sandbox.fork(name=unique("fork")))
        try:
            same((await do(fork.process.exec("cat a.txt"))).result.strip(), "one")
            await do(fork.process.exec("echo two > a.txt"))
            same((await do(sandbox.process.exec("cat a.txt"))).result.strip(), "one")
        finally:
            await do(daytona.delete(fork))

    await with_sandbox(daytona, body)


async def snapshot_of_a_sandbox(daytona):
    name = unique("from-sandbox")

    async def body(sandbox):
        await do(sandbox.process.exec("echo one > a.txt"))
        await do(sandbox.create_snapshot(name))

    await with_sandbox(daytona, body)

    async def active():
        return (await do(daytona.snapshot.get(name))).state == "active"

    await until(active, "the snapshot is active")

    async def inside(sandbox):
        same((await do(sandbox.process.exec("cat a.txt"))).result.strip(), "one")

    await with_sandbox(daytona, inside, snapshot=name)
    await do(daytona.snapshot.delete(await do(daytona.snapshot.get(name))))


async def many_at_once(daytona):
    """Creations do not disturb each other. The sync SDK runs them in threads, as a user would."""
    params = [CreateSandboxFromSnapshotParams(name=unique("many")) for _ in range(4)]
    if asyncio.iscoroutinefunction(daytona.create):
        made = await asyncio.gather(*(daytona.create(param) for param in params))
    else:
        made = await asyncio.gather(*(asyncio.to_thread(daytona.create, param) for param in params))
    try:
        same(len({box.id for box in made}), 4)
        for box in made:
            same((await do(box.process.exec("echo here"))).result.strip(), "here")
    finally:
        for box in made:
            await do(daytona.delete(box))


async def what_is_not_there_is_said(daytona):
    """Computer use answers 503, as Daytona without its plugin does."""

    async def body(sandbox):
        error = await raises(DaytonaError, lambda: sandbox.computer_use.start())
        same(error.status_code, 503)

    await with_sandbox(daytona, body)


CHECKS = [
    create_says_what_was_asked,
    stop_keeps_files_and_start_brings_them_back,
    archive_and_back,
    archive_needs_a_stop,
    intervals_and_labels,
    ephemeral_ends_with_its_stop,
    delete_frees_the_name,
    resize,
    fork_has_the_files_and_goes_its_own_way,
    snapshot_of_a_sandbox,
    many_at_once,
    what_is_not_there_is_said,
]
