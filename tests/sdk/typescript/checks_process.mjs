// Commands, code and sessions.

import {
  CodeRunParams,
  DaytonaConflictError,
  DaytonaNotFoundError,
  DaytonaProcessExecutionTimeoutError,
} from '@daytonaio/sdk'

import { contains, raises, same, unique, until } from './harness.mjs'

export async function execute(sandbox) {
  const merged = await sandbox.process.executeCommand('echo out; echo err >&2; exit 3')
  same([merged.exitCode, merged.result.trim().split('\n').sort()], [3, ['err', 'out']])
  const placed = await sandbox.process.executeCommand('pwd; printf %s "$A"', '/tmp', { A: 'it\'s "x" $y' })
  same(placed.result, '/tmp\nit\'s "x" $y')
}

export async function execute_ends_with_its_timeout(sandbox) {
  const call = () => sandbox.process.executeCommand('sleep 30', undefined, undefined, 1)
  await raises(DaytonaProcessExecutionTimeoutError, call)
}

export async function run_code(sandbox) {
  const params = new CodeRunParams()
  params.argv = ['a', 'b c']
  params.env = { E: '1' }
  const code = "import sys, os\nprint('x', sys.argv[1:], os.environ['E'])\nsys.exit(4)"
  const answer = await sandbox.process.codeRun(code, params)
  same(answer.exitCode, 4)
  contains(answer.result, "x ['a', 'b c'] 1")
}

export async function sessions(sandbox) {
  const name = unique('session')
  const { process } = sandbox
  await process.createSession(name)
  await raises(DaytonaConflictError, () => process.createSession(name))
  await process.executeSessionCommand(name, { command: 'cd /tmp; export KEPT=1' })
  const answer = await process.executeSessionCommand(name, { command: 'pwd; echo $KEPT; echo err >&2; (exit 5)' })
  same([answer.exitCode, answer.stdout, answer.stderr], [5, '/tmp\n1\n', 'err\n'])
  const out = []
  const err = []
  await process.getSessionCommandLogs(
    name,
    answer.cmdId,
    (chunk) => out.push(chunk),
    (chunk) => err.push(chunk),
  )
  same([out.join(''), err.join('')], ['/tmp\n1\n', 'err\n'])
  same((await process.getSessionCommand(name, answer.cmdId)).exitCode, 5)
  same((await process.getSession(name)).commands.at(-1).id, answer.cmdId)
  contains((await process.listSessions()).map((session) => session.sessionId), name)
  await process.deleteSession(name)
  await raises(DaytonaNotFoundError, () => process.getSession(name))
}

export async function session_in_the_background(sandbox) {
  const name = unique('session')
  const { process } = sandbox
  await process.createSession(name)
  const command = 'echo first; echo oops >&2; read line; echo got $line'
  const { cmdId } = await process.executeSessionCommand(name, { command, runAsync: true })
  const out = []
  const err = []
  const followed = process.getSessionCommandLogs(
    name,
    cmdId,
    (chunk) => out.push(chunk),
    (chunk) => err.push(chunk),
  )
  await until(() => out.join('').includes('first'), 'the output has begun')
  await process.sendSessionCommandInput(name, cmdId, 'hello')
  await followed
  contains(out.join(''), 'got hello\n')
  same(err.join(''), 'oops\n')
  await until(async () => (await process.getSessionCommand(name, cmdId)).exitCode === 0, 'it has its exit code')
  await process.deleteSession(name)
}

export async function session_streams_what_is_hard(sandbox) {
  const name = unique('session')
  await sandbox.process.createSession(name)
  const command = "for i in $(seq 2000); do printf 'äöü€😀'; done; printf end"
  const { cmdId } = await sandbox.process.executeSessionCommand(name, { command, runAsync: true })
  const out = []
  await sandbox.process.getSessionCommandLogs(
    name,
    cmdId,
    (chunk) => out.push(chunk),
    () => {},
  )
  same(out.join('').trimEnd(), `${'äöü€😀'.repeat(2000)}end`)
  await sandbox.process.deleteSession(name)
}
