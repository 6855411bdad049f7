// Milliseconds from the wish for a sandbox to its first output, through the TypeScript SDK.
//
// Usage: interactive.mjs sequential|burst COUNT

import { Daytona } from '@daytonaio/sdk'

const [mode, count] = [process.argv[2], Number(process.argv[3])]
const daytona = new Daytona()

async function one() {
  const begun = performance.now()
  const sandbox = await daytona.create()
  const answer = await sandbox.process.executeCommand('echo ready')
  const took = performance.now() - begun
  if (answer.result.trim() !== 'ready') throw new Error(JSON.stringify(answer))
  return { took, sandbox }
}

// The first one loads modules and fills pools.
await daytona.delete((await one()).sandbox)
const taken = []
if (mode === 'sequential') {
  for (let round = 0; round < count; round++) {
    const { took, sandbox } = await one()
    taken.push(took)
    await daytona.delete(sandbox)
  }
} else {
  const outcomes = await Promise.allSettled(Array.from({ length: count }, one))
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') {
      console.error('failed:', outcome.reason)
      continue
    }
    taken.push(outcome.value.took)
    await daytona.delete(outcome.value.sandbox)
  }
}
console.log(JSON.stringify(taken))
process.exit(0)
