"""Tests of the Spack recipe, with stand-ins for the functions of Spack 1.0 that it uses.

They need a program: `cargo build && FOREBAY=target/debug/forebay PYTHONPATH=python python3 -m unittest discover python/tests`
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging/spack/spack_repo/forebay/packages/forebay/package.py"


class Prefix(str):
    """A folder whose attributes are the paths below it, as Spack's `Prefix`."""

    def __getattr__(self, name):
        return Prefix(os.path.join(self, name))


class Executable:
    """A program that is run by a call."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, output=None):
        subprocess.run([self.path, *map(str, arguments)], stdout=output, check=True)


class Spec:
    """A package with or without the variant `cuda`."""

    def __init__(self, variants):
        self.variants = variants

    def satisfies(self, variant):
        return variant in self.variants


def load(after):
    """Returns the class of the recipe; appends the functions that it runs after the installation to `after`."""
    spack, cargo = types.ModuleType("spack.package"), types.ModuleType("cargo")

    def run_after(phase):
        assert phase == "install", phase
        return lambda function: after.append(function) or function

    stand_ins = {name: lambda *_, **__: None for name in ("license", "version", "variant", "depends_on")}
    stand_ins |= {
        "Executable": Executable,
        "run_after": run_after,
        "mkdirp": lambda path: Path(path).mkdir(parents=True, exist_ok=True),
        "bash_completion_path": lambda root: Path(root) / "share/bash-completion/completions",
        "zsh_completion_path": lambda root: Path(root) / "share/zsh/site-functions",
        "fish_completion_path": lambda root: Path(root) / "share/fish/vendor_completions.d",
    }
    vars(spack).update(stand_ins, __all__=list(stand_ins))
    cargo.CargoPackage = type("CargoPackage", (), {})
    names = ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems")
    modules = {name: types.ModuleType(name) for name in names}
    modules |= {"spack.package": spack, "spack_repo.builtin.build_systems.cargo": cargo}
    with mock.patch.dict(sys.modules, modules):
        spec = importlib.util.spec_from_file_location("recipe", RECIPE)
        recipe = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(recipe)
    return recipe.Forebay


class Recipe(unittest.TestCase):
    def test_the_recipe_builds_this_repository_with_its_lock_file(self):
        package = load([])
        self.assertEqual(package.git, ROOT.as_uri())
        forebay = package()
        forebay.spec = Spec(["+cuda"])
        self.assertEqual(forebay.build_args, ["--locked"])
        forebay.spec = Spec([])
        self.assertEqual(forebay.build_args, ["--locked", "--no-default-features"])

    def test_the_recipe_installs_manual_pages_and_completions(self):
        after = []
        package = load(after)
        with tempfile.TemporaryDirectory() as folder:
            forebay = package()
            forebay.prefix = Prefix(folder)
            Path(folder, "bin").mkdir()
            shutil.copy(os.environ["FOREBAY"], forebay.prefix.bin.forebay)
            for function in after:
                function(forebay)
            installed = {str(path.relative_to(folder)) for path in Path(folder, "share").rglob("*") if path.is_file()}
        for path in ("man/man1/forebay-run.1", "bash-completion/completions/forebay",
                     "zsh/site-functions/_forebay", "fish/vendor_completions.d/forebay.fish"):
            self.assertIn(f"share/{path}", installed)


if __name__ == "__main__":
    unittest.main()
