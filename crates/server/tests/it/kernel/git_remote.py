"""A git server over HTTP that wants a name and a password, for tests. Arguments: port, folder of repositories, base64 of name:password."""
import glob, os, subprocess, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, ROOT, WANTED = int(sys.argv[1]), sys.argv[2], "Basic " + sys.argv[3]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        if self.path.startswith("/elsewhere/"):
            self.send_response(302)
            self.send_header("Location", "http://localhost:%d/%s" % (PORT, self.path[len("/elsewhere/"):]))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        shown = self.headers.get("Authorization")
        with open(ROOT + "/shown", "a") as log:
            log.write("%s %s\n" % (self.headers.get("Host"), shown))
        if shown != WANTED:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        # What everybody in the box can see while git works.
        with open(ROOT + "/processes", "ab") as log:
            for name in glob.glob("/proc/[0-9]*/cmdline"):
                try:
                    log.write(open(name, "rb").read() + b"\n")
                except OSError:
                    pass
        path, _, query = self.path.partition("?")
        length = self.headers.get("Content-Length")
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while True:
                size = int(self.rfile.readline(), 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        else:
            body = self.rfile.read(int(length or 0))
        env = dict(os.environ, GIT_PROJECT_ROOT=ROOT, GIT_HTTP_EXPORT_ALL="1", REMOTE_USER="x", PATH_INFO=path,
                   QUERY_STRING=query, REQUEST_METHOD=self.command, CONTENT_TYPE=self.headers.get("Content-Type", ""),
                   CONTENT_LENGTH=str(len(body)), HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding", ""))
        done = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(lines.pop("Status", "200 OK").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
