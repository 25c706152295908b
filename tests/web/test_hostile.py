"""What no client of good faith sends, on a real socket: each gets one answer or none, and the server goes on."""

import contextlib
import gzip
import json
import logging
import socket

import httpx
import pytest
from serving import PATIENCE_SECONDS
from web_server import running

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
BODY = b'{"model": "tiny", "prompt": "a", "max_tokens": 2, "temperature": 0}'


def with_length(body, head=HEAD):
    return head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture(scope="module")
def server():
    with running() as started:
        yield started


def answer_to(server, sent, close=True):
    """What comes back on a connection of its own, whose other half is closed once all is sent."""
    address = server.listener.getsockname()[:2]
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client, contextlib.suppress(ConnectionError):
        client.sendall(sent)
        if close:
            client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))
    return b""


NO_HTTP = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a line without an end": b"GET " + b"/" * 100_000,
    "headers without an end": HEAD + b"".join(b"X-%d: y\r\n" % i for i in range(10_000)),
    "a header of 100 kB": HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
    "a line break in a header's name": b"GET /health HTTP/1.1\r\nHost: x\r\nA\rB: c\r\n\r\n",
    "a zero byte": b"GET /health\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
    "a length below 0": HEAD + b"Content-Length: -1\r\n\r\n",
    "a length in words": HEAD + b"Content-Length: two\r\n\r\n{}",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "chunks of no length": HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n",
    "another coding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n{}",
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_refused_and_forgotten(server, sent, caplog):
    caplog.set_level(logging.WARNING)
    answer = answer_to(server, sent)
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"501"), answer
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert httpx.get(f"{server.url}/health", timeout=PATIENCE_SECONDS).status_code == 200


CUT = {
    "half a body": HEAD + b"Content-Length: 100\r\n\r\n" + BODY[:10],
    "no body": HEAD + b"Content-Length: 100\r\n\r\n",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{",
    "half the headers": HEAD,
}


@pytest.mark.parametrize("sent", CUT.values(), ids=CUT)
def test_a_request_that_is_cut_short_costs_nothing(server, sent, caplog):
    answer_to(server, sent)
    server.wait_until_idle()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert httpx.get(f"{server.url}/ready", timeout=PATIENCE_SECONDS).status_code == 200


def status_and_body(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (with_length(b"\xff\xfe"), 400),
        (with_length(gzip.compress(BODY), HEAD + b"Content-Encoding: gzip\r\n"), 415),
        (with_length(b"\xef\xbb\xbf" + BODY), 400),
        (with_length(BODY.replace(b'"a"', b"NaN")), 400),
        (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n{}", 413),
        (with_length(b"model=tiny", HEAD + b"Content-Type: application/x-www-form-urlencoded\r\n"), 400),
        (with_length(b'{"model": "tiny", "prompt": "\\ud800"}'), 400),
        (with_length(b'{"model": "tiny", "prompt": "a", "prompt": 5}'), 400),
        (with_length(b'{"model": "tiny", "prompt": ' + b"[" * 20_000), 400),
        (with_length(b'{"model": "tiny", "prompt": "a", "max_tokens": ' + b"9" * 5000 + b"}"), 400),
        (with_length(b'{"model": "tiny", "prompt": "a", "temperature": 1e999}'), 400),
        (with_length(b'{"' + b"x" * 100_000 + b'": 1, "model": "tiny", "prompt": "a"}'), 400),
        (with_length(b"{}", HEAD.replace(b"/v1/completions", b"/v1/%2e%2e/completions")), 404),
        (with_length(b"{}", HEAD.replace(b"/v1/completions", b"//evil.example/v1/completions")), 404),
        (HEAD.replace(b"POST", b"DELETE") + b"\r\n", 405),
        (HEAD.replace(b"POST", b"PROPFIND") + b"\r\n", 405),
        (b"PRI * HTTP/2.0\r\nConnection: close\r\n\r\n", 505),
        (HEAD.replace(b"1.1", b"3.0") + b"\r\n", 505),
    ],
)
def test_nonsense_in_good_http_is_one_error_of_openai_s_shape(server, sent, status):
    given, body = status_and_body(answer_to(server, sent.replace(b"Host: x", b"Host: x\r\nConnection: close")))
    assert given == status and set(body["error"]) == {"message", "type", "param", "code"}
    assert len(body["error"]["message"]) < 500, "an error does not send back what it was sent"


def test_requests_one_behind_the_other_are_answered_in_order(server):
    asked = with_length(BODY) + with_length(BODY.replace(b'"a"', b'"d"'))
    answer = answer_to(server, asked + with_length(b"{}", HEAD + b"Connection: close\r\n"), close=False)
    texts = [part.split(b'"')[0] for part in answer.split(b'"text":"')[1:]]
    assert texts == [b"bc", b"ef"] and answer.count(b"HTTP/1.1 ") == 3


WELL = {
    "HTTP/1.0": with_length(BODY, HEAD.replace(b"1.1", b"1.0")),
    "asking before it sends": with_length(BODY, HEAD + b"Expect: 100-continue\r\n"),
    "in chunks with trailers": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x;a=b\r\n" % len(BODY) + BODY
    + b"\r\n0\r\nX: y\r\n\r\n",
    "with a query": with_length(BODY, HEAD.replace(b"completions", b"completions?api-version=1")),
    "as it is": with_length(BODY, HEAD + b"Content-Encoding: identity\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("sent", WELL.values(), ids=WELL)
def test_odd_requests_in_good_faith_are_answered(server, sent):
    asked = sent.replace(b"Host: x", b"Host: x\r\nConnection: close")
    assert b'"text":"bc"' in answer_to(server, asked, close=False)


def test_a_websocket_is_not_opened(server):
    upgrade = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    assert answer_to(server, upgrade).startswith(b"HTTP/1.1 200 ")
