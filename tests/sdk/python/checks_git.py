"""Git, against a remote that is a folder of the sandbox."""

from daytona import (
    DaytonaError,
    DaytonaGitBranchExistsError,
    DaytonaGitBranchNotFoundError,
    DaytonaGitRepoNotFoundError,
)

from harness import contains, do, holds, raises, same, unique

SETUP = """set -e
cd {home}
git init -q --bare -b main {name}.git
git init -q -b main {name}-seed
cd {name}-seed
echo one > a.txt
git add .
git -c user.name=A -c user.email=a@b commit -q -m first
git push -q {home}/{name}.git main
"""


async def clone(sandbox):
    """The path of a fresh clone, and of its remote."""
    name = unique("repo")
    home = await do(sandbox.get_work_dir())
    answer = await do(sandbox.process.exec(SETUP.format(home=home, name=name)))
    holds(answer.exit_code == 0, answer.result)
    await do(sandbox.git.clone(f"file://{home}/{name}.git", name))
    return name, f"{home}/{name}.git"


async def status_add_commit_push(sandbox):
    path, remote = await clone(sandbox)
    status = await do(sandbox.git.status(path))
    same((status.current_branch, status.file_status, status.ahead, status.behind), ("main", [], 0, 0))
    await do(sandbox.fs.upload_file(b"two", f"{path}/b.txt"))
    changed = (await do(sandbox.git.status(path))).file_status
    same([(entry.name, entry.worktree.value) for entry in changed], [("b.txt", "Untracked")])
    await do(sandbox.git.add(path, ["."]))
    changed = (await do(sandbox.git.status(path))).file_status
    same([(entry.name, entry.staging.value) for entry in changed], [("b.txt", "Added")])
    commit = await do(sandbox.git.commit(path, "second", "Au Thor", "au@thor"))
    same((await do(sandbox.git.status(path))).ahead, 1)
    await do(sandbox.git.push(path))
    answer = await do(sandbox.process.exec(f"git -C {remote} log -1 --format='%H %an %ae %s' main"))
    same(answer.result.strip(), f"{commit.sha} Au Thor au@thor second")


async def empty_commit(sandbox):
    path, _ = await clone(sandbox)
    await raises(DaytonaError, lambda: sandbox.git.commit(path, "nothing", "A", "a@b"))
    commit = await do(sandbox.git.commit(path, "nothing", "A", "a@b", allow_empty=True))
    same(len(commit.sha), 40)


async def branches(sandbox):
    path, remote = await clone(sandbox)
    await do(sandbox.git.create_branch(path, "b1"))
    await raises(DaytonaGitBranchExistsError, lambda: sandbox.git.create_branch(path, "b1"))
    await do(sandbox.git.checkout_branch(path, "b1"))
    same((await do(sandbox.git.status(path))).current_branch, "b1")
    same(sorted((await do(sandbox.git.branches(path))).branches), ["b1", "main"])
    await do(sandbox.git.commit(path, "on b1", "A", "a@b", allow_empty=True))
    # A branch that the remote does not know yet needs nothing special.
    await do(sandbox.git.push(path))
    contains((await do(sandbox.process.exec(f"git -C {remote} branch"))).result, "b1")
    await do(sandbox.git.checkout_branch(path, "main"))
    await do(sandbox.git.delete_branch(path, "b1"))
    same((await do(sandbox.git.branches(path))).branches, ["main"])
    await raises(DaytonaGitBranchNotFoundError, lambda: sandbox.git.checkout_branch(path, "none"))


async def pull(sandbox):
    path, remote = await clone(sandbox)
    seed = remote.removesuffix(".git") + "-seed"
    more = f"cd {seed} && git -c user.name=A -c user.email=a@b commit -q --allow-empty -m more && git push -q {remote} main"
    same((await do(sandbox.process.exec(more))).exit_code, 0)
    await do(sandbox.git.pull(path))
    answer = await do(sandbox.process.exec("git log -1 --format=%s", cwd=path))
    same(answer.result.strip(), "more")


async def no_repository(sandbox):
    await raises(DaytonaGitRepoNotFoundError, lambda: sandbox.git.status("/tmp"))


async def init_config_remotes(sandbox):
    path = unique("fresh")
    await do(sandbox.git.init(path, initial_branch="trunk"))
    await do(sandbox.git.remote_add(path, "origin", "https://example.com/a.git"))
    remotes = (await do(sandbox.git.remotes(path))).remotes
    same([(remote.name, remote.url) for remote in remotes], [("origin", "https://example.com/a.git")])
    await do(sandbox.git.set_config("user.name", "Some One", scope="local", path=path))
    same(await do(sandbox.git.get_config("user.name", scope="local", path=path)), "Some One")
    same(await do(sandbox.git.get_config("no.such", scope="local", path=path)), None)
    await do(sandbox.git.configure_user("N", "n@x", scope="local", path=path))
    same(await do(sandbox.git.get_config("user.email", scope="local", path=path)), "n@x")


async def reset_and_restore(sandbox):
    path, _ = await clone(sandbox)
    await do(sandbox.fs.upload_file(b"changed", f"{path}/a.txt"))
    await do(sandbox.git.add(path, ["a.txt"]))
    await do(sandbox.git.reset(path))
    same([entry.staging.value for entry in (await do(sandbox.git.status(path))).file_status], ["Unmodified"])
    await do(sandbox.git.restore(path, ["a.txt"]))
    same((await do(sandbox.git.status(path))).file_status, [])


CHECKS = [
    status_add_commit_push,
    empty_commit,
    branches,
    pull,
    no_repository,
    init_config_remotes,
    reset_and_restore,
]
