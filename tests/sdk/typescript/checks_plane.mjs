// The control plane apart from sandboxes: snapshots, volumes, secrets, keys.

import { Daytona, DaytonaAuthenticationError, DaytonaBadRequestError, DaytonaNotFoundError } from '@daytonaio/sdk'

import { contains, holds, raises, same, unique, until } from './harness.mjs'

export async function wrong_key() {
  const stranger = new Daytona({ apiKey: 'dtn_wrong' })
  await raises(DaytonaAuthenticationError, () => stranger.create())
}

export async function unknown_snapshot(daytona) {
  const error = await raises(DaytonaBadRequestError, () => daytona.create({ snapshot: 'no-such-snapshot' }))
  contains(error.message, 'Snapshot no-such-snapshot not found')
}

export async function unknown_sandbox(daytona) {
  await raises(DaytonaNotFoundError, () => daytona.get('no-such-sandbox'))
}

export async function snapshots(daytona) {
  const page = await daytona.snapshot.list(1, 100)
  holds(page.total >= 1, 'there is no snapshot')
  same((await daytona.snapshot.get(page.items[0].name)).id, page.items[0].id)
}

export async function image_with_logs(daytona) {
  const log = []
  const sandbox = await daytona.create(
    { image: process.env.SDK_IMAGE },
    { timeout: 110, onSnapshotCreateLogs: (chunk) => log.push(chunk) },
  )
  try {
    same((await sandbox.process.executeCommand('cat /etc/marker; id -u')).result, 'an image for tests\n0\n')
  } finally {
    await daytona.delete(sandbox)
  }
}

export async function volumes(daytona) {
  const name = unique('volume')
  const volume = await daytona.volume.create(name)
  same(volume.name, name)
  await until(async () => (await daytona.volume.get(name)).state === 'ready', 'the volume is ready')
  contains((await daytona.volume.list()).map((found) => found.name), name)
  const mounts = [{ volumeId: volume.id, mountPath: '/data' }]
  for (const command of ['echo kept > /data/a && cat /data/a', 'cat /data/a']) {
    const sandbox = await daytona.create({ volumes: mounts })
    try {
      same((await sandbox.process.executeCommand(command)).result.trim(), 'kept')
    } finally {
      await daytona.delete(sandbox, 60, true)
    }
  }
  await daytona.volume.delete(await daytona.volume.get(name))
}

export async function secrets(daytona) {
  const name = unique('secret')
  const secret = await daytona.secret.create({ name, value: 'the-real-value', hosts: ['example.com'] })
  contains((await daytona.secret.list()).items.map((found) => found.name), name)
  const sandbox = await daytona.create({ secrets: { TOKEN: name } })
  try {
    same((await sandbox.process.executeCommand('printf %s "$TOKEN"')).result, secret.placeholder)
  } finally {
    await daytona.delete(sandbox)
  }
  await daytona.secret.delete(secret.id)
}

export async function lists_by_label(daytona) {
  const label = unique('label')
  const made = []
  try {
    for (let count = 0; count < 3; count += 1) made.push(await daytona.create({ labels: { group: label } }))
    const found = []
    // The smallest page makes the SDK ask for the next one.
    for await (const box of daytona.list({ labels: { group: label }, limit: 1 })) found.push(box.id)
    same(found.sort(), made.map((box) => box.id).sort())
  } finally {
    for (const box of made) await daytona.delete(box)
  }
}
