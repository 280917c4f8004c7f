"""Nothing that is read is run: no pickle, no eval, no torch.load, in no module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gpufeed

PACKAGE = Path(gpufeed.__file__).parent


RUNS_CODE = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib"),
    *("marshal", "shelve", "code", "codeop", "runpy", "imp", "ast"),
}
CALLS = {"eval", "exec", "compile", "__import__"}


def what_runs_code(source: str) -> list[str]:
    """Where a module could run what it read."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Name) and node.id in CALLS:
            found.append(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.load":
            found.append("torch.load")
        elif isinstance(node, ast.keyword) and ast.unparse(node).startswith("allow_pickle="):
            found += [] if ast.unparse(node.value) == "False" else ["allow_pickle"]
        found += [name for name in names if name.split(".")[0] in RUNS_CODE]
    return found


def test_no_module_runs_what_it_reads() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    for path in files:
        assert what_runs_code(path.read_text()) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n    import marshal",
        "import shelve as s",
        "eval('1')",
        "f = exec",
        "import torch\ntorch.load('x')",
        "np.load('x', allow_pickle=True)",
        "np.load('x', allow_pickle=really)",
    ],
)
def test_the_test_above_can_fail(source: str) -> None:
    assert what_runs_code(source)
