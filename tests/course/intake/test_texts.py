"""The texts beneath intake: cells of IPython as Python, names changed, what a mark depends on."""

import ast

import pytest

from course.audit.fingerprint import _tests_of, fingerprint
from course.registry import find
from course.text.ipython import python_of
from course.text.rename import renamed


@pytest.mark.parametrize(
    ("source", "python"),
    [
        ("%%time\nx = 1", "pass\nx = 1"),
        ("\n%%capture out\nx = 1", "\npass\nx = 1"),
        ("%%bash\nls", ""),
        ("!pip install x\nx = 1", "pass\nx = 1"),
        ("x?\n??x\ny = 2", "pass\npass\ny = 2"),
        ("files = !ls *.py", "files = None"),
        ("r = %timeit -o f()", "r = None"),
        ("def f(a):\n    %time b = g(a)\n    return b", "def f(a):\n    b = g(a)\n    return b"),
        ("x = (1\n  % 2)", "x = (1\n  % 2)"),
        ("'''\n%d items\n!\n'''\n%load_ext a", "'''\n%d items\n!\n'''\npass"),
        ('!echo "it\'s"\nx = 1', "pass\nx = 1"),
        ("\ufeffx = 1\r\ny = 2\r", "x = 1\ny = 2\n"),
        ("x = 5 +", "x = 5 +"),
    ],
)
def test_what_only_ipython_reads_is_taken_out_line_for_line(source, python):
    assert python_of(source) == python


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x, g=f):\n    return f(x) + o.f", "def f_1(x, g=f_1):\n    return f_1(x) + o.f"),
        ("def h(f):\n    return f", "def h(f):\n    return f"),
        ("def h():\n    f = 1\n    return f", "def h():\n    f = 1\n    return f"),
        ("def h():\n    global f\n    f = 1", "def h():\n    global f_1\n    f_1 = 1"),
        ("import a as f, b.f", "import a as f_1, b.f"),
        ("from a import f", "from a import f as f_1"),
        ("é = f; f = 'f'", "é = f_1; f_1 = 'f'"),
        ("class A:\n    def f(self):\n        return f()", "class A:\n    def f(self):\n        return f_1()"),
        ("g = lambda f: f\nh = lambda x: f", "g = lambda f: f\nh = lambda x: f_1"),
        ("k(f=f)", "k(f=f_1)"),
        ("def h():\n    def f(): return f\n    return f", "def h():\n    def f(): return f\n    return f"),
        (
            "def h():\n    def k():\n        f = 1\n    return f",
            "def h():\n    def k():\n        f = 1\n    return f_1",
        ),
        ("def h():\n    import f\n    return f", "def h():\n    import f\n    return f"),
        ("def h():\n    class f: x = f\n    return f", "def h():\n    class f: x = f\n    return f"),
        (
            "def h():\n    try: k()\n    except E as f: return f",
            "def h():\n    try: k()\n    except E as f: return f",
        ),
    ],
)
def test_a_global_name_gets_another_one_and_nothing_else_does(text, expected):
    ast.parse(expected)
    assert renamed(text, "f", "f_1") == expected


def test_a_corrected_test_touches_the_exercises_that_it_grades_and_no_other():
    text = (
        '@pytest.mark.exercise("f")\ndef test_f(impl):\n    assert impl.f() == 1\n\n\n'
        '@pytest.mark.exercise("g")\ndef test_g(impl):\n    assert impl.g() == 1\n\n\nLIMIT = 3\n'
    )
    corrected = text.replace("impl.f() == 1", "impl.f() == 2")
    assert _tests_of(text, ("f",)) != _tests_of(corrected, ("f",))
    assert _tests_of(text, ("g",)) == _tests_of(corrected, ("g",))
    assert _tests_of(text, ("g",)) != _tests_of(text.replace("LIMIT = 3", "LIMIT = 4"), ("g",))


def test_two_exercises_of_one_file_have_fingerprints_of_their_own():
    one, other = find("kv_cache_bytes"), find("weight_bytes")
    assert one.tests == other.tests and fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(one)
