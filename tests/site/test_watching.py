"""The page on which an engine is watched, in a browser: live while 20 requests are served, and a recorded run."""

import json
import re

import httpx
import pytest
from browser import program
from serving import ALPHABET, random_model
from web_server import running

import nanolm
from course.book.replays import FOLDER, REPLAYS
from course.paths import ROOT
from nanolm.watching import Recording, page_of

WIDE, NARROW = 1400, 480  # pixels
IN_PAGE = "document.querySelector('[data-nanolm-watch]').shadowRoot"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here"),
]


@pytest.fixture(params=REPLAYS)
def replay(request, tmp_path):
    recording = Recording.load(ROOT / FOLDER / f"{request.param}.json")
    page = tmp_path / "replay.html"
    page.write_text(page_of(recording), encoding="utf-8")
    return page, recording


@pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (WIDE, True), (NARROW, False), (NARROW, True)])
def test_a_replay_opens_from_a_file_without_a_complaint_and_fits(browser, replay, width, dark):
    browser.open(replay[0], width=width, dark=dark)
    browser.until(f"{IN_PAGE}.querySelectorAll('.request').length")
    assert browser.problems == []
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_a_replay_is_stepped_by_its_buttons(browser, replay):
    page, recording = replay
    browser.open(page)
    n = sum(max(1, len(frame["passes"])) for frame in recording.frames)
    browser.until(f"{IN_PAGE}.getElementById('place').max == {n - 1}")
    for button, by in (("next", 1), ("back", -1)):
        before = browser.run(f"Number({IN_PAGE}.getElementById('place').value)")
        browser.run(f"{IN_PAGE}.getElementById('{button}').click()")
        browser.until(f"{IN_PAGE}.getElementById('place').value == {before + by}")


def test_a_replay_stands_still_until_it_is_played(browser, replay):
    browser.open(replay[0])
    browser.until(f"{IN_PAGE}.getElementById('play').textContent == 'Play'")


def test_the_price_follows_from_what_the_machine_costs(browser, replay):
    browser.open(replay[0])
    browser.until(f"{IN_PAGE}.getElementById('plots').textContent.includes('Dollars per million tokens')")
    passes = [each for frame in replay[1].frames for each in frame["passes"]]
    browser.run(f"{IN_PAGE}.getElementById('place').value = {len(passes)}")
    browser.run(f"{IN_PAGE}.getElementById('place').dispatchEvent(new Event('input'))")
    for dollars in (2, 36):
        browser.run(f"{IN_PAGE}.getElementById('dollars').value = {dollars}")
        browser.run(f"{IN_PAGE}.getElementById('dollars').dispatchEvent(new Event('input'))")
        seconds = sum(each["seconds"] for each in passes)
        n_new = sum(part["n_new"] for each in passes for part in each["parts"])
        price = browser.run(f"({dollars / 3600 * seconds / n_new * 1e6}).toPrecision(3)")
        browser.until(f"{IN_PAGE}.getElementById('plots').textContent.includes('so far ${price}')")


@pytest.mark.parametrize(("wanted", "waits"), [("reduce", 1000), ("no-preference", 16)])
def test_who_wants_little_to_move_sees_a_picture_a_second(browser, replay, wanted, waits):
    browser.open(replay[0])
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": wanted}])
    browser.until(f"{IN_PAGE}.querySelectorAll('.request').length")
    browser.run(
        "window.waits = []; const later = setTimeout;"
        "window.setTimeout = (does, ms) => (waits.push(ms), later(does, ms)); 0"
    )
    browser.run(f"{IN_PAGE}.getElementById('play').click()")
    browser.until("waits.length")
    assert set(browser.run("waits")) == {waits}


def test_a_hostile_text_of_a_run_stays_a_text(browser, tmp_path):
    nasty = "</script><img src=x onerror=\"document.title='taken'\">"
    recording = Recording.load(ROOT / FOLDER / "shared_prompt.json")
    recording.title = nasty
    for frame in recording.frames:
        for each in frame["passes"]:
            for part in each["parts"]:
                part["new"] = [nasty] * part["n_new"]
    page = tmp_path / "nasty.html"
    page.write_text(page_of(recording), encoding="utf-8")
    browser.open(page)
    browser.until(f"{IN_PAGE}.querySelectorAll('.request').length")
    assert browser.run("document.title") == nasty and browser.problems == []
    assert browser.run(f"{IN_PAGE}.querySelector('img')") is None


