// Git, against a remote that is a folder of the sandbox.

import { DaytonaGitBranchNotFoundError, DaytonaGitRepoNotFoundError } from '@daytonaio/sdk'

import { contains, holds, raises, same, unique } from './harness.mjs'

async function clone(sandbox) {
  const name = unique('repo')
  const home = await sandbox.getWorkDir()
  const setup = `set -e
cd ${home}
git init -q --bare -b main ${name}.git
git init -q -b main ${name}-seed
cd ${name}-seed
echo one > a.txt
git add .
git -c user.name=A -c user.email=a@b commit -q -m first
git push -q ${home}/${name}.git main
`
  const answer = await sandbox.process.executeCommand(setup)
  holds(answer.exitCode === 0, answer.result)
  await sandbox.git.clone(`file://${home}/${name}.git`, name)
  return [name, `${home}/${name}.git`]
}

export async function status_add_commit_push(sandbox) {
  const [path, remote] = await clone(sandbox)
  const status = await sandbox.git.status(path)
  same([status.currentBranch, status.fileStatus, status.ahead], ['main', [], 0])
  await sandbox.fs.uploadFile(Buffer.from('two'), `${path}/b.txt`)
  same((await sandbox.git.status(path)).fileStatus.map((entry) => entry.worktree), ['Untracked'])
  await sandbox.git.add(path, ['.'])
  const commit = await sandbox.git.commit(path, 'second', 'Au Thor', 'au@thor')
  await sandbox.git.push(path)
  const log = await sandbox.process.executeCommand(`git -C ${remote} log -1 --format='%H %an %ae %s' main`)
  same(log.result.trim(), `${commit.sha} Au Thor au@thor second`)
}

export async function branches(sandbox) {
  const [path, remote] = await clone(sandbox)
  await sandbox.git.createBranch(path, 'b1')
  await sandbox.git.checkoutBranch(path, 'b1')
  same((await sandbox.git.status(path)).currentBranch, 'b1')
  await sandbox.git.commit(path, 'on b1', 'A', 'a@b', true)
  await sandbox.git.push(path)
  contains((await sandbox.process.executeCommand(`git -C ${remote} branch`)).result, 'b1')
  await sandbox.git.checkoutBranch(path, 'main')
  await sandbox.git.deleteBranch(path, 'b1')
  same((await sandbox.git.branches(path)).branches, ['main'])
  await raises(DaytonaGitBranchNotFoundError, () => sandbox.git.checkoutBranch(path, 'none'))
}

export async function no_repository(sandbox) {
  await raises(DaytonaGitRepoNotFoundError, () => sandbox.git.status('/tmp'))
}
