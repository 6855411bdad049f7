"""Deletes every sandbox and volume that other programs left on a server."""

from daytona import Daytona

daytona = Daytona()
for sandbox in list(daytona.list()):
    print(f"left behind: {sandbox.id}")
    daytona.delete(sandbox)
