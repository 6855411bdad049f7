#!/usr/bin/env python3
"""A small language server for tests: knows functions, asks its client a question, and crashes on demand."""
import json, os, re, sys

documents, root, answered = {}, None, False


def send(message):
    body = json.dumps(dict(message, jsonrpc="2.0")).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def symbols(uri):
    found = []
    for line, text in enumerate(documents.get(uri, "").splitlines()):
        for match in re.finditer(r"def (\w+)", text):
            place = {"start": {"line": line, "character": match.start(1)}, "end": {"line": line, "character": match.end(1)}}
            found.append({"name": match.group(1), "kind": 12, "location": {"uri": uri, "range": place}})
    return found


while True:
    length = None
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if line == b"\r\n":
            break
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    message = json.loads(sys.stdin.buffer.read(length))
    method, parameters = message.get("method"), message.get("params") or {}
    if method == "initialize":
        root = parameters["rootUri"]
        # The client has to answer before it is answered.
        send({"id": "mine", "method": "workspace/configuration", "params": {"items": [{}, {}]}})
        question = message["id"]
    elif message.get("id") == "mine":
        assert message["result"] == [None, None], message
        send({"id": question, "result": {"capabilities": {"workspaceSymbolProvider": not os.path.exists("/tmp/looks-no-further")}}})
    elif method == "textDocument/didOpen":
        document = parameters["textDocument"]
        documents[document["uri"]] = document["text"]
        send({"method": "textDocument/publishDiagnostics", "params": {"uri": document["uri"], "diagnostics": []}})
    elif method == "textDocument/didClose":
        documents.pop(parameters["textDocument"]["uri"], None)
    elif method == "textDocument/documentSymbol":
        send({"id": message["id"], "result": symbols(parameters["textDocument"]["uri"])})
    elif method == "workspace/symbol":
        if parameters["query"] == "CRASH":
            print("crashed as it was told", file=sys.stderr, flush=True)
            os._exit(3)
        if parameters["query"] == "GARBAGE":
            sys.stdout.buffer.write(b"Traceback: this is no message\r\n\r\n" * 1000)
            sys.stdout.buffer.flush()
            continue
        every = [symbol for uri in sorted(documents) for symbol in symbols(uri) if parameters["query"] in symbol["name"]]
        send({"id": message["id"], "result": every})
    elif method == "textDocument/completion":
        position = parameters["position"]
        label = "%s:%d:%d" % (os.path.basename(root), position["line"], position["character"])
        send({"id": message["id"], "result": [{"label": label, "kind": 3, "documentation": "help"}]})
    elif method == "shutdown":
        send({"id": message["id"], "result": None})
    elif method == "exit":
        open("/tmp/said-goodbye", "w").close()
        sys.exit(0)
    elif "id" in message and method:
        send({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
