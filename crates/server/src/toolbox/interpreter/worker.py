# Runs pieces of code one after the other in one set of names, and tells what happens as lines of JSON.
#
# The two pipes to the server are moved away from descriptors 0 and 1 first, so that nothing that is printed can get
# between the lines: what Python prints goes through `emit`, what children print goes through pipes of our own.

import builtins
import codecs
import io
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types

PIECE = 16 * 1024
DRAIN_SECONDS = 1.0

control_in = os.fdopen(os.dup(0), "rb")
control_out = os.dup(1)
own_pid = os.getpid()
lock = threading.Lock()
current = None
is_running = False
is_emitting = False
is_pending = False


def interrupt(_signal, _frame):
    """An interrupt ends the code that runs, never a line that is being written, and nothing between two runs."""
    global is_pending
    if is_emitting:
        is_pending = True
    elif is_running:
        raise KeyboardInterrupt


def emit(kind, **fields):
    global is_emitting, is_pending
    is_main = threading.current_thread() is threading.main_thread()
    line = json.dumps({"id": current, "type": kind, **fields}).encode() + b"\n"
    if is_main:
        is_emitting = True
    try:
        with lock:
            while line:
                line = line[os.write(control_out, line) :]
    finally:
        if is_main:
            is_emitting = False
    if is_main and is_pending:
        is_pending = False
        if is_running:
            raise KeyboardInterrupt


class Stream(io.TextIOBase):
    """What `print` writes to: told line by line."""

    def __init__(self, kind, descriptor):
        self.kind = kind
        self.descriptor = descriptor
        self.held = ""
        self.buffer = io.FileIO(descriptor, "wb", closefd=False)

    encoding = "utf-8"
    errors = "backslashreplace"

    def writable(self):
        return True

    def fileno(self):
        return self.descriptor

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        self.held += text
        if "\n" in text or len(self.held) >= PIECE:
            self.flush()
        return len(text)

    def flush(self):
        held, self.held = self.held, ""
        for start in range(0, len(held), PIECE):
            emit(self.kind, text=held[start : start + PIECE])


class Children:
    """What processes print that the code starts: read from a pipe in place of descriptor 1 or 2."""

    def __init__(self, kind, descriptor):
        self.kind = kind
        self.descriptor = descriptor
        self.reading, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        self.mark = None
        self.seen = threading.Event()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = b""
        while True:
            data = rest + os.read(self.reading, PIECE)
            mark, rest = self.mark, b""
            if mark and mark in data:
                data = data.replace(mark, b"", 1)
                self.mark = None
            elif mark:
                # The beginning of a mark may be the end of what has come.
                for length in range(min(len(mark) - 1, len(data)), 0, -1):
                    if data.endswith(mark[:length]):
                        data, rest = data[:-length], data[-length:]
                        break
            text = decoder.decode(data)
            if text:
                emit(self.kind, text=text)
            if mark and self.mark is None:
                self.seen.set()

    def drain(self):
        """Waits until all that was printed so far has been told."""
        self.seen.clear()
        mark = b"\0holm" + os.urandom(16).hex().encode() + b"\0"
        self.mark = mark
        os.write(self.descriptor, mark)
        self.seen.wait(DRAIN_SECONDS)


def tell_error(error):
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<code-"):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    try:
        value = str(error)
    except Exception:
        value = ""
    emit("error", name=type(error).__name__, value=value, traceback="".join(lines))


def run(number, source, names):
    global is_running
    file = "<code-%d>" % number
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    end = "completed"
    try:
        try:
            is_running = True
            exec(compile(source, file, "exec"), names)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            is_running = False
    except KeyboardInterrupt as error:
        end = "interrupted"
        tell_error(error)
    except SystemExit as error:
        if error.code not in (None, 0):
            tell_error(error)
    except BaseException as error:
        tell_error(error)
    return end


def main():
    global current
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    children = [Children("stdout", 1), Children("stderr", 2)]
    sys.stdin = open(0, closefd=False)
    sys.stdout = Stream("stdout", 1)
    sys.stderr = Stream("stderr", 2)
    sys.argv = [""]
    signal.signal(signal.SIGINT, interrupt)
    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    for line in control_in:
        request = json.loads(line)
        current = request["id"]
        before = {name: os.environ.get(name) for name in request["envs"]}
        os.environ.update(request["envs"])
        end = run(current, request["code"], module.__dict__)
        if os.getpid() != own_pid:
            # A copy of us that the code made.
            os._exit(0)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        sys.stdout.flush()
        sys.stderr.flush()
        for child in children:
            child.drain()
        emit("end", text=end)
        current = None


main()
