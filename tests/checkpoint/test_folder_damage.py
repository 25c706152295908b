"""Folders with flipped bits, other values and missing ends: each is read, or refused in one sentence, at once."""

import json
import random

import pytest
from damage import assert_read_or_refused
from tiny_checkpoints import write_checkpoint

import nanolm

VALUES = [
    None,
    True,
    -1,
    0,
    1,
    7,
    0.5,
    -0.0,
    1e300,
    10**6,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    [],
    [1],
    [None],
    {},
    {"a": 1},
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What the files of a folder hold, by name."""
    folder = write_checkpoint(tmp_path_factory.mktemp("whole"))
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 5], "bos_token_id": 0}', encoding="utf-8")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def places(value):
    """Each place in a JSON value as (what holds it, key)."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items)[:40]:
        yield value, key
        yield from places(inner)


def with_another_value(content, chance):
    said = json.loads(content)
    holder, key = chance.choice(list(places(said)))
    if chance.random() < 0.15:
        del holder[key]
    else:
        holder[key] = chance.choice(VALUES)
    return json.dumps(said).encode()


def damaged(name, content, chance):
    """A file's bytes, damaged by chance; of tensors, mostly what says where they lie."""
    start, end = (8, 8 + int.from_bytes(content[:8], "little")) if name.endswith(".safetensors") else (0, len(content))
    at = chance.randrange(end)
    match chance.choice(["value", "value", "value", "bit", "bytes", "cut", "insert"]):
        case "value":
            header = with_another_value(content[start:end], chance)
            return (len(header).to_bytes(8, "little") if start else b"") + header + content[end:]
        case "bit":
            return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
        case "bytes":
            return content[:at] + bytes([chance.choice([0, 34, 127, 255])] * 8) + content[at + 8 :]
        case "cut":
            return content[:at]
        case _:
            return content[:at] + chance.randbytes(chance.choice([1, 8])) + content[at:]


def try_each(whole, numbers, folder):
    for name, content in whole.items():
        (folder / name).write_bytes(content)
    for number in numbers:
        chance = random.Random(number)
        name = chance.choice(sorted(whole))
        (folder / name).write_bytes(damaged(name, whole[name], chance))
        assert_read_or_refused(nanolm.load, folder, str(folder), f"damage {number}, of {name},")
        (folder / name).write_bytes(whole[name])


@pytest.mark.parametrize("forties", range(5))
def test_two_hundred_damaged_folders(whole, tmp_path, forties):
    try_each(whole, range(40 * forties, 40 * forties + 40), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("hundreds", range(2, 32))
def test_three_thousand_damaged_folders(whole, tmp_path, hundreds):
    try_each(whole, range(100 * hundreds, 100 * hundreds + 100), tmp_path)
