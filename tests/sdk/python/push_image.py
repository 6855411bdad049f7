"""Puts a small image, made of this machine's own programs, into a registry: push_image.py http://HOST:PORT NAME:TAG."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import urllib.request

PROGRAMS = ["bash", "cat", "echo", "env", "id", "ls", "mkdir", "rm", "sh", "sleep", "stat", "touch", "uname", "whoami"]
MARKER = "an image for tests\n"


def libraries(program):
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    words = [word for line in listing.splitlines() for word in line.split()]
    return [word for word in words if word.startswith("/")]


def layer():
    """A root file system: programs with their libraries, and a list of users."""
    paths = set()
    for name in PROGRAMS:
        program = shutil.which(name)
        paths.update([program, *libraries(program)])
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for folder in ["bin", "etc", "home", "home/app", "lib", "lib64", "root", "tmp", "usr", "usr/bin"]:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for path in sorted(paths):
            # Debian's /bin and /lib are links into /usr; here they are folders.
            with open(path, "rb") as file:
                content = file.read()
            entry = tarfile.TarInfo(path.lstrip("/").removeprefix("usr/"))
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
        for path, text in [
            ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\napp:x:1001:1001:App:/home/app:/bin/sh\n"),
            ("etc/marker", MARKER),
        ]:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def send(method, url, content=b"", kind="application/octet-stream"):
    request = urllib.request.Request(url, data=content, method=method, headers={"Content-Type": kind})
    with urllib.request.urlopen(request) as answer:
        return answer.headers


def push(registry, name, tag):
    tree = layer()
    packed = gzip.compress(tree, 1)
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[subprocess.check_output(["uname", "-m"], text=True).strip()]
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(tree)]},
        }
    ).encode()
    for blob in [packed, config]:
        place = send("POST", f"{registry}/v2/{name}/blobs/uploads/")["Location"]
        place = place if place.startswith("http") else registry + place
        send("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest(blob)}", blob)
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest(config),
            "size": len(config),
        },
        "layers": [
            {
                "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
                "digest": digest(packed),
                "size": len(packed),
            }
        ],
    }
    send("PUT", f"{registry}/v2/{name}/manifests/{tag}", json.dumps(manifest).encode(), manifest["mediaType"])


if __name__ == "__main__":
    image, _, label = sys.argv[2].partition(":")
    push(sys.argv[1], image, label)
