"""Writes operations.json from Daytona's two OpenAPI documents: extract.py <api.json> <toolbox.json>."""

import json
import pathlib
import sys


def operations(document):
    paths = json.loads(pathlib.Path(document).read_text())["paths"]
    return [
        [method.upper(), path, operation["operationId"], operation["tags"][0]]
        for path, methods in paths.items()
        for method, operation in methods.items()
    ]


planes = {"controlPlane": operations(sys.argv[1]), "toolbox": operations(sys.argv[2])}
lines = [
    f'  "{plane}": [\n' + ",\n".join("    " + json.dumps(operation) for operation in found) + "\n  ]"
    for plane, found in planes.items()
]
target = pathlib.Path(__file__).with_name("operations.json")
target.write_text('{\n  "version": "0.205.1",\n  "license": "Apache-2.0",\n' + ",\n".join(lines) + "\n}\n")
