"""The Python interpreter with its contexts."""

from daytona import DaytonaTimeoutError

from harness import contains, do, holds, raises, same


async def state_is_kept(sandbox):
    interpreter = sandbox.code_interpreter
    await do(interpreter.run_code("x = 41"))
    result = await do(interpreter.run_code("import sys\nprint(x + 1)\nprint('oops', file=sys.stderr)"))
    same((result.stdout, result.stderr, result.error), ("42\n", "oops\n", None))


async def errors_are_told(sandbox):
    result = await do(sandbox.code_interpreter.run_code("1 / 0"))
    same(result.error.name, "ZeroDivisionError")
    contains(result.error.traceback, "1 / 0")


async def output_arrives_in_pieces(sandbox):
    pieces = []
    code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.2)"
    await do(sandbox.code_interpreter.run_code(code, on_stdout=lambda message: pieces.append(message.output)))
    same("".join(pieces), "0\n1\n2\n")
    holds(len(pieces) > 1, f"all came at once: {pieces!r}")


async def environment(sandbox):
    code = "import os\nprint(os.environ['E'])"
    same((await do(sandbox.code_interpreter.run_code(code, envs={"E": "1"}))).stdout, "1\n")


async def contexts_are_apart(sandbox):
    interpreter = sandbox.code_interpreter
    context = await do(interpreter.create_context(cwd="/tmp"))
    await do(interpreter.run_code("y = 1"))
    result = await do(interpreter.run_code("import os\nprint(os.getcwd(), 'y' in globals())", context=context))
    same(result.stdout, "/tmp False\n")
    contains([found.id for found in await do(interpreter.list_contexts())], context.id)
    await do(interpreter.delete_context(context))
    holds(context.id not in [found.id for found in await do(interpreter.list_contexts())], "still listed")


async def timeout(sandbox):
    call = lambda: sandbox.code_interpreter.run_code("import time\ntime.sleep(60)", timeout=1)
    await raises(DaytonaTimeoutError, call)


CHECKS = [state_is_kept, errors_are_told, output_arrives_in_pieces, environment, contexts_are_apart, timeout]
