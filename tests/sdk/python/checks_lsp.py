"""A language server for Python."""

from daytona import DaytonaLspServerNotInitializedError, LspCompletionPosition

from harness import contains, do, raises, unique, until

SOURCE = b"class Greeter:\n    def greet(self):\n        return 'hello'\n\n\nGreeter().gr\n"


async def symbols_and_completions(sandbox):
    project = unique("project")
    home = await do(sandbox.get_work_dir())
    path = f"{home}/{project}"
    await do(sandbox.fs.upload_file(SOURCE, f"{path}/a.py"))
    server = await do(sandbox.create_lsp_server("python", path))
    await do(server.start())
    await do(server.did_open(f"{path}/a.py"))

    async def has_symbols():
        return "Greeter" in [symbol.name for symbol in await do(server.document_symbols(f"{path}/a.py"))]

    await until(has_symbols, "the server knows the class")
    found = await do(server.completions(f"{path}/a.py", LspCompletionPosition(line=5, character=12)))
    contains(" ".join(item.label for item in found.items), "greet")
    await do(server.sandbox_symbols("Greeter"))
    await do(server.did_close(f"{path}/a.py"))
    await do(server.stop())


async def nothing_before_the_start(sandbox):
    home = await do(sandbox.get_work_dir())
    server = await do(sandbox.create_lsp_server("python", f"{home}/{unique('none')}"))
    await raises(DaytonaLspServerNotInitializedError, lambda: server.document_symbols(f"{home}/none.py"))


CHECKS = [symbols_and_completions, nothing_before_the_start]
