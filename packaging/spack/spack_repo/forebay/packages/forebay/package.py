"""forebay for Spack 1.0 or later, built from the checkout that this file lies in.

    spack repo add packaging/spack/spack_repo/forebay
    spack external find rust        # 1.95 or later, as from rustup; else Spack builds Rust, which takes an hour
    spack install forebay
    spack load forebay

Cargo fetches the dependencies while it builds. Committed changes of the branch `main` are built, others are not.
"""

from pathlib import Path

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class Forebay(CargoPackage):
    """Will my accelerators starve, on what, and what should I change? A discrete-event simulator of deep-learning
    training on shared clusters."""

    git = Path(__file__).resolve().parents[6].as_uri()

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    variant("cuda", default=True, description="Measure and train on NVIDIA GPUs; libraries are looked for at run time")

    depends_on("c", type="build")  # the linker
    depends_on("rust@1.95:", type="build")

    @property
    def build_args(self):
        """Arguments of `cargo install`."""
        return ["--locked"] if self.spec.satisfies("+cuda") else ["--locked", "--no-default-features"]

    @property
    def check_args(self):
        """Arguments of `cargo test`, for `spack install --test=root`."""
        return ["--locked"]

    @run_after("install")
    def install_pages(self):
        """Writes manual pages and completions."""
        forebay = Executable(self.prefix.bin.forebay)
        forebay("man", self.prefix.share.man.man1)
        completions = {
            "bash": bash_completion_path(self.prefix) / "forebay",
            "zsh": zsh_completion_path(self.prefix) / "_forebay",
            "fish": fish_completion_path(self.prefix) / "forebay.fish",
        }
        for shell, path in completions.items():
            mkdirp(path.parent)
            with open(path, "w", encoding="utf-8") as script:
                forebay("completions", shell, output=script)
