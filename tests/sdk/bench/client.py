"""Commands and transfers through the Python SDK, one for each line of standard input, which says which; the milliseconds go out.

Usage: client.py SANDBOX FILE
"""

import sys
import time

from daytona import Daytona

sandbox = Daytona().get(sys.argv[1])
with open(sys.argv[2], "rb") as file:
    content = file.read()


def execute():
    answer = sandbox.process.exec("echo ready")
    assert answer.result.strip() == "ready", answer


def upload():
    sandbox.fs.upload_file(content, "file")


def download():
    received = sandbox.fs.download_file("file")
    assert len(received) == len(content), len(received)


actions = {"exec": execute, "upload": upload, "download": download}
for line in sys.stdin:
    action = actions[line.strip()]
    begun = time.perf_counter()
    action()
    print((time.perf_counter() - begun) * 1000, flush=True)
