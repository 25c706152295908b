"""Tests `web/access.py`: names, web pages and keys, as the Host, Origin and Authorization of a request show them."""

import asyncio

import pytest
from serving import serving

from nanolm.web import Access, hosts_of

HOME = hosts_of("127.0.0.1")


def status_of(access, path="/v1/models", method="GET", **headers):
    async def scenario():
        async with serving(access=access) as served:
            return await served.client.request(method, path, headers=headers)

    return asyncio.run(scenario())


def assert_refused(answer, status, code, said):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code and said in error["message"], error


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:80", "[::1]:8000", "LOCALHOST", "localhost."]
)
def test_on_a_loopback_address_the_server_goes_by_its_own_names(host):
    assert status_of(Access(HOME), Host=host).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", ""])
def test_a_name_that_somebody_has_pointed_here_is_refused(host):
    assert_refused(status_of(Access(HOME), Host=host), 403, "host_not_allowed", f"Host is {host.split(':')[0]!r}")


def test_a_further_name_is_allowed_and_then_only_that_one_beside_its_own():
    access = Access(hosts_of("127.0.0.1", ("box.lan",)))
    assert [status_of(access, Host=host).status_code for host in ("box.lan:8000", "localhost", "other.lan")] == [
        200,
        200,
        403,
    ]


def test_a_server_for_other_machines_goes_by_any_name_unless_some_are_given():
    assert hosts_of("0.0.0.0") is None
    assert hosts_of("0.0.0.0", ("box.lan",)) == ("box.lan",)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:8000", "http://127.0.0.1:3000"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models", "/metrics"])
def test_a_web_page_is_refused_whatever_it_asks(origin, path):
    answer = status_of(Access(HOME), path, "POST", Host="localhost", Origin=origin)
    assert_refused(answer, 403, "origin_not_allowed", "--cors ORIGIN")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_that_was_opted_in_gets_its_answer_and_its_preflight_and_no_other_does():
    access = Access(HOME, ("https://chat.example",))
    asked = {"Host": "localhost", "Origin": "https://chat.example"}
    assert status_of(access, **asked).headers["access-control-allow-origin"] == "https://chat.example"
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    assert status_of(access, "/v1/completions", "OPTIONS", **asked, **preflight).status_code == 200
    other = status_of(access, Host="localhost", Origin="https://evil.example")
    assert other.status_code == 403 and "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("given", ["Bearer key-1", "bearer key-1"])
def test_the_key_opens(given):
    assert status_of(Access(api_key="key-1"), Authorization=given).status_code == 200


@pytest.mark.parametrize("given", [None, "Bearer key-2", "Bearer key-11", "Bearer", "Basic key-1", "key-1", "Bearer é"])
@pytest.mark.parametrize("path", ["/v1/models", "/v1/completions", "/metrics", "/nothing"])
def test_without_the_key_nothing_is_answered(given, path):
    headers = {} if given is None else {"Authorization": given.encode()}
    answer = status_of(Access(api_key="key-1"), path, "POST", **headers)
    assert_refused(answer, 401, "invalid_api_key", "Authorization must be 'Bearer KEY'")
    assert answer.headers["www-authenticate"] == "Bearer" and "key-1" not in answer.text


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_whether_the_server_lives_is_told_without_a_key(path):
    assert status_of(Access(api_key="key-1"), path).status_code == 200


def test_a_slash_too_many_is_no_redirect_to_a_host_that_the_client_names():
    answer = status_of(Access(), "/v1/models/", Host="evil.example")
    assert answer.status_code == 404 and "location" not in answer.headers


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"origins": ("example.org",)}, "cors is 'example.org'; it must be an origin"),
        ({"origins": ("https://example.org/",)}, "cors is 'https://example.org/'"),
        ({"api_key": ""}, "api_key is empty"),
        ({"api_key": "a\nb"}, "api_key is empty, or has characters that no header can hold"),
        ({"api_key": "ключ"}, "api_key is empty, or"),
    ],
)
def test_rules_that_nobody_can_follow_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Access(**wrong)
