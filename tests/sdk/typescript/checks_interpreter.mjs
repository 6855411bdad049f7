// The Python interpreter with its contexts.

import { DaytonaTimeoutError } from '@daytonaio/sdk'

import { contains, holds, raises, same } from './harness.mjs'

export async function state_is_kept(sandbox) {
  await sandbox.codeInterpreter.runCode('x = 41')
  const result = await sandbox.codeInterpreter.runCode("import sys\nprint(x + 1)\nprint('oops', file=sys.stderr)")
  same([result.stdout, result.stderr, result.error], ['42\n', 'oops\n', undefined])
}

export async function errors_are_told(sandbox) {
  const { error } = await sandbox.codeInterpreter.runCode('1 / 0')
  same(error.name, 'ZeroDivisionError')
  contains(error.traceback, '1 / 0')
}

export async function contexts_are_apart(sandbox) {
  const context = await sandbox.codeInterpreter.createContext('/tmp')
  await sandbox.codeInterpreter.runCode('y = 1')
  const code = "import os\nprint(os.getcwd(), 'y' in globals())"
  same((await sandbox.codeInterpreter.runCode(code, { context })).stdout, '/tmp False\n')
  const listed = async () => (await sandbox.codeInterpreter.listContexts()).map((found) => found.id)
  contains(await listed(), context.id)
  await sandbox.codeInterpreter.deleteContext(context)
  holds(!(await listed()).includes(context.id), 'still listed')
}

export async function timeout(sandbox) {
  const call = () => sandbox.codeInterpreter.runCode('import time\ntime.sleep(60)', { timeout: 1 })
  await raises(DaytonaTimeoutError, call)
}
