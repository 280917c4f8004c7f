"""`import gpufeed` is light, its public face is whole, and arrows between packages run one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpufeed

PACKAGE = Path(gpufeed.__file__).parent
HEAVY = {"nvidia", "torch", "jax"}

PROBE = """
import sys
before = set(sys.modules)
{statement}
loaded = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(*loaded - set(sys.stdlib_module_names))
"""


def imported_by(statement: str) -> set[str]:
    """Packages beside Python's own that a statement imports."""
    code = PROBE.format(statement=statement)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_imports_nothing_else() -> None:
    assert imported_by("import gpufeed") == {"gpufeed"}


def test_the_test_above_can_fail(tmp_path: Path) -> None:
    (tmp_path / "jax.py").touch()  # soon imported
    statement = f"sys.path.insert(0, {str(tmp_path)!r}); import gpufeed, jax"
    assert imported_by(statement) == {"gpufeed", "jax"}


def test_reading_and_planning_need_no_dali() -> None:
    statement = "import gpufeed; gpufeed.Loader, gpufeed.read_nabirds, gpufeed.presets.train()"
    assert imported_by(statement).isdisjoint(HEAVY)


def test_every_public_name_is_there() -> None:
    assert len(gpufeed.__all__) > 80
    assert {"Loader", "presets", "read_nabirds", "shard_from_torch"} <= set(gpufeed.__all__)
    for name in gpufeed.__all__:
        assert getattr(gpufeed, name) is not None
    assert {*gpufeed.__all__, "__version__"} == set(dir(gpufeed))
    with pytest.raises(AttributeError, match="module 'gpufeed' has no attribute 'nonsense'"):
        _ = gpufeed.nonsense


def test_the_list_exports_each_name_once() -> None:
    """A stub exports what is imported `as` its own name; a type checker sees nothing else."""
    lines = (PACKAGE / "__init__.pyi").read_text().splitlines()
    names = [line.split(" import ")[1] for line in lines if line.startswith("from ")]
    assert sorted(names) == [f"{name} as {name}" for name in gpufeed.__all__]


def test_every_transform_is_at_the_top() -> None:
    from gpufeed import transforms

    bases = {"GeometricTransform", "LateTransform", "MixTransform", "OutputFormat"}
    kinds = (getattr(transforms, name) for name in transforms.__all__)
    named = {
        kind.__name__
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, transforms.Transform | transforms.Views)
    }
    missing = named - set(gpufeed.__all__) - bases - {"PixelTransform", "Transform"}
    assert not missing


def test_all_errors_have_one_root() -> None:
    from gpufeed import errors

    for name in errors.__all__:
        assert issubclass(getattr(errors, name), gpufeed.GpufeedError)
        assert getattr(gpufeed, name) is getattr(errors, name)


LAYERS = [
    {"_util", "errors"},
    {"rng"},
    {"faults", "ledger"},
    {"source"},
    {"decode"},
    {"records"},
    {"order"},
    {"tiers"},
    {"transforms"},
    {"plan", "presets"},
    {"open"},
    {"engine"},
    {"adapters"},
    {"sheets"},
    {"live"},
    {"feed"},
    {"tools"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MAY_IMPORT = {
    "cykooz_resizer": {"open"},
    # Where a graph is run, and where its operators are written down.
    "nvidia": {
        "_util/dali_private.py",
        "decode",
        "engine",
        "open",
        "tools/plain_decode.py",
        "transforms/operators",
    },
    **{name: {"source/remote"} for name in ("aiohttp", "botocore", "fsspec", "obstore", "yarl")},
    "torch": {"adapters/torch.py"},
    "jax": {"adapters/jax.py"},
}


def imports(path: Path) -> set[str]:
    """Modules that a file imports when it runs: not what only type checkers see."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                assert not child.level, f"{path} has a relative import"
                found.add(child.module)
                found.update(f"{child.module}.{alias.name}" for alias in child.names)
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_run_one_way(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    own = relative.parts[0].removesuffix(".py")
    assert own in LEVEL, f"gpufeed/{own} has no place in the layers"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "gpufeed" and len(parts) > 1:
            assert parts[1] in LEVEL, f"{relative} imports the public {name}; name its module"
            assert LEVEL[parts[1]] <= LEVEL[own], f"{relative} imports {name}"
        allowed = MAY_IMPORT.get(parts[0])
        if allowed is not None:
            assert allowed & {own, str(relative), str(relative.parent)}, (
                f"{relative} imports {name}"
            )
