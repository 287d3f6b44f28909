"""The sandbox's actions on texts and JSON documents."""

import re
from itertools import islice
from typing import Any

MAX_FAULTS = 5
FAULT_CHARS = 300


def regex(pattern: str, text: str, full: bool) -> str | None:
    """The text that matched, or `None`."""
    found = re.fullmatch(pattern, text) if full else re.search(pattern, text)
    return found[0] if found else None


def json_schema(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with the value, the first few faults."""
    import jsonschema  # late: only this action needs it
    from referencing import Registry

    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    # The empty registry fetches nothing, from nowhere.
    faults = islice(validator(schema, registry=Registry()).iter_errors(value), MAX_FAULTS)
    return [f"{fault.json_path}: {fault.message}"[:FAULT_CHARS] for fault in faults]
