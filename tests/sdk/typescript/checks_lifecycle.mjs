// One sandbox from creation to its end.

import { DaytonaBadRequestError, DaytonaConflictError, DaytonaError, DaytonaNotFoundError } from '@daytonaio/sdk'

import { contains, raises, same, unique, until } from './harness.mjs'

async function withSandbox(daytona, params, body) {
  const sandbox = await daytona.create(params)
  try {
    await body(sandbox)
  } finally {
    await daytona.delete(sandbox).catch((error) => {
      if (!(error instanceof DaytonaNotFoundError)) throw error
    })
  }
}

const output = async (sandbox, command) => (await sandbox.process.executeCommand(command)).result.trim()

export async function create_says_what_was_asked(daytona) {
  const name = unique('full')
  const params = {
    name,
    language: 'typescript',
    envVars: { A: '1' },
    labels: { l: 'v' },
    autoStopInterval: 30,
    autoArchiveInterval: 60,
    autoDeleteInterval: 90,
  }
  await withSandbox(daytona, params, async (sandbox) => {
    same([sandbox.name, sandbox.state, sandbox.env.A, sandbox.labels.l], [name, 'started', '1', 'v'])
    same([sandbox.autoStopInterval, sandbox.autoArchiveInterval, sandbox.autoDeleteInterval], [30, 60, 90])
    same(await output(sandbox, 'echo $A'), '1')
    same((await daytona.get(name)).id, sandbox.id)
    await raises(DaytonaConflictError, () => daytona.create({ name }))
  })
}

export async function stop_keeps_files_and_start_brings_them_back(daytona) {
  await withSandbox(daytona, {}, async (sandbox) => {
    await output(sandbox, 'echo kept > kept.txt')
    await sandbox.stop()
    same(sandbox.state, 'stopped')
    const error = await raises(DaytonaBadRequestError, () => sandbox.process.executeCommand('true'))
    contains(error.message, 'Is the Sandbox started?')
    await sandbox.start()
    same(sandbox.state, 'started')
    same(await output(sandbox, 'cat kept.txt'), 'kept')
  })
}

export async function archive_and_back(daytona) {
  await withSandbox(daytona, {}, async (sandbox) => {
    await output(sandbox, 'echo kept > kept.txt')
    await sandbox.stop()
    await sandbox.archive()
    const archived = async () => {
      await sandbox.refreshData()
      return sandbox.state === 'archived'
    }
    await until(archived, 'the sandbox is archived', 60)
    await sandbox.start()
    same(await output(sandbox, 'cat kept.txt'), 'kept')
  })
}

export async function intervals_and_labels(daytona) {
  await withSandbox(daytona, {}, async (sandbox) => {
    await sandbox.setAutostopInterval(31)
    await sandbox.setAutoArchiveInterval(61)
    await sandbox.setAutoDeleteInterval(-1)
    same(await sandbox.setLabels({ x: 'y' }), { x: 'y' })
    await sandbox.refreshActivity()
    await sandbox.refreshData()
    same([sandbox.autoStopInterval, sandbox.autoArchiveInterval, sandbox.autoDeleteInterval], [31, 61, -1])
    same(sandbox.labels, { x: 'y' })
  })
}

export async function ephemeral_ends_with_its_stop(daytona) {
  await withSandbox(daytona, { ephemeral: true, autoStopInterval: 30 }, async (sandbox) => {
    await sandbox.stop()
    const gone = () =>
      daytona.get(sandbox.id).then(
        () => false,
        (error) => error instanceof DaytonaNotFoundError,
      )
    await until(gone, 'the ephemeral sandbox is gone')
  })
}

export async function resize(daytona) {
  await withSandbox(daytona, {}, async (sandbox) => {
    await sandbox.resize({ cpu: 2, memory: 2 })
    await sandbox.refreshData()
    same([sandbox.cpu, sandbox.memory], [2, 2])
  })
}

export async function fork_has_the_files_and_goes_its_own_way(daytona) {
  await withSandbox(daytona, {}, async (sandbox) => {
    await output(sandbox, 'echo one > a.txt')
    const fork = await sandbox.fork({ name: unique('fork') })
    try {
      same(await output(fork, 'cat a.txt'), 'one')
      await output(fork, 'echo two > a.txt')
      same(await output(sandbox, 'cat a.txt'), 'one')
    } finally {
      await daytona.delete(fork)
    }
  })
}

export async function many_at_once(daytona) {
  const made = await Promise.all([1, 2, 3, 4].map(() => daytona.create({ name: unique('many') })))
  try {
    same(new Set(made.map((box) => box.id)).size, 4)
    same(await Promise.all(made.map((box) => output(box, 'echo here'))), ['here', 'here', 'here', 'here'])
  } finally {
    await Promise.all(made.map((box) => daytona.delete(box)))
  }
}

export async function what_is_not_there_is_said(daytona) {
  await withSandbox(daytona, {}, async (sandbox) => {
    const error = await raises(DaytonaError, () => sandbox.computerUse.start())
    same(error.statusCode, 503)
  })
}
