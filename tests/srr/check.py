"""Checks a storage report against a schema: `check.py SCHEMA REPORT`. Names each place that does not fit."""

import json
import sys
from pathlib import Path

import jsonschema


def faults(schema, report):
    jsonschema.Draft7Validator.check_schema(schema)
    found = jsonschema.Draft7Validator(schema).iter_errors(report)
    return [f"{'/'.join(map(str, fault.absolute_path))}: {fault.message}" for fault in found]


if __name__ == "__main__":
    schema, report = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    wrong = faults(schema, report)
    print("\n".join(wrong) if wrong else "the report fits the schema")
    sys.exit(bool(wrong))
