"""Tests `nanolm serve --watch` and `--record`: what watchers see of an engine, and the file that it leaves."""

import json
import signal
import sys

import httpx
import pytest
from serve_command import process
from tiny_checkpoints import write_checkpoint

from nanolm.watching import Recording

SECONDS = 60


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("models") / "toy")


def complete(url):
    body = {"model": "toy", "prompt": "To be", "max_tokens": 3, "ignore_eos": True}
    assert httpx.post(f"{url}/completions", json=body, timeout=SECONDS).status_code == 200


def parts_seen(url):
    """The parts of the passes that a watcher sees until somebody's request has ended."""
    parts = []
    with httpx.stream("GET", f"{url.removesuffix('/v1')}/watch/events", timeout=SECONDS) as events:
        lines = (line.removeprefix("data: ") for line in events.iter_lines() if line.startswith("data: {"))
        next(lines)  # how things stand when one comes
        complete(url)
        for line in lines:
            for each in json.loads(line)["passes"]:
                parts += each["parts"]
                if each["ended"]:
                    return parts


@pytest.mark.parametrize(("options", "are_shown"), [(["--watch"], True), ([], False)])
def test_watchers_see_the_texts_of_others_only_where_serve_was_told_to_show_them(model, options, are_shown):
    with process(model, *options) as (_, url):
        parts = parts_seen(url)
    assert sum(part["n_new"] for part in parts) == 3
    assert any("prompt" in part or "new" in part for part in parts) == are_shown


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to another process")
def test_what_was_served_is_in_the_recorded_file_when_the_server_has_ended(model, tmp_path):
    file = tmp_path / "run.json"
    with process(model, "--record", file) as (server, url):
        assert Recording.load(file).frames == []  # it can be written, or nothing is served
        complete(url)
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=SECONDS) == 0
    recording = Recording.load(file)
    parts = [part for frame in recording.frames for each in frame["passes"] for part in each["parts"]]
    assert recording.title == "toy, served" and sum(part["n_new"] for part in parts) == 3
