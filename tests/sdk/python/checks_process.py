"""Commands, code and sessions."""

from daytona import (
    CodeRunParams,
    DaytonaBadRequestError,
    DaytonaConflictError,
    DaytonaNotFoundError,
    DaytonaProcessExecutionTimeoutError,
    SessionExecuteRequest,
)

from harness import contains, do, holds, raises, same, unique, until


async def execute(sandbox):
    answer = await do(sandbox.process.exec("echo out; echo err >&2; exit 3", cwd="/tmp", env={"A": "b"}))
    same(answer.exit_code, 3)
    same(sorted(answer.result.split()), ["err", "out"])
    answer = await do(sandbox.process.exec("pwd; printf %s \"$A\"", cwd="/tmp", env={"A": "it's \"x\" $y"}))
    same(answer.result, "/tmp\nit's \"x\" $y")


async def execute_ends_with_its_timeout(sandbox):
    call = lambda: sandbox.process.exec("sleep 30", timeout=1)
    await raises(DaytonaProcessExecutionTimeoutError, call)


async def execute_refuses_nothing(sandbox):
    await raises(DaytonaBadRequestError, lambda: sandbox.process.exec(""))


async def execute_much_output(sandbox):
    answer = await do(sandbox.process.exec("head -c 3000000 /dev/zero | tr '\\0' x"))
    same(len(answer.result), 3000000)


async def run_code(sandbox):
    code = "import sys, os\nprint('x', sys.argv[1:], os.environ['E'])\nsys.exit(4)"
    params = CodeRunParams(argv=["a", "b c"], env={"E": "1"})
    answer = await do(sandbox.process.code_run(code, params))
    same(answer.exit_code, 4)
    contains(answer.result, "x ['a', 'b c'] 1")


async def sessions(sandbox):
    name = unique("session")
    process = sandbox.process
    await do(process.create_session(name))
    await raises(DaytonaConflictError, lambda: process.create_session(name))
    await do(process.execute_session_command(name, SessionExecuteRequest(command="cd /tmp; export KEPT=1")))
    request = SessionExecuteRequest(command="pwd; echo $KEPT; echo err >&2; (exit 5)")
    answer = await do(process.execute_session_command(name, request))
    same((answer.exit_code, answer.stdout, answer.stderr), (5, "/tmp\n1\n", "err\n"))
    logs = await do(process.get_session_command_logs(name, answer.cmd_id))
    same((logs.stdout, logs.stderr), ("/tmp\n1\n", "err\n"))
    same((await do(process.get_session_command(name, answer.cmd_id))).exit_code, 5)
    found = await do(process.get_session(name))
    same(found.commands[-1].id, answer.cmd_id)
    contains([session.session_id for session in await do(process.list_sessions())], name)
    await do(process.delete_session(name))
    await raises(DaytonaNotFoundError, lambda: process.get_session(name))


async def session_in_the_background(sandbox):
    """Output arrives while the command runs, input reaches it, and the stream ends with it."""
    name = unique("session")
    process = sandbox.process
    await do(process.create_session(name))
    command = "echo first; echo oops >&2; read line; echo got $line"
    request = SessionExecuteRequest(command=command, run_async=True)
    started = await do(process.execute_session_command(name, request))
    holds(started.exit_code is None, f"{started!r}")
    out, err = [], []

    async def has_begun():
        logs = await do(process.get_session_command_logs(name, started.cmd_id))
        return "first" in logs.stdout

    await until(has_begun, "the command has written")
    await do(process.send_session_command_input(name, started.cmd_id, "hello"))
    await do(process.get_session_command_logs_async(name, started.cmd_id, out.append, err.append))
    contains("".join(out), "first\n")
    contains("".join(out), "got hello\n")
    same("".join(err), "oops\n")

    async def has_ended():
        return (await do(process.get_session_command(name, started.cmd_id))).exit_code == 0

    await until(has_ended, "the command has its exit code")
    await do(process.delete_session(name))


async def session_streams_what_is_hard(sandbox):
    """Characters of several bytes, output without a newline, and much of it."""
    name = unique("session")
    await do(sandbox.process.create_session(name))
    command = "for i in $(seq 2000); do printf 'äöü€😀'; done; printf end"
    request = SessionExecuteRequest(command=command, run_async=True)
    started = await do(sandbox.process.execute_session_command(name, request))
    out, err = [], []
    await do(sandbox.process.get_session_command_logs_async(name, started.cmd_id, out.append, err.append))
    same("".join(out).rstrip("\n"), "äöü€😀" * 2000 + "end")
    same("".join(err), "")
    await do(sandbox.process.delete_session(name))


async def deleting_a_session_ends_its_command(sandbox):
    name = unique("session")
    await do(sandbox.process.create_session(name))
    request = SessionExecuteRequest(command="exec -a mark-4711 sleep 600 || sleep 600", run_async=True)
    await do(sandbox.process.execute_session_command(name, request))
    await do(sandbox.process.delete_session(name))

    async def ended():
        answer = await do(sandbox.process.exec("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"))
        return "sleep 600" not in answer.result and "mark-4711" not in answer.result

    await until(ended, "the command of the deleted session has ended")


CHECKS = [
    execute,
    execute_ends_with_its_timeout,
    execute_refuses_nothing,
    execute_much_output,
    run_code,
    sessions,
    session_in_the_background,
    session_streams_what_is_hard,
    deleting_a_session_ends_its_command,
]
