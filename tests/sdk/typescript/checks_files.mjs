// Files in and out.

import { DaytonaConflictError, DaytonaFileNotFoundError, DaytonaNotFoundError } from '@daytonaio/sdk'

import { contains, holds, raises, same, unique } from './harness.mjs'

async function folder(sandbox) {
  const name = unique('folder')
  await sandbox.fs.createFolder(name, '755')
  return name
}

export async function up_and_down(sandbox) {
  const name = await folder(sandbox)
  const everything = Buffer.from(Array.from({ length: 1 << 20 }, (_, index) => index & 255))
  for (const [path, content] of [
    ['deep/er/a.txt', Buffer.from('hello')],
    ['empty', Buffer.alloc(0)],
    ['bin', everything],
    ['ein "Name" mit ü & %20.txt', Buffer.from('odd')],
  ]) {
    await sandbox.fs.uploadFile(content, `${name}/${path}`)
    holds((await sandbox.fs.downloadFile(`${name}/${path}`)).equals(content), `${path} came back changed`)
  }
}

export async function many_at_once(sandbox) {
  const name = await folder(sandbox)
  const numbers = [...Array(20).keys()]
  const uploads = numbers.map((number) => ({ source: Buffer.from(`${number}`), destination: `${name}/${number}` }))
  await sandbox.fs.uploadFiles(uploads)
  const asked = [...numbers, 'none'].map((number) => ({ source: `${name}/${number}` }))
  const found = await sandbox.fs.downloadFiles(asked)
  same(found.slice(0, 20).map((answer) => answer.result.toString()), numbers.map(String))
  holds(found[20].error, 'no error for a missing file')
}

export async function missing(sandbox) {
  await raises(DaytonaFileNotFoundError, () => sandbox.fs.downloadFile('none/at/all'))
  await raises(DaytonaNotFoundError, () => sandbox.fs.getFileDetails('none/at/all'))
}

export async function list_info_permissions_moves(sandbox) {
  const name = await folder(sandbox)
  await sandbox.fs.uploadFile(Buffer.from('hello'), `${name}/a.txt`)
  await sandbox.fs.createFolder(`${name}/sub`, '700')
  same((await sandbox.fs.listFiles(name)).map((entry) => entry.name).sort(), ['a.txt', 'sub'])
  await sandbox.fs.setFilePermissions(`${name}/a.txt`, { mode: '600' })
  same((await sandbox.fs.getFileDetails(`${name}/a.txt`)).permissions, '0600')
  await sandbox.fs.moveFiles(`${name}/a.txt`, `${name}/b.txt`)
  await sandbox.fs.uploadFile(Buffer.from('y'), `${name}/c.txt`)
  await raises(DaytonaConflictError, () => sandbox.fs.moveFiles(`${name}/b.txt`, `${name}/c.txt`))
  await sandbox.fs.deleteFile(name, true)
  await raises(DaytonaNotFoundError, () => sandbox.fs.listFiles(name))
}

export async function find_search_replace(sandbox) {
  const name = await folder(sandbox)
  await sandbox.fs.uploadFile(Buffer.from('one\nhello a.b\n'), `${name}/a.txt`)
  await sandbox.fs.uploadFile(Buffer.from('hello axb\n'), `${name}/b.md`)
  const matches = await sandbox.fs.findFiles(name, 'a.b')
  same(matches.map((match) => [match.line, match.content]), [[2, 'hello a.b']])
  const found = await sandbox.fs.searchFiles(name, '*.txt')
  same(found.files.length, 1)
  contains(found.files[0], 'a.txt')
  const results = await sandbox.fs.replaceInFiles([`${name}/a.txt`], 'hello', 'bye')
  same(results.map((result) => result.success), [true])
  same((await sandbox.fs.downloadFile(`${name}/a.txt`)).toString(), 'one\nbye a.b\n')
}
