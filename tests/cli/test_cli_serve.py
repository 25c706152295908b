"""Tests `nanolm/cli/serve.py`: the command `nanolm serve`, from its first line to its end."""

import contextlib
import inspect
import json
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from serve_command import COMMAND, process
from serving import PATIENCE_SECONDS
from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

from nanolm.cli import app
from nanolm.engine import Engine
from nanolm.web import WebServer

KILL = "os.kill(os.getpid(), signal.SIGNAL)"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("models") / "toy")


@pytest.fixture
def not_run(monkeypatch):
    """The command goes as far as the server, which says that it is ready, and no farther."""
    served = []

    def run(self, sockets):
        served.append(self)
        self._on_ready()

    monkeypatch.setattr(WebServer, "run", run)
    return served


def serve(*arguments):
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def assert_one_line(result, exit_code, said):
    assert result.exit_code == exit_code, result.output
    assert result.stderr.startswith("nanolm: ") and result.stderr.count("\n") == 1 and said in result.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_serve_answers_until_it_is_told_to_stop_and_ends_without_a_word(model, name):
    with process(model) as (server, url):
        assert httpx.get(f"{url}/models", timeout=PATIENCE_SECONDS).json()["data"][0]["id"] == "toy", (
            "a model is called as its folder"
        )
        body = {"model": "toy", "prompt": "To be", "max_tokens": 3}
        answer = httpx.post(f"{url}/completions", json=body, timeout=PATIENCE_SECONDS)
        assert answer.json()["usage"]["completion_tokens"] == 3
        # "To be" behind the start token: as every command begins a text.
        assert answer.json()["usage"]["prompt_tokens"] >= 3
        server.send_signal(getattr(signal, name))
        _, said = server.communicate(timeout=PATIENCE_SECONDS)
        assert (server.returncode, said) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send to another process")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_told_to_stop_as_soon_as_it_says_where_it_is_served_it_ends_in_order(model, name):
    # The signal comes while the line is written, which no other process could manage.
    at_once = f"from nanolm.cli import serve; say = serve._say_where\nserve._say_where = lambda *a: (say(*a), {KILL})"
    command = [sys.executable, "-c", f"import os, signal; {at_once}; {COMMAND[2]}", "serve", "--port", "0", str(model)]
    command = [part.replace("SIGNAL", name) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE_SECONDS)
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "is served at" in done.stderr, done


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send to another process")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_told_to_stop_before_it_serves_it_ends(tmp_path, name):
    slow = f"import sys; print('loading', file=sys.stderr, flush=True); {COMMAND[2]}"
    with subprocess.Popen(
        [sys.executable, "-c", slow, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as started:
        try:
            assert started.stderr.readline() == "loading\n"
            started.send_signal(getattr(signal, name))
            _, said = started.communicate(timeout=PATIENCE_SECONDS)
        finally:
            started.kill()  # or one that went on would be waited for without end
    assert started.returncode != 0 and "is served at" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to another process")
def test_a_second_sigint_ends_the_process_at_once(model):
    with process(model, "--grace-seconds", 600, "--max-seconds", 600) as (server, url):
        body = {"model": "toy", "prompt": "To be", "max_tokens": 100, "stream": True, "ignore_eos": True, "n": 8}
        asking = httpx.stream("POST", f"{url}/completions", json=body, timeout=PATIENCE_SECONDS)
        with contextlib.suppress(httpx.HTTPError), asking:
            for _ in range(PATIENCE_SECONDS * 10):  # two that arrive together are one
                server.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(timeout=0.1)
                    break
        assert server.poll() is not None


def test_serve_writes_a_line_for_each_request_where_it_is_told_to(model):
    command = [*COMMAND, str(model), "--port", "0", "--log-requests"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    with subprocess.Popen(command, **pipes) as server:
        try:
            url = server.stderr.readline().split(" is served at ")[1].split()[0]
            body = {"model": "toy", "prompt": "To be", "max_tokens": 3}
            httpx.post(f"{url}/completions", json=body, timeout=PATIENCE_SECONDS)
            line = json.loads(server.stdout.readline())
        finally:
            server.kill()
    assert (line["status"], line["completion_tokens"]) == (200, 3) and "To be" not in json.dumps(line)


def test_serve_says_where_and_under_which_name(model, not_run):
    result = serve(model, "--name", "bard", "--port", 0)
    assert result.exit_code == 0 and not_run
    assert result.stderr.startswith("nanolm: bard is served at http://127.0.0.1:") and result.stderr.count("\n") == 1


def test_serve_calls_a_gguf_file_by_its_name(tmp_path, not_run):
    pytest.importorskip("gguf", reason="the library gguf is not installed")
    from gguf_twins import write_twin

    result = serve(write_twin(tmp_path / "twin-1.5B.gguf").path, "--port", 0)
    assert result.exit_code == 0 and not_run
    assert result.stderr.startswith("nanolm: twin-1.5B is served at")


def test_serve_warns_when_other_machines_may_reach_it(model, not_run):
    result = serve(model, "--host", "0.0.0.0", "--port", 0)
    assert "warning: 0.0.0.0 may be reached from other machines" in result.stderr
    assert "without a password" in result.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_serve_does_not_warn_at_home(model, not_run, host):
    assert "warning" not in serve(model, "--host", host, "--port", 0).stderr


@pytest.mark.parametrize("draft", ["prompt-lookup", "itself"])
def test_serve_takes_what_the_engine_does(model, not_run, draft):
    draft = model if draft == "itself" else draft
    options = ["--cache", "int8", "--draft", draft, "--gamma", 2, "--max-running", 3, "--cache-bytes", 2**20]
    result = serve(model, "--port", 0, *options)
    assert result.exit_code == 0, result.output


def test_serve_has_an_option_for_every_argument_of_the_engine_and_every_limit(model, not_run, monkeypatch):
    made = {}

    class Noted(Engine):
        def __init__(self, model, **options):
            made.update(options)
            super().__init__(model, **options)

    monkeypatch.setattr("nanolm.engine.engine.Engine", Noted)
    options = "--max-tokens-per-step 64 --block-size 8 --no-prefix-cache --reserve 0.5 --max-overtakes 0 --no-adaptive"
    result = serve(model, "--port", 0, *options.split())
    assert result.exit_code == 0, result.output
    assert made["max_tokens_per_step"] == 64 and made["block_size"] == 8 and made["prefix_cache"] is False
    assert made["reserve"] == 0.5 and made["max_overtakes"] == 0 and made["adaptive"] is False
    # By the size of the cache; windows are the model's own; plain and the clock are for lessons and tests.
    left_out = {"n_blocks", "windows", "plain", "clock"}
    assert set(made) == set(inspect.signature(Engine).parameters) - left_out - {"model"}


@pytest.mark.parametrize("where", ["option", "environment"])
def test_serve_takes_a_key_from_an_option_or_the_environment_and_no_longer_warns_of_a_missing_one(
    model, not_run, monkeypatch, where
):
    options = ["--api-key", "k"] if where == "option" else []
    if where == "environment":
        monkeypatch.setenv("NANOLM_API_KEY", "k")
    said = serve(model, "--host", "0.0.0.0", "--port", 0, *options).stderr
    assert "without encryption" in said and "password" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--block-size", 0], "block_size is 0"),
        (["--reserve", 1], "reserve is 1"),
        (["--max-tokens-per-step", 0], "max_tokens_per_step is 0"),
        (["--max-connections", 0], "max_connections is 0"),
        (["--receive-seconds", 0], "receive_seconds is 0"),
        (["--cors", "example.org"], "cors is 'example.org'; it must be an origin as https://example.org"),
        (["--api-key", ""], "api_key is empty"),
        (["--max-running", 0], "max_running is 0"),
        (["--max-body-bytes", 0], "max_body_bytes is 0"),
        (["--max-prompt-tokens", 0], "max_prompt_tokens is 0"),
        (["--max-seconds", 0], "max_seconds is 0"),
        (["--grace-seconds", -1], "grace_seconds is -1"),
        (["--cache-bytes", 0], "cache_bytes is 0"),
        (["--gamma", 0, "--draft", "prompt-lookup"], "gamma is 0"),
        (["--device", "abacus"], "device is 'abacus'"),
    ],
)
def test_serve_refuses_bad_options_with_one_line(model, options, said):
    assert_one_line(serve(model, "--port", 0, *options), 2, said)


def test_serve_names_a_port_that_is_taken(model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_one_line(
            serve(model, "--port", port), 1, f"cannot listen at 127.0.0.1, port {port}: another program listens there"
        )


def test_serve_names_an_unknown_model():
    assert_one_line(serve("no-such-model", "--port", 0), 1, "no-such-model")


def python(script):
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "prometheus_client"])
def test_serve_without_its_extra_says_how_to_install_it(package):
    done = python(f"import sys; sys.modules['{package}'] = None; from nanolm.cli.generate import app; app(['serve'])")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"serve needs the package {package}" in done.stderr
    assert "pip install -e '.[serve]' -c constraints.txt" in done.stderr


def test_nothing_but_the_server_needs_the_extra():
    done = python(
        "import sys, nanolm, nanolm.cli.generate, nanolm.engine.engine\n"
        "import nanolm.serving.request_group, nanolm.text.detokenizer\n"
        "sys.exit(', '.join({'starlette', 'uvicorn', 'pydantic', 'prometheus_client'} & set(sys.modules)) or 0)"
    )
    assert done.returncode == 0, f"imported: {done.stderr}"
