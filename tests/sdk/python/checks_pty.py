"""Terminals."""

import asyncio

from daytona import DaytonaConflictError, DaytonaNotFoundError, PtySize

from harness import contains, do, raises, same, unique


class Terminal:
    """The two SDKs hand out output differently; a check reads it here."""

    def __init__(self):
        self.output = b""
        self.handle = None

    def take(self, data):
        self.output += data

    async def open(self, sandbox, name, **options):
        process = sandbox.process
        if asyncio.iscoroutinefunction(process.create_pty_session):
            options["on_data"] = self.take
        self.handle = await do(process.create_pty_session(id=name, **options))
        await do(self.handle.wait_for_connection())

    async def write(self, text):
        await do(self.handle.send_input(text))

    async def end(self):
        wait = self.handle.wait
        result = await wait() if asyncio.iscoroutinefunction(wait) else wait(on_data=self.take, timeout=30)
        return result


async def a_shell_with_size_and_environment(sandbox):
    terminal = Terminal()
    await terminal.open(sandbox, unique("pty"), cwd="/tmp", envs={"FOO": "b a r"}, pty_size=PtySize(rows=30, cols=100))
    await terminal.write("stty size; pwd; echo \"[$FOO]\"; test -t 0 && echo is-a-tty; exit 3\n")
    result = await terminal.end()
    same(result.exit_code, 3)
    for expected in [b"30 100", b"/tmp", b"[b a r]", b"is-a-tty"]:
        contains(terminal.output, expected)


async def resize_list_and_info(sandbox):
    name = unique("pty")
    terminal = Terminal()
    await terminal.open(sandbox, name)
    found = await do(sandbox.process.resize_pty_session(name, PtySize(rows=41, cols=123)))
    same((found.rows, found.cols), (41, 123))
    contains([info.id for info in await do(sandbox.process.list_pty_sessions())], name)
    info = await do(sandbox.process.get_pty_session_info(name))
    same((info.id, info.active, info.cols), (name, True, 123))
    await terminal.write("stty size; exit\n")
    same((await terminal.end()).exit_code, 0)
    contains(terminal.output, b"41 123")
    await raises(DaytonaNotFoundError, lambda: sandbox.process.get_pty_session_info(name))


async def a_name_is_taken_once(sandbox):
    name = unique("pty")
    terminal = Terminal()
    await terminal.open(sandbox, name)
    await raises(DaytonaConflictError, lambda: Terminal().open(sandbox, name))
    await do(terminal.handle.kill())


async def kill(sandbox):
    terminal = Terminal()
    await terminal.open(sandbox, unique("pty"))
    await do(terminal.handle.kill())
    same((await terminal.end()).exit_code, 137)


async def interrupt(sandbox):
    terminal = Terminal()
    await terminal.open(sandbox, unique("pty"))
    await terminal.write("sleep 600\n")
    await asyncio.sleep(0.5)
    await terminal.write("\x03")
    await terminal.write("echo after-$((6*7)); exit\n")
    await terminal.end()
    contains(terminal.output, b"after-42")


CHECKS = [a_shell_with_size_and_environment, resize_list_and_info, a_name_is_taken_once, kill, interrupt]
