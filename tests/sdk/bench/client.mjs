// Commands and transfers through the TypeScript SDK, one for each line of standard input, which says which; the
// milliseconds go out.
//
// Usage: client.mjs SANDBOX FILE

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

import { Daytona } from '@daytonaio/sdk'

const sandbox = await new Daytona().get(process.argv[2])
const content = readFileSync(process.argv[3])

const actions = {
  exec: async () => {
    const answer = await sandbox.process.executeCommand('echo ready')
    if (answer.result.trim() !== 'ready') throw new Error(JSON.stringify(answer))
  },
  upload: () => sandbox.fs.uploadFile(content, 'file'),
  download: async () => {
    const received = await sandbox.fs.downloadFile('file')
    if (received.length !== content.length) throw new Error(`${received.length} bytes came`)
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const begun = performance.now()
  await actions[line.trim()]()
  console.log(performance.now() - begun)
}
process.exit(0)
