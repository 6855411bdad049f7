// A language server for Python.

import { contains, unique, until } from './harness.mjs'

const SOURCE = "class Greeter:\n    def greet(self):\n        return 'hello'\n\n\nGreeter().gr\n"

export async function symbols_and_completions(sandbox) {
  const path = `${await sandbox.getWorkDir()}/${unique('project')}`
  await sandbox.fs.uploadFile(Buffer.from(SOURCE), `${path}/a.py`)
  const server = await sandbox.createLspServer('python', path)
  await server.start()
  await server.didOpen(`${path}/a.py`)
  const knows = async () => (await server.documentSymbols(`${path}/a.py`)).some((symbol) => symbol.name === 'Greeter')
  await until(knows, 'the server knows the class')
  const found = await server.completions(`${path}/a.py`, { line: 5, character: 12 })
  contains(found.items.map((item) => item.label).join(' '), 'greet')
  await server.sandboxSymbols('Greeter')
  await server.didClose(`${path}/a.py`)
  await server.stop()
}
