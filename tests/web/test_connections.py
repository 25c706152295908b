"""Tests `web/connections.py` and `limits.py`: sockets that say nothing, drip, or are never read; and Nagle's wait."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import httpx
import pytest
from serving import PATIENCE_SECONDS, Gate
from web_server import running

from nanolm.web import Limits, room_for

ASKED = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def connected(server):
    return socket.create_connection(server.listener.getsockname()[:2], timeout=PATIENCE_SECONDS)


def closed_by_the_server(client):
    """Whether the server closes a connection, whatever it may send before."""
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_an_answer_is_not_held_back_until_the_client_confirms_the_one_before():
    with running() as server, connected(server) as client:
        client.sendall(ASKED + b"\r\n")
        client.recv(4096)
        (connection,) = server.server.server_state.connections
        its_socket = connection.transport.get_extra_info("socket")
        assert its_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("sent", [b"", ASKED, b"GET /he"], ids=["nothing", "half the headers", "half a line"])
def test_headers_that_do_not_come_end_the_connection(sent):
    with running(limits=Limits(receive_seconds=0.2)) as server, connected(server) as client:
        client.sendall(sent)
        assert closed_by_the_server(client)


def test_a_kept_connection_has_no_longer_for_its_second_request_however_it_drips():
    with running(limits=Limits(receive_seconds=0.3)) as server, connected(server) as client:
        client.sendall(ASKED + b"\r\n")
        assert b"200 OK" in client.recv(4096)
        client.setblocking(False)
        ended = None
        for _ in range(PATIENCE_SECONDS * 20):
            try:
                client.send(b"G")
                ended = client.recv(1)
            except BlockingIOError:
                pass
            except ConnectionError:
                ended = b""
            if ended == b"":
                return
            time.sleep(0.05)
        raise AssertionError("a letter at a time, a request may take for ever")


def test_one_more_than_may_be_takes_the_place_of_the_one_that_has_waited_longest():
    with running(limits=Limits(max_connections=3)) as server, ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(4)]
        for client in clients:
            client.sendall(ASKED)
        assert closed_by_the_server(clients[0])
        clients[3].sendall(b"\r\n")
        assert b"200 OK" in clients[3].recv(4096)


def test_where_everybody_is_served_one_more_is_told_to_come_back():
    with running(limits=Limits(max_connections=1)) as server:
        gate = Gate(server.engine)
        with connected(server) as first:
            body = b'{"model": "tiny", "prompt": "a"}'
            head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            first.sendall(head.encode() + body)
            asyncio.run(gate.reached())
            with connected(server) as second:
                second.sendall(ASKED + b"\r\n")
                head, body = second.recv(4096).split(b"\r\n\r\n")
            gate.open()
            assert first.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert head.startswith(b"HTTP/1.1 503 ") and b"retry-after: 1" in head
        assert json.loads(body)["error"]["code"] == "too_many_connections"


def test_a_client_that_reads_nothing_is_given_up_and_others_are_answered():
    with running(limits=Limits(stalled_seconds=0.2)) as server, connected(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked = ASKED.replace(b"/health", b"/metrics") + b"\r\n"
        client.setblocking(False)
        try:
            while True:  # requests one behind the other, until their answers fill every buffer between here and there
                client.send(asked)
        except BlockingIOError:
            pass
        assert httpx.get(f"{server.url}/health", timeout=PATIENCE_SECONDS).status_code == 200
        _eventually(lambda: len(server.book.open) <= 1)


def _eventually(condition):
    for _ in range(PATIENCE_SECONDS * 100):
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError("it never happened")


@pytest.mark.parametrize(
    ("files", "expected"),
    [(None, (512, 128)), (100_000, (512, 128)), (1024, (512, 128)), (256, (160, 32)), (64, (1, 8))],
)
def test_connections_leave_room_for_those_that_are_accepted_next_and_for_other_files(files, expected):
    assert room_for(512, files) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no limit of open files for a process")
def test_300_sockets_that_say_nothing_do_not_shut_a_server_of_256_files(tmp_path):
    script = tmp_path / "ask.py"
    script.write_text(
        "import resource, socket, sys, httpx\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))\n"
        "address = ('127.0.0.1', int(sys.argv[1]))\n"
        "silent = [socket.create_connection(address) for _ in range(300)]\n"
        "health, patience = f'http://127.0.0.1:{sys.argv[1]}/health', int(sys.argv[2])\n"
        "print([httpx.get(health, timeout=patience).status_code for _ in range(5)])\n",
        encoding="utf-8",
    )
    command = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); from nanolm.cli import app; app()"
    )
    serve = [sys.executable, "-c", command, "serve", "--port", "0"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, encoding="utf-8") as server:
        try:
            port = server.stderr.readline().split("127.0.0.1:")[1].split("/")[0]
            ask = [sys.executable, script, port, str(PATIENCE_SECONDS)]
            done = subprocess.run(ask, capture_output=True, text=True, timeout=6 * PATIENCE_SECONDS)
            assert done.stdout == "[200, 200, 200, 200, 200]\n", done.stderr
        finally:
            server.terminate()
            _, said = server.communicate(timeout=PATIENCE_SECONDS)
    assert said == "", "the log is not the attacker's to fill"
