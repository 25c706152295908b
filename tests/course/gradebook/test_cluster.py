"""A Dask cluster in the judge's place: the same marks, and one sentence for whatever it lacks."""

import importlib
import re

import pytest

from course.errors import CourseError
from course.gradebook import cluster
from course.gradebook.cluster import Cluster
from course.judge.judge import Judge
from course.paths import ROOT, read
from course.registry import find

RATE = find("acceptance_rate")
RIGHT = read(ROOT / "nanolm" / RATE.file)
BEGIN = "import torch\n\n\ndef acceptance_rate(target_probs, draft_probs):\n"
ANSWERS = [RIGHT, BEGIN + "    return None\n", BEGIN + "    import os\n    os._exit(0)\n"]


@pytest.fixture(scope="module")
def address():
    """A cluster of one worker in this process; where Dask is not installed, a warning says what is not tested."""
    distributed = pytest.importorskip("distributed", reason="--scheduler IS NOT TESTED HERE: there is no Dask")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as made:
        yield made.scheduler_address


def test_a_cluster_gives_the_marks_of_a_judge_here_and_leaves_no_server_behind(address, monkeypatch):
    with Cluster(address) as there, Judge() as here:
        assert there.threads == 1 and there.protection == f"on 1 Dask workers {here.protection}"
        for text in ANSWERS:
            assert there.grade({RATE.file: text}, [RATE], 23) == here.grade({RATE.file: text}, [RATE], 23)
        assert len(cluster._judges) == 1
        monkeypatch.setattr(cluster, "version", lambda exercise: "another")
        with pytest.raises(CourseError, match="grades acceptance_rate by another version of the course"):
            there.grade({RATE.file: ANSWERS[2]}, [RATE], 23)
    assert cluster._judges == {}


def test_a_worker_that_lacks_something_is_named_with_what(address, monkeypatch):
    def broken(token, dask_worker=None):
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr(cluster, "_protection", broken)
    with pytest.raises(CourseError, match="cannot grade: ModuleNotFoundError: No module named 'torch'"):
        Cluster(address)


def test_a_scheduler_that_does_not_answer_is_one_clear_error(address, monkeypatch):
    monkeypatch.setattr(cluster, "_SECONDS", 0.2)
    with pytest.raises(CourseError, match=re.escape("no Dask scheduler answers at tcp://127.0.0.1:9 within 0.2 s")):
        Cluster("tcp://127.0.0.1:9")


def test_a_cluster_without_workers_is_refused(address):
    local = importlib.import_module("distributed").LocalCluster
    with (
        local(n_workers=0, processes=False, dashboard_address=None, protocol="tcp") as empty,
        pytest.raises(CourseError, match="has no workers: `dask worker tcp://"),
    ):
        Cluster(empty.scheduler_address)


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(CourseError, match="--scheduler needs Dask, which is not installed: pip install distributed"):
        Cluster("tcp://127.0.0.1:8786")
