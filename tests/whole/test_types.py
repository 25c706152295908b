"""The types are checked by `make lint`: here is only that they are, over everything, and that nothing slips through.

The check itself takes half a minute, which is too long for a test.
"""

import re
import tomllib

from course.paths import ROOT, read

SETTINGS = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["basedpyright"]
SOURCES = [path for folder in ("nanolm", "course") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_the_types_of_the_engine_and_of_the_course_are_checked():
    assert SETTINGS["include"] == ["nanolm", "course"]
    assert SETTINGS["typeCheckingMode"] == "basic"
    assert SETTINGS["exclude"] == ["nanolm/kernels/triton_*.py"], "only what is no Python is left out"


def test_one_rule_is_off_that_jaxtyping_cannot_keep():
    assert [rule for rule in SETTINGS if rule.startswith("report")] == ["reportUndefinedVariable"]


def test_lint_checks_style_and_types_and_every_change_is_linted():
    lint = re.search(r"(?m)^lint:.*\n((?:\t.*\n)+)", read(ROOT / "Makefile"))
    assert lint and [line.strip() for line in lint[1].splitlines()] == [
        "$(BIN)/ruff check .",
        "$(BIN)/ruff check --isolated --select F821 $(SHAPELESS)",
        "$(BIN)/basedpyright",
    ]
    assert "\nmake lint\nmake test\n" in read(ROOT / ".ci" / "run")


def test_what_is_ignored_is_named():
    bare = re.compile(r"# *type: *ignore.*|# *pyright:(?! *ignore\[report\w+\]).*")
    found = [f"{path.relative_to(ROOT)}: {line}" for path in SOURCES for line in bare.findall(read(path))]
    assert not found, (
        f"an error is ignored by its rule, pyright: ignore[rule], and no file switches a check off: {found}"
    )