def open_live(browser, url):
    browser.ask("Page.navigate", url="about:blank")  # the page before this one asks for its server, which has ended
    browser.until("location.href == 'about:blank'")
    browser.problems.clear()
    browser.ask("Page.navigate", url=url)
    browser.until(f"document.querySelector('[data-is-shown]') && {IN_PAGE}.querySelector('svg')")


def test_a_live_page_shows_twenty_requests_to_their_end(browser):
    with running(random_model(eos_token_ids=()), max_running=4) as server:
        open_live(browser, server.url)
        prompts = json.dumps("\n".join(f"prompt {i}" for i in range(20)))
        browser.run(f"{IN_PAGE}.getElementById('prompts').value = {prompts}")
        browser.run(f"{IN_PAGE}.getElementById('send').click()")
        browser.until(
            f"[...{IN_PAGE}.querySelectorAll('#answers li')].filter(li => !li.textContent.endsWith('…')).length == 20",
        )
        server.wait_until_idle()
        assert httpx.get(f"{server.url}/metrics").text.count('nanolm_requests_total{reason="length"} 20.0') == 1
        browser.until(f"{IN_PAGE}.getElementById('queue').textContent.includes('0 requests run, 0 wait')")
        browser.until(f"{IN_PAGE}.getElementById('requests').textContent.includes('ended: length')")
        assert browser.complaints() == []


def test_all_prompts_are_with_the_engine_at_once_and_each_answer_stands_behind_its_own(browser):
    letters = ALPHABET[:12]  # each is followed by the next
    with running(max_running=2) as server:
        open_live(browser, server.url)
        # A browser opens six connections to a server: with a request for each prompt the rest would wait in the page.
        browser.run(
            "window.asked = 0; const real = window.fetch;"
            "window.fetch = (...all) => (window.asked += String(all[0]).includes('completions'), real(...all)); 0"
        )
        browser.run(f"{IN_PAGE}.getElementById('prompts').value = {json.dumps(chr(10).join(letters))}")
        browser.run(f"{IN_PAGE}.getElementById('tokens').value = 3")
        browser.run(f"{IN_PAGE}.getElementById('send').click()")
        rows = f"[...{IN_PAGE}.querySelectorAll('#answers li')].map(li => li.textContent)"
        browser.until(f"{rows}.length == 12 && {rows}.every(row => !row.endsWith('…'))")
        assert browser.run("asked") == 1
        assert browser.run(rows) == [ALPHABET[i : i + 4] for i in reversed(range(12))]
        assert browser.complaints() == []


def test_a_page_that_is_left_keeps_no_connection_and_watches_again_when_one_comes_back(browser):
    status = f"{IN_PAGE}.getElementById('status').textContent"
    with running() as server:
        open_live(browser, server.url)
        browser.until(f"{status} == 'Live.'")
        # What a browser says to a page that it keeps for the way back.
        browser.run("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))")
        browser.until(f"{status}.startsWith('Not connected')")
        browser.run("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        browser.until(f"{status} == 'Live.'")


def test_in_the_pool_that_the_page_advises_for_it_the_scene_is_served_and_somebody_is_preempted(browser):
    model, tokenizer = nanolm.load("target")
    with running(model, tokenizer=tokenizer, n_blocks=None, cache_bytes=2_000_000, reserve=0.0) as server:
        open_live(browser, server.url)
        button = (
            f"[...{IN_PAGE}.querySelectorAll('#scenes button')].find(each => each.textContent == 'A pool too small')"
        )
        browser.run(f"{button}.click()")
        assert "--cache-bytes 2000000 --reserve 0" in browser.run(f"{IN_PAGE}.getElementById('said').textContent")
        rows = f"[...{IN_PAGE}.querySelectorAll('#answers li')].map(li => li.textContent)"
        browser.until(f"{rows}.length == 12 && {rows}.every(row => !row.endsWith('…'))")
        assert browser.complaints() == []
        metrics = httpx.get(f"{server.url}/metrics").text
        assert float(re.search(r"(?m)^nanolm_preemptions_total (\S+)$", metrics)[1]) > 0


def test_the_scenes_of_a_live_page_are_sent_by_their_buttons(browser):
    with running(random_model(eos_token_ids=(), max_positions=2048), n_blocks=1024) as server:
        open_live(browser, server.url)
        assert browser.run(f"{IN_PAGE}.querySelectorAll('#scenes button').length") == 4
        browser.run(f"{IN_PAGE}.getElementById('scenes').firstChild.click()")
        browser.until(f"{IN_PAGE}.getElementById('tree').textContent.includes('held by')")
        assert browser.complaints() == []
