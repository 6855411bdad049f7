"""The sandbox itself: folders, figures, addresses."""

import http.client
import urllib.error
import urllib.parse
import urllib.request

from harness import contains, do, holds, same


async def folders(sandbox):
    home = await do(sandbox.get_user_home_dir())
    work = await do(sandbox.get_work_dir())
    holds(home.startswith("/") and work.startswith("/"), f"{home!r}, {work!r}")
    same((await do(sandbox.process.exec("pwd"))).result.strip(), work)


async def figures(sandbox):
    metrics = await do(sandbox.get_metrics_latest())
    holds(metrics.cpu_count >= 1 and 0 < metrics.mem_used <= metrics.mem_total, f"{metrics!r}")
    holds(0 < metrics.disk_used <= metrics.disk_total, f"{metrics!r}")


async def environment(sandbox):
    await do(sandbox.update_env({"FROM_OUTSIDE": "1"}))
    same((await do(sandbox.process.exec("printf %s \"$FROM_OUTSIDE\""))).result, "1")
    await do(sandbox.update_env({}, unset=["FROM_OUTSIDE"]))
    same((await do(sandbox.process.exec("printf %s \"$FROM_OUTSIDE\""))).result, "")


async def preview(sandbox):
    """What listens inside is reached from outside with the token, and only with it."""
    await do(sandbox.process.exec("mkdir -p site && echo hello > site/index.html"))
    await do(sandbox.process.exec("cd site && (python3 -m http.server 3456 >/dev/null 2>&1 &) ; sleep 1"))
    link = await do(sandbox.get_preview_link(3456))
    same(by_host(link.url, {"X-Daytona-Preview-Token": link.token}), (200, "hello\n"))
    signed = await do(sandbox.create_signed_preview_url(3456, expires_in_seconds=60))
    same(by_host(signed.url), (200, "hello\n"))
    await do(sandbox.expire_signed_preview_url(3456, signed.token))
    for address in [signed.url, link.url]:
        holds(by_host(address)[0] >= 400, f"{address} still works")


def by_host(address, headers=None):
    """Asks for an address below `localhost`, which browsers resolve and not every resolver does."""
    parts = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=10)
    connection.request("GET", parts.path or "/", headers={"Host": parts.netloc, **(headers or {})})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


async def signed_files(sandbox):
    address = await do(sandbox.upload_url("signed.txt", ttl_seconds=60))
    request = urllib.request.Request(address, data=b"by address", method="POST")
    request.add_header("Content-Type", "application/octet-stream")
    urllib.request.urlopen(request, timeout=10).read()
    address = await do(sandbox.download_url("signed.txt", ttl_seconds=60))
    same(urllib.request.urlopen(address, timeout=10).read(), b"by address")
    refused(address.replace("signed.txt", "other.txt"))
    await do(sandbox.rotate_signing_key())
    refused(address)


async def ssh_access(sandbox):
    access = await do(sandbox.create_ssh_access(expires_in_minutes=10))
    contains(access.ssh_command, access.token)
    found = await do(sandbox.validate_ssh_access(access.token))
    same((found.valid, found.sandbox_id), (True, sandbox.id))
    await do(sandbox.revoke_ssh_access(access.token))
    same((await do(sandbox.validate_ssh_access(access.token))).valid, False)


def refused(address):
    try:
        urllib.request.urlopen(address, timeout=10).read()
    except urllib.error.HTTPError as error:
        holds(400 <= error.code < 500, f"status {error.code}")
        return
    raise AssertionError("the address still works")


CHECKS = [folders, figures, environment, preview, signed_files, ssh_access]
