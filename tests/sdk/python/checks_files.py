"""Files in and out."""

import os
import tempfile

from daytona import (
    DaytonaConflictError,
    DaytonaFileNotFoundError,
    DaytonaNotFoundError,
    FileDownloadRequest,
    FileUpload,
)

from harness import collect, contains, do, holds, raises, same, unique


async def folder(sandbox):
    name = unique("folder")
    await do(sandbox.fs.create_folder(name, "755"))
    return name


async def up_and_down(sandbox):
    name = await folder(sandbox)
    await do(sandbox.fs.upload_file(b"hello", f"{name}/deep/er/a.txt"))
    same(await do(sandbox.fs.download_file(f"{name}/deep/er/a.txt")), b"hello")
    await do(sandbox.fs.upload_file(b"", f"{name}/empty"))
    same(await do(sandbox.fs.download_file(f"{name}/empty")), b"")
    everything = bytes(range(256)) * 4096
    await do(sandbox.fs.upload_file(everything, f"{name}/bin"))
    same(await do(sandbox.fs.download_file(f"{name}/bin")), everything)
    odd = f"{name}/ein \"Name\" mit ü & %20.txt"
    await do(sandbox.fs.upload_file(b"odd", odd))
    same(await do(sandbox.fs.download_file(odd)), b"odd")


async def many_at_once(sandbox):
    name = await folder(sandbox)
    files = [FileUpload(source=f"{number}".encode(), destination=f"{name}/{number}") for number in range(20)]
    await do(sandbox.fs.upload_files(files))
    asked = [FileDownloadRequest(source=f"{name}/{number}") for number in range(20)]
    asked.append(FileDownloadRequest(source=f"{name}/none"))
    found = await do(sandbox.fs.download_files(asked))
    same([answer.result for answer in found[:20]], [f"{number}".encode() for number in range(20)])
    holds(found[20].error, "no error for a missing file")
    same(found[20].error_details.code, "FILE_NOT_FOUND")


async def large_by_stream(sandbox):
    name = await folder(sandbox)
    size = 32 << 20
    with tempfile.TemporaryDirectory() as local:
        source = os.path.join(local, "source")
        with open(source, "wb") as out:
            out.write(os.urandom(1 << 20) * 32)
        await do(sandbox.fs.upload_file(source, f"{name}/large"))
        same((await do(sandbox.fs.get_file_info(f"{name}/large"))).size, size)
        back = b"".join(await collect(sandbox.fs.download_file_stream(f"{name}/large")))
        with open(source, "rb") as original:
            holds(back == original.read(), f"{len(back)} bytes came back changed")


async def missing(sandbox):
    await raises(DaytonaFileNotFoundError, lambda: sandbox.fs.download_file("none/at/all"))
    await raises(DaytonaNotFoundError, lambda: sandbox.fs.get_file_info("none/at/all"))
    await raises(DaytonaNotFoundError, lambda: sandbox.fs.list_files("none/at/all"))


async def list_and_info(sandbox):
    name = await folder(sandbox)
    await do(sandbox.fs.upload_file(b"hello", f"{name}/a.txt"))
    await do(sandbox.fs.create_folder(f"{name}/sub", "700"))
    found = {entry.name: entry for entry in await do(sandbox.fs.list_files(name))}
    same(sorted(found), ["a.txt", "sub"])
    same((found["a.txt"].is_dir, found["a.txt"].size, found["sub"].is_dir), (False, 5, True))
    info = await do(sandbox.fs.get_file_info(f"{name}/a.txt"))
    same((info.mode, info.permissions), ("-rw-r--r--", "0644"))


async def permissions_and_moves(sandbox):
    name = await folder(sandbox)
    await do(sandbox.fs.upload_file(b"x", f"{name}/a"))
    await do(sandbox.fs.set_file_permissions(f"{name}/a", mode="600"))
    same((await do(sandbox.fs.get_file_info(f"{name}/a"))).permissions, "0600")
    await do(sandbox.fs.move_files(f"{name}/a", f"{name}/b"))
    await do(sandbox.fs.upload_file(b"y", f"{name}/c"))
    await raises(DaytonaConflictError, lambda: sandbox.fs.move_files(f"{name}/b", f"{name}/c"))
    await do(sandbox.fs.delete_file(f"{name}/b"))
    await raises(DaytonaNotFoundError, lambda: sandbox.fs.get_file_info(f"{name}/b"))
    await do(sandbox.fs.delete_file(name, recursive=True))
    await raises(DaytonaNotFoundError, lambda: sandbox.fs.list_files(name))


async def find_search_replace(sandbox):
    name = await folder(sandbox)
    await do(sandbox.fs.upload_file(b"one\nhello a.b\n", f"{name}/a.txt"))
    await do(sandbox.fs.upload_file(b"hello axb\n", f"{name}/b.md"))
    matches = await do(sandbox.fs.find_files(name, "a.b"))
    same([(match.line, match.content) for match in matches], [(2, "hello a.b")])
    found = await do(sandbox.fs.search_files(name, "*.txt"))
    same(len(found.files), 1)
    contains(found.files[0], "a.txt")
    results = await do(sandbox.fs.replace_in_files([f"{name}/a.txt", f"{name}/none"], "hello", "bye"))
    same([result.success for result in results], [True, False])
    same(await do(sandbox.fs.download_file(f"{name}/a.txt")), b"one\nbye a.b\n")


CHECKS = [
    up_and_down,
    many_at_once,
    large_by_stream,
    missing,
    list_and_info,
    permissions_and_moves,
    find_search_replace,
]
