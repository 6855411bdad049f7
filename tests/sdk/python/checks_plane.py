"""The control plane apart from sandboxes: snapshots, volumes, secrets, keys."""

import asyncio
import inspect
import os

from daytona import (
    CreateSandboxFromImageParams,
    CreateSandboxFromSnapshotParams,
    CreateSecretParams,
    DaytonaAuthenticationError,
    DaytonaBadRequestError,
    DaytonaNotFoundError,
    Daytona,
    DaytonaConfig,
    ListSandboxesQuery,
    VolumeMount,
)

from harness import collect, contains, do, holds, raises, same, unique, until


async def wrong_key(_daytona):
    stranger = Daytona(DaytonaConfig(api_key="dtn_wrong"))
    await raises(DaytonaAuthenticationError, lambda: stranger.create())


async def unknown_snapshot(daytona):
    params = CreateSandboxFromSnapshotParams(snapshot="no-such-snapshot")
    error = await raises(DaytonaBadRequestError, lambda: daytona.create(params))
    contains(str(error), "Snapshot no-such-snapshot not found")


async def unknown_sandbox(daytona):
    error = await raises(DaytonaNotFoundError, lambda: daytona.get("no-such-sandbox"))
    contains(str(error), "Sandbox with ID or name no-such-sandbox not found")


async def snapshots(daytona):
    page = await do(daytona.snapshot.list(page=1, limit=100))
    holds(page.total >= 1, "there is no snapshot")
    first = page.items[0]
    same((await do(daytona.snapshot.get(first.name))).id, first.id)
    await raises(DaytonaNotFoundError, lambda: daytona.snapshot.get("no-such-snapshot"))


async def image_with_logs(daytona):
    """An image from a registry; its log arrives while it is pulled."""
    log = []
    params = CreateSandboxFromImageParams(image=os.environ["SDK_IMAGE"])

    def create():
        return daytona.create(params, timeout=110, on_snapshot_create_logs=log.append)

    # The sync SDK starts an event loop for the log, which a thread with one does not allow.
    is_async = inspect.iscoroutinefunction(daytona.create)
    sandbox = await (create() if is_async else asyncio.to_thread(create))
    try:
        same((await do(sandbox.process.exec("cat /etc/marker; id -u"))).result, "an image for tests\n0\n")
        same((await do(sandbox.process.exec("echo changed > /etc/marker && cat /etc/marker"))).result, "changed\n")
    finally:
        await do(daytona.delete(sandbox))


async def volumes(daytona):
    name = unique("volume")
    await raises(DaytonaNotFoundError, lambda: daytona.volume.get(name))
    volume = await do(daytona.volume.get(name, create=True))
    same(volume.name, name)

    async def ready():
        return (await do(daytona.volume.get(name))).state == "ready"

    await until(ready, "the volume is ready")
    contains([found.name for found in await do(daytona.volume.list())], name)
    mount = VolumeMount(volume_id=volume.id, mount_path="/data")
    params = CreateSandboxFromSnapshotParams(volumes=[mount])
    for command, expected in [("echo kept > /data/a && cat /data/a", "kept"), ("cat /data/a", "kept")]:
        sandbox = await do(daytona.create(params))
        try:
            same((await do(sandbox.process.exec(command))).result.strip(), expected)
        finally:
            await do(daytona.delete(sandbox, wait=True))
    await do(daytona.volume.delete(await do(daytona.volume.get(name))))


async def secrets(daytona):
    """The sandbox sees a placeholder, never the value."""
    name = unique("secret")
    secret = await do(daytona.secret.create(CreateSecretParams(name=name, value="the-real-value", hosts=["example.com"])))
    same(secret.name, name)
    contains([found.name for found in (await do(daytona.secret.list())).items], name)
    params = CreateSandboxFromSnapshotParams(secrets={"TOKEN": name})
    sandbox = await do(daytona.create(params))
    try:
        seen = (await do(sandbox.process.exec("printf %s \"$TOKEN\""))).result
        same(seen, secret.placeholder)
        holds("the-real-value" not in seen, "the value is in the sandbox")
    finally:
        await do(daytona.delete(sandbox))
    await do(daytona.secret.delete(secret.id))


async def lists_by_label(daytona):
    label = unique("label")
    made = [await do(daytona.create(CreateSandboxFromSnapshotParams(labels={"group": label}))) for _ in range(3)]
    try:
        # The smallest page makes the SDK ask for the next one.
        found = await collect(daytona.list(ListSandboxesQuery(labels={"group": label}, limit=1)))
        same(sorted(box.id for box in found), sorted(box.id for box in made))
    finally:
        for box in made:
            await do(daytona.delete(box))


CHECKS = [wrong_key, unknown_snapshot, unknown_sandbox, snapshots, image_with_logs, volumes, secrets, lists_by_label]
