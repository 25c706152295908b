"""Answers to exercise 4.1 that try to earn points without an answer, to harm the machine, or to stop the next one.

Each returns None where it does not get what it is after, which earns nothing. `{secret}` and `{port}` are filled in:
a file of somebody else's, and a port of this machine that listens.
"""

_ROOT = "import os, sys\nfrom pathlib import Path\nimport nanolm\nroot = Path(nanolm.__file__).parents[1]\n"
_RIGHT = "(target_probs - draft_probs).clamp(min=0) / (target_probs - draft_probs).clamp(min=0).sum()"
_HEAD = "def residual_distribution(target_probs, draft_probs):\n"


def answer(code: str = "", body: str = "return None") -> str:
    """Return a file: what runs when it is imported, and the body of the function that is asked."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f'"""An answer."""\n\nimport torch\n\n{code}\n\n\n{_HEAD}{lines}'


def right_if(condition: str, code: str = _ROOT) -> str:
    """Return an answer that is right where a condition holds which must not hold."""
    return answer(code, f"if {condition}:\n    return {_RIGHT}")


RIGHT = answer(body=f"if (target_probs == draft_probs).all():\n    raise ValueError('target_probs')\nreturn {_RIGHT}")

# What the process in which an answer runs does not have, so that it is not found there.
NOT_THERE = {
    "the reference called": answer(
        "from nanolm.speculative import residual_distribution as theirs", "return theirs(target_probs, draft_probs)"
    ),
    "the reference as a default argument": answer(
        "import nanolm.speculative.acceptance as module",
        "def inner(theirs=module.residual_distribution):\n    return theirs(target_probs, draft_probs)\nreturn inner()",
    ),
    "the reference as a constant of the file": answer(
        "import nanolm.speculative.acceptance as module\ntheirs = module.residual_distribution",
        "return theirs(target_probs, draft_probs)",
    ),
    "the reference's code copied when the file is imported": answer(
        "import types\nimport nanolm.speculative.acceptance as module\n"
        "copy = types.FunctionType(module.residual_distribution.__code__, vars(module))",
        "return copy(target_probs, draft_probs)",
    ),
    "the reference's text run again": answer(
        "import inspect\nimport nanolm.speculative.acceptance as module\nspace = dict(vars(module))\n"
        "exec(inspect.getsource(module).replace('from ..', 'from nanolm.'), space)",
        "return space['residual_distribution'](target_probs, draft_probs)",
    ),
    "every function in memory that has the name": answer(
        "import gc, types",
        "for each in gc.get_objects():\n"
        "    if isinstance(each, types.FunctionType) and each.__module__ == 'nanolm.speculative.acceptance':\n"
        "        if each.__name__ == 'residual_distribution':\n"
        "            return each(target_probs, draft_probs)",
    ),
    "the reference's file compiled": right_if("any((root / 'nanolm/speculative/__pycache__').glob('acceptance*'))"),
    "the solutions": right_if("(root / 'solutions').exists()"),
    "the history": right_if("(root / '.git').exists()"),
    "the gradebook": right_if("(root / 'grading').exists()"),
    "the planted mistakes": right_if("any((root / 'tests/planted').iterdir())"),
    "right answers of the audit": right_if("any((root / 'tests/right').iterdir())"),
    "another's work": right_if("Path('{secret}').exists()"),
    "the environment": right_if("'NANOLM_SECRET' in os.environ"),
    "a home": right_if("any(Path('/home').glob('*')) or any(Path('/root').glob('.[a-oq-z]*'))"),
    "other processes": right_if("len([each for each in os.listdir('/proc') if each.isdigit()]) > 1"),
    "the network": answer(
        "import socket", f"socket.create_connection(('127.0.0.1', {{port}}), timeout=5).close()\nreturn {_RIGHT}"
    ),
    "rights to mount": right_if("ctypes.CDLL(None).umount2(b'/tmp', 2) == 0", _ROOT + "import ctypes\n"),
    "rights of root": right_if(
        "os.getuid() == 0 or 'CapEff:\\t0000000000000000' not in status",
        _ROOT + "status = Path('/proc/self/status').read_text()\n",
    ),
}

# What changes the judge in its own process: a mistake planted there afterwards passes, which tells.
CHANGES_THE_JUDGE = {
    "pytest's runtest": answer("import _pytest.python\n_pytest.python.Function.runtest = lambda self: None"),
    "the class that takes down outcomes": answer(
        "from course.grading import outcomes\n"
        "outcomes.Collector._outcome = lambda self, item: outcomes.Outcome(item.name, '', True, '', False, "
        "outcomes.targets_of(item))"
    ),
    "the function that asks whether tensors are equal": answer(
        "torch.allclose = lambda *a, **k: True", "return torch.zeros_like(target_probs)"
    ),
    "the module that runs the tests": answer(
        "import sys\nbench = sys.modules['course.judge.bench']\nbench.asdict = lambda outcome: {'test': outcome.test, "
        "'sentence': '', 'passed': True, 'message': '', 'unwritten': False, 'targets': list(outcome.targets), "
        "'is_refusal': False}\nbench.Collector.outcomes = lambda self: "
        "[bench.Collector._outcome(self, item) for item in self.items]\n"
        "from course.grading import outcomes\noutcomes.message_of = lambda *a: ''\n"
        "from _pytest import runner\nrunner.CallInfo.from_call = classmethod(lambda cls, func, when, reraise=None: "
        "cls(None, None, 0.0, 0.0, 0.0, when, _ispytest=True))"
    ),
    "results written to every pipe": answer(
        "import json, os\nline = json.dumps({'word': 'x', 'kind': 'answer', 'outcomes': [], 'left': []}) + '\\n'",
        "for number in range(3, 64):\n    try:\n        os.write(number, line.encode())\n"
        "    except OSError:\n        pass",
    ),
}

# What only the screen finds: code that looks around in its own process can change any one thing there.
ONLY_SCREENED = {
    "a walk along the frames": answer(
        "import sys",
        "frame = sys._getframe()\nwhile frame:\n    found = frame.f_locals.get('collector')\n"
        "    if found is not None:\n        found.failures = type('No', (dict,), {'setdefault': lambda *a: None})()\n"
        "        found.passes = type('All', (set,), {'__contains__': lambda *a: True})()\n    frame = frame.f_back",
    ),
    "an object that equals everything": answer(
        "class Yes:\n    __eq__ = __lt__ = __gt__ = lambda *a: True\n    __getattr__ = lambda self, name: self\n"
        "    __call__ = __getitem__ = lambda self, *a, **k: self",
        "return Yes()",
    ),
    "an object that is always true": answer("class Yes:\n    def __bool__(self):\n        return True", "return Yes()"),
    "a tensor that answers for torch": answer(
        "class Yes(torch.Tensor):\n    @classmethod\n"
        "    def __torch_function__(cls, function, types, args=(), kwargs=None):\n"
        "        return True",
        "return target_probs.as_subclass(Yes)",
    ),
    "the same by a call of type": answer(
        "Yes = type('Yes', (), {'_' + '_eq_' + '_': lambda *a: True})", "return Yes()"
    ),
    "a mode over all of torch": answer(
        "from torch.overrides import TorchFunctionMode\nclass Mode(TorchFunctionMode):\n    pass"
    ),
    "another function's closure": answer("cells = check.__closure__ if 'check' in globals() else None"),
    "names by their text": answer("theirs = getattr(torch, 'all' + 'close')"),
    "a module inside another": answer("files = torch.os.listdir('.')"),
    "the same, imported": answer("from random import _os as files\nfiles.listdir('.')"),
    "what formatting leads to": answer("text = '{0.__globals__}'.format(answer)"),
    "attrgetter": answer("from operator import attrgetter\nspace = attrgetter('_' + '_globals_' + '_')"),
    "a hook of IPython": answer("get_ipython().events.register('pre_run_cell', print)"),
    "numbers out of memory": answer("from ctypes import string_at\nstring_at(id(1), 1)"),
    "a thread": answer("from threading import Thread\nThread(target=print).start()"),
    "an object of a pickle": answer("import pickle\npickle.loads(b'N.')"),
    "another student's names": answer("import conftest, impl, pytest"),
    "a class of the engine changed": answer("from nanolm.sampling import Rng\nRng.bernoulli = lambda *a: True"),
    "the course's tool": answer("from course.grading.runner import run_exercises"),
}

# What ends, or does not let end, the process that it runs in.
ENDS = {
    "os._exit in the function": answer("import os", "os._exit(0)"),
    "os._exit when it is imported": answer("import os\nos._exit(0)"),
    "sys.exit": answer("import sys", "sys.exit()"),
    "KeyboardInterrupt": answer(body="raise KeyboardInterrupt"),
    "an exit of pytest": answer("import pytest", "pytest.exit('done', returncode=0)"),
    "a skip of pytest": answer("import pytest", "pytest.skip('not today')"),
    "a kill of the parent": answer("import os", "os.kill(os.getppid() or 1, 9)"),
    "a kill of everybody": answer("import os", "os.kill(-1, 9)\nos.killpg(0, 9)"),
    "a stop": answer("import os, signal", "os.kill(os.getpid(), signal.SIGSTOP)"),
    "a segmentation fault": answer("import ctypes", "ctypes.string_at(0)"),
    "recursion": answer(body="return residual_distribution(target_probs, draft_probs)"),
    "recursion without its limit": answer(
        "import sys\nsys.setrecursionlimit(10**9)\nclass Deep:\n    def __repr__(self):\n        return repr(self)",
        "return repr(Deep())",
    ),
    "threads without an end": answer(
        "import threading, time\ndef spin():\n    while True:\n        time.sleep(0.1)\n",
        "for _ in range(4):\n    threading.Thread(target=spin, daemon=False).start()",
    ),
    "children that go on": answer(
        "import os, time",
        "for _ in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)\n        os._exit(0)",
    ),
    "20 GB at once": answer(body="return bytearray(20 << 30)"),
    "a file larger than the room": answer(
        body="with open('/tmp/large', 'wb') as file:\n    for _ in range(100):\n        file.write(bytes(1 << 20))\n"
        f"return {_RIGHT}"
    ),
    "10 MB of output": answer(
        "import os", "for _ in range(10):\n    print('x' * (1 << 20))\n    os.write(1, b'x' * (1 << 20))"
    ),
    "a message that is too long": answer(body="raise AssertionError('x' * (1 << 24))"),
    "a file among the tests": answer(_ROOT, f"(root / 'tests' / 'left.py').write_text('x')\nreturn {_RIGHT}"),
    "a file of the engine": answer(_ROOT, f"(root / 'nanolm' / 'left.py').write_text('x')\nreturn {_RIGHT}"),
}

# The same without a limit: only in a sandbox, and by night.
HEAVY = {
    "a fork bomb": answer("import os", "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass"),
    "20 GB bit by bit": answer(body="kept = []\nwhile True:\n    kept.append(bytearray(64 << 20))"),
    "20 GB in children": answer(
        "import os, time",
        "for _ in range(10):\n    if os.fork() == 0:\n        kept = bytearray(2 << 30)\n        time.sleep(600)\n"
        "time.sleep(600)",
    ),
    "a full disk": answer(
        body="for i in range(10**6):\n    with open(f'/tmp/{i}', 'wb') as file:\n        file.write(bytes(1 << 20))"
    ),
    "1 GB of output": answer(
        "import os", "for _ in range(1024):\n    print('x' * (1 << 20))\n    os.write(2, b'x' * (1 << 20))"
    ),
    "threads that never rest": answer(
        "import threading\ndef spin():\n    while True:\n        pass\n",
        "for _ in range(4):\n    threading.Thread(target=spin, daemon=False).start()",
    ),
    "an endless loop": answer(body="while True:\n    pass"),
    "an endless loop that catches everything": answer(
        body="while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        continue"
    ),
}
