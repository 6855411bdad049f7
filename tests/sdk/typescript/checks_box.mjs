// The sandbox itself: folders, figures, addresses.

import http from 'node:http'

import { contains, holds, same, until } from './harness.mjs'

export async function folders(sandbox) {
  const work = await sandbox.getWorkDir()
  holds((await sandbox.getUserHomeDir()).startsWith('/') && work.startsWith('/'), work)
  same((await sandbox.process.executeCommand('pwd')).result.trim(), work)
}

export async function figures(sandbox) {
  const metrics = await sandbox.getMetricsLatest()
  holds(metrics.cpuCount >= 1 && metrics.memTotal > 0, JSON.stringify(metrics))
}

export async function preview(sandbox) {
  await sandbox.process.executeCommand('mkdir -p site && echo hello > site/index.html')
  await sandbox.process.executeCommand('cd site && (python3 -m http.server 3457 >/dev/null 2>&1 &)')
  const link = await sandbox.getPreviewLink(3457)
  const ask = askByHost
  const withToken = () => ask(link.url, { 'X-Daytona-Preview-Token': link.token })
  await until(async () => (await withToken()).ok, 'the site answers')
  contains(await (await withToken()).text(), 'hello')
  const signed = await sandbox.getSignedPreviewUrl(3457, 60)
  contains(await (await ask(signed.url)).text(), 'hello')
  await sandbox.expireSignedPreviewUrl(3457, signed.token)
  for (const url of [signed.url, link.url]) holds(!(await ask(url)).ok, `${url} still works`)
}

// Asks for an address below `localhost`, which browsers resolve and not every resolver does.
function askByHost(url, headers = {}) {
  const { host, port, pathname } = new URL(url)
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port, path: pathname, headers: { ...headers, Host: host } }, (answer) => {
      let text = ''
      answer.on('data', (piece) => (text += piece))
      answer.on('end', () => resolve({ ok: answer.statusCode < 300, text: async () => text }))
    })
    request.on('error', reject)
  })
}

export async function signed_files(sandbox) {
  const upload = await sandbox.uploadUrl('signed.txt', 60)
  const headers = { 'Content-Type': 'application/octet-stream' }
  holds((await fetch(upload, { method: 'POST', body: 'by address', headers })).ok, 'the upload was refused')
  const download = await sandbox.downloadUrl('signed.txt', 60)
  same(await (await fetch(download)).text(), 'by address')
  holds(!(await fetch(download.replace('signed.txt', 'other.txt'))).ok, 'another file was given')
  await sandbox.rotateSigningKey()
  holds(!(await fetch(download)).ok, 'the old address still works')
}

export async function ssh_access(sandbox) {
  const access = await sandbox.createSshAccess(10)
  contains(access.sshCommand, access.token)
  same((await sandbox.validateSshAccess(access.token)).valid, true)
  await sandbox.revokeSshAccess(access.token)
  same((await sandbox.validateSshAccess(access.token)).valid, false)
}
