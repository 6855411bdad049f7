"""Nineteen operations that every release of the Python SDK has, from 0.27 on: smoke.py [-name…]."""

import importlib.metadata
import os
import sys
import uuid

from daytona import Daytona, DaytonaConfig

VERSION = tuple(int(part) for part in importlib.metadata.version("daytona").split(".")[:2])


def params(**fields):
    import daytona

    kind = getattr(daytona, "CreateSandboxFromSnapshotParams", None) or daytona.CreateSandboxParams
    return kind(**fields)


def session_request(command):
    from daytona import SessionExecuteRequest

    return SessionExecuteRequest(command=command)


def text_of(logs):
    """Logs were a text once, and are an object with two streams now."""
    return logs if isinstance(logs, str) else (logs.stdout or logs.output or "")


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def listed(daytona):
    found = daytona.list()
    return list(getattr(found, "items", found))


class Checks:
    def __init__(self, daytona):
        self.daytona = daytona
        self.sandbox = None
        self.name = f"smoke-{uuid.uuid4().hex[:8]}"

    def create(self):
        self.sandbox = self.daytona.create(params(language="python", labels={"smoke": self.name}))
        assert str(getattr(self.sandbox, "state", "started")).lower().endswith("started")

    def get(self):
        same(self.daytona.get(self.sandbox.id).id, self.sandbox.id)

    def list(self):
        assert self.sandbox.id in [sandbox.id for sandbox in listed(self.daytona)]

    def set_labels(self):
        self.sandbox.set_labels({"smoke": "changed"})

    def exec(self):
        answer = self.sandbox.process.exec("echo hello; exit 3")
        same((answer.exit_code, answer.result.strip()), (3, "hello"))

    def exec_with_cwd_and_env(self):
        answer = self.sandbox.process.exec('echo "$PWD $WORD"', cwd="/tmp", env={"WORD": "word"})
        same(answer.result.strip(), "/tmp word")

    def code_run(self):
        same(self.sandbox.process.code_run("print(6 * 7)").result.strip(), "42")

    def session(self):
        process = self.sandbox.process
        process.create_session("smoke")
        process.execute_session_command("smoke", session_request("cd /tmp && export KEPT=yes"))
        answer = process.execute_session_command("smoke", session_request("echo $PWD $KEPT"))
        same(answer.exit_code, 0)
        logs = text_of(process.get_session_command_logs("smoke", answer.cmd_id))
        assert "/tmp yes" in logs, repr(logs)

    def get_session(self):
        same(len(self.sandbox.process.get_session("smoke").commands), 2)

    def delete_session(self):
        self.sandbox.process.delete_session("smoke")

    def upload(self):
        self.sandbox.fs.upload_file(b"one\ntwo\n\x00\xff", "smoke.bin")

    def download(self):
        same(self.sandbox.fs.download_file("smoke.bin"), b"one\ntwo\n\x00\xff")

    def create_folder(self):
        self.sandbox.fs.create_folder("folder", "755")

    def list_files(self):
        names = [entry.name for entry in self.sandbox.fs.list_files(".")]
        assert "smoke.bin" in names and "folder" in names, names

    def file_info(self):
        same(self.sandbox.fs.get_file_info("smoke.bin").size, 10)

    def move(self):
        self.sandbox.fs.move_files("smoke.bin", "folder/moved.bin")
        same(self.sandbox.fs.get_file_info("folder/moved.bin").size, 10)

    def delete_file(self):
        self.sandbox.fs.delete_file("folder/moved.bin")

    def stop_and_start(self):
        self.sandbox.stop()
        self.sandbox.start()
        same(self.sandbox.process.exec("echo again").result.strip(), "again")

    def delete(self):
        self.daytona.delete(self.sandbox)
        self.sandbox = None


def main():
    left_out = {word[1:] for word in sys.argv[1:] if word.startswith("-")}
    daytona = Daytona(DaytonaConfig(api_key=os.environ["DAYTONA_API_KEY"], api_url=os.environ["DAYTONA_API_URL"]))
    checks = Checks(daytona)
    names = [name for name, member in vars(Checks).items() if callable(member) and not name.startswith("_")]
    failed = 0
    try:
        for name in names:
            if name in left_out:
                continue
            try:
                getattr(checks, name)()
            except Exception as error:  # every failure is one line, and the next check runs
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                print(f"FAIL {name}: {reason[:400]}", flush=True)
                failed += 1
            else:
                print(f"ok {name}", flush=True)
    finally:
        if checks.sandbox is not None:
            daytona.delete(checks.sandbox)
    print(f"{len(names) - len(left_out) - failed} passed, {failed} failed (daytona {'.'.join(map(str, VERSION))})")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
