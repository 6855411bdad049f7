// The whole main surface of the TypeScript SDK: surface.mjs [name…] [-name…].

import { Daytona } from '@daytonaio/sdk'

import * as box from './checks_box.mjs'
import * as files from './checks_files.mjs'
import * as git from './checks_git.mjs'
import * as interpreter from './checks_interpreter.mjs'
import * as lifecycle from './checks_lifecycle.mjs'
import * as lsp from './checks_lsp.mjs'
import * as plane from './checks_plane.mjs'
import * as processes from './checks_process.mjs'
import * as pty from './checks_pty.mjs'
import { Report, unique } from './harness.mjs'

// These share one sandbox; those of `plane` and `lifecycle` make their own.
const inOneSandbox = { box, process: processes, pty, interpreter, files, git, lsp }

const report = new Report(process.argv.slice(2))
const daytona = new Daytona()

for (const [title, area] of Object.entries({ plane, lifecycle })) {
  for (const [name, check] of Object.entries(area)) await report.run(`${title}.${name}`, check, daytona)
}

const selected = Object.entries(inOneSandbox)
  .flatMap(([title, area]) => Object.entries(area).map(([name, check]) => [`${title}.${name}`, check]))
  .filter(([name]) => report.selects(name))
if (selected.length > 0) {
  const sandbox = await daytona.create({ name: unique('sdk'), language: 'python' })
  try {
    for (const [name, check] of selected) await report.run(name, check, sandbox)
  } finally {
    await daytona.delete(sandbox)
  }
}
report.finish()
