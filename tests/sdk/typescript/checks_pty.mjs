// Terminals.

import { DaytonaError, DaytonaNotFoundError } from '@daytonaio/sdk'

import { contains, raises, same, unique } from './harness.mjs'

async function open(sandbox, options) {
  const decoder = new TextDecoder()
  const terminal = { output: '' }
  const onData = (data) => {
    terminal.output += decoder.decode(data, { stream: true })
  }
  terminal.handle = await sandbox.process.createPty({ onData, ...options })
  await terminal.handle.waitForConnection()
  return terminal
}

export async function a_shell_with_size_and_environment(sandbox) {
  const terminal = await open(sandbox, { id: unique('pty'), cwd: '/tmp', envs: { FOO: 'b a r' }, cols: 100, rows: 30 })
  await terminal.handle.sendInput('stty size; pwd; echo "[$FOO]"; exit 3\n')
  same((await terminal.handle.wait()).exitCode, 3)
  for (const expected of ['30 100', '/tmp', '[b a r]']) contains(terminal.output, expected)
}

export async function resize_list_and_info(sandbox) {
  const id = unique('pty')
  const terminal = await open(sandbox, { id })
  const found = await sandbox.process.resizePtySession(id, 123, 41)
  same([found.rows, found.cols], [41, 123])
  contains((await sandbox.process.listPtySessions()).map((info) => info.id), id)
  same((await sandbox.process.getPtySessionInfo(id)).active, true)
  await terminal.handle.sendInput('stty size; exit\n')
  same((await terminal.handle.wait()).exitCode, 0)
  contains(terminal.output, '41 123')
  await raises(DaytonaNotFoundError, () => sandbox.process.getPtySessionInfo(id))
}

export async function a_name_is_taken_once(sandbox) {
  const id = unique('pty')
  const terminal = await open(sandbox, { id })
  await raises(DaytonaError, () => open(sandbox, { id }))
  await terminal.handle.kill()
}

export async function kill(sandbox) {
  const terminal = await open(sandbox, { id: unique('pty') })
  await terminal.handle.kill()
  same((await terminal.handle.wait()).exitCode, 137)
}
