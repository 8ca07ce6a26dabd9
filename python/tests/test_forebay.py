"""Tests of the module `forebay`, and of what `forebay man` and `forebay completions` write.

They need a program: `cargo build && FOREBAY=target/debug/forebay PYTHONPATH=python python3 -m unittest discover python/tests`
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent import futures
from pathlib import Path
from unittest import mock

import forebay
from forebay import _shards
from forebay._toml import setting

SCENARIO = """
name = "small"
[run]
steps = 50
warm_up = "off"
replications = 1
[cluster]
nodes = 1
[cluster.node]
cores = 8
gpus = 1
[storage.nas.file-server]
bandwidth = "2 GB/s"
latency = "1 ms"
[dataset.images]
samples = 100000
sample_size = "100 kB"
[[job]]
name = "resnet"
dataset = "images"
storage = "nas"
batch = 32
loader.tf-queue = { threads = 2, capacity = "64 samples", decode = "8 ms" }
model.step = "20 ms"
[sweep]
"job.batch" = [16, 32]
"job.loader.tf-queue.threads" = [1, 8]
"""


class Losing(futures.Executor):
    """An executor that loses the first tasks, as one does whose workers are killed, but not those of one shard."""

    def __init__(self, lost, keep=None):
        self.lost, self.keep, self.tasks = lost, keep, 0

    def submit(self, function, shard, *arguments):
        self.tasks += 1
        future = futures.Future()
        try:
            if shard != self.keep and self.lost > 0:
                self.lost -= 1
                raise OSError("lost")
            future.set_result(function(shard, *arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class Runs(unittest.TestCase):
    """A scenario in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scenario = Path(folder.name) / "small.toml"
        self.scenario.write_text(SCENARIO, encoding="utf-8")

    def step_time(self, *arguments, **options):
        (job,) = forebay.run(self.scenario, *arguments, **options)["jobs"]
        return job["step_time"]["mean"]

    def test_run_returns_the_report(self):
        report = forebay.run(str(self.scenario))
        self.assertEqual(report["scenario"], "small")
        self.assertEqual(report["jobs"][0]["name"], "resnet")
        self.assertIn("resnet", report["verdict"]["text"])

    def test_overrides_change_the_answer(self):
        starving = self.step_time()
        self.assertLess(self.step_time({"job.loader.tf-queue.threads": 8}), starving / 2)
        self.assertLess(self.step_time(job__batch=8), starving / 2)
        self.assertGreater(self.step_time({"job.model": {"step": "1 s"}}), 0.9)

    def test_none_removes_a_key(self):
        starving = self.step_time()
        self.assertLess(self.step_time({"job.loader.tf-queue.decode": None}), starving / 2)
        with self.assertRaisesRegex(forebay.ForebayError, "nothing sets `job.failures`"):
            forebay.run(self.scenario, job__failures=None)

    def test_keywords_win_over_the_mapping(self):
        expected = self.step_time(job__batch=8)
        self.assertEqual(self.step_time({"job.batch": 16}, job__batch=8), expected)

    def test_options_are_those_of_the_command_line(self):
        report = forebay.run(self.scenario, seed=7, replications=2, verdict="quick", threads=1)
        self.assertEqual((report["seed"], report["replications"]), (7, 2))
        self.assertIs(report["verdict"]["quick"], True)

    def test_sweep_returns_a_row_for_each_point(self):
        rows = forebay.sweep(self.scenario, columns=["step_time", "stall"])
        points = [(row["job.batch"], row["job.loader.tf-queue.threads"]) for row in rows]
        self.assertEqual(points, [(16, 1), (16, 8), (32, 1), (32, 8)])
        self.assertEqual(rows[0]["job"], "resnet")
        self.assertLess(rows[1]["step_time"], rows[0]["step_time"])
        self.assertIn("stall", rows[0])

    def test_values_to_sweep_replace_those_of_the_file_or_come_beside_them(self):
        rows = forebay.sweep(self.scenario, vary={"job.batch": range(8, 11), "run.seed": [1]}, columns="step_time")
        points = [(row["job.batch"], row["job.loader.tf-queue.threads"], row["run.seed"]) for row in rows]
        self.assertEqual(points, [(batch, threads, 1) for batch in (8, 9, 10) for threads in (1, 8)])

    def test_a_sweep_over_an_executor_has_the_rows_of_one_that_runs_here(self):
        expected = forebay.sweep(self.scenario, columns="step_time")
        with futures.ProcessPoolExecutor(2) as processes, futures.ThreadPoolExecutor(2) as threads:
            for executor, shards in [(processes, 3), (threads, 1), (threads, 7)]:
                rows = forebay.sweep(self.scenario, columns="step_time", executor=executor, shards=shards)
                self.assertEqual(rows, expected)
        self.assertEqual([name for name in os.listdir() if name.startswith("forebay-sweep-")], [])

    def test_the_shard_of_a_lost_worker_is_run_again(self):
        expected = forebay.sweep(self.scenario)
        lost = Losing(2)
        self.assertEqual(forebay.sweep(self.scenario, executor=lost, shards=4), expected)
        self.assertEqual(lost.tasks, 6)

    def test_a_sweep_goes_on_with_the_points_that_a_broken_pool_finished(self):
        place = self.scenario.with_name("shards")
        with futures.ThreadPoolExecutor(1) as pool:
            rows = _shards.make("1/2", str(place), [str(self.scenario)])
            self.assertTrue(Path(rows).is_file())
            with self.assertRaisesRegex(forebay.ForebayError, "shard 2/2: lost; finished points are kept: go on with directory="):
                forebay.sweep(self.scenario, executor=Losing(10**6, keep="1/2"), shards=2, directory=place)
            rows = forebay.sweep(self.scenario, executor=pool, shards=2, directory=place)
        self.assertEqual(rows, forebay.sweep(self.scenario))

    def test_what_the_program_refuses_is_not_run_again(self):
        lost = Losing(0)
        with self.assertRaisesRegex(forebay.ForebayError, "did you mean `batch`"):
            forebay.sweep(self.scenario, {"job.btch": 8}, executor=lost, shards=2)
        self.assertEqual(lost.tasks, 2)
        with self.assertRaisesRegex(forebay.ForebayError, "shards is a number"):
            forebay.sweep(self.scenario, executor=lost, shards=0)

    def test_parquet_rows_are_read_by_pandas_and_duckdb_with_their_units(self):
        try:
            import duckdb
            import pandas
            import pyarrow.parquet
        except ImportError as error:
            self.skipTest(f"{error.name} is not installed")
        path = str(self.scenario.with_name("rows.parquet"))
        command = [forebay.executable(), "sweep", str(self.scenario), "--columns", "all", "--format", "parquet", "--output", path]
        bandwidth = """--vary=storage.nas.file-server.bandwidth=["1 GB/s", "500 MB/s"]"""
        subprocess.run([*command, "--quiet", bandwidth], check=True)
        expected = forebay.sweep(self.scenario, columns="all", vary={"storage.nas.file-server.bandwidth": ["1 GB/s", "500 MB/s"]})
        table = pandas.read_parquet(path)
        self.assertEqual(list(table.columns), list(expected[0]))
        for name in expected[0]:
            values = [row[name] for row in expected]
            if name.endswith(".bandwidth"):
                values = [{"1 GB/s": 1e9, "500 MB/s": 5e8}[value] for value in values]
            found = [None if pandas.isna(value) else value for value in table[name]]
            self.assertEqual(found, values, name)
        mean = duckdb.sql(f"select job, avg(step_time), max(\"storage.nas.file-server.bandwidth\") from '{path}' group by job").fetchall()
        self.assertEqual(mean[0][0::2], ("resnet", 1e9))
        self.assertAlmostEqual(mean[0][1], table["step_time"].mean())
        schema = pyarrow.parquet.read_schema(path)
        units = {name: (schema.field(name).metadata or {}).get(b"unit", b"").decode() for name in schema.names}
        self.assertEqual(units["step_time"], "s")
        self.assertEqual(units["storage.nas.file-server.bandwidth"], "B/s")
        self.assertEqual(units["job"], "")
        compression = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(0).compression
        self.assertEqual(compression, "ZSTD")

    def test_ranges_and_samples_are_mappings(self):
        rows = forebay.sweep(self.scenario, vary={"job.batch": {"from": 16, "to": 64}, "sample": {"sobol": 8}}, columns="step_time")
        self.assertEqual(len(rows), 16)
        self.assertTrue(all(16 <= row["job.batch"] <= 64 for row in rows))

    def test_a_directory_that_cannot_be_created_is_a_forebay_error(self):
        with self.assertRaisesRegex(forebay.ForebayError, "cannot be created"):
            forebay.sweep(self.scenario, executor=Losing(0), directory=self.scenario / "below-a-file")

    def test_an_unknown_key_is_refused_with_the_message_of_the_program(self):
        with self.assertRaises(forebay.ForebayError) as refused:
            forebay.run(self.scenario, {"job.btch": 8})
        self.assertIn("did you mean `batch`", str(refused.exception))
        self.assertEqual(refused.exception.exit_code, 2)
        with self.assertRaisesRegex(forebay.ForebayError, "cannot read the file"):
            forebay.sweep(self.scenario.with_name("absent.toml"))

    def test_a_scenario_is_never_taken_for_an_option(self):
        with self.assertRaisesRegex(forebay.ForebayError, "cannot read the file"):
            forebay.run("--help")

    def test_a_program_that_cannot_be_started_is_named(self):
        with mock.patch.dict(os.environ, FOREBAY="/nowhere/forebay"):
            with self.assertRaisesRegex(forebay.ForebayError, "/nowhere/forebay cannot be started"):
                forebay.run(self.scenario)

    def test_every_failure_is_a_forebay_error(self):
        for call in [
            lambda: forebay.run(None),
            lambda: forebay.run(5),
            lambda: forebay.run("a\0b"),
            lambda: forebay.run(self.scenario, 5),
            lambda: forebay.run(self.scenario, "job.batch"),
            lambda: forebay.run(self.scenario, {3: None}),
            lambda: forebay.run(self.scenario, {"job.batch": "\ud800"}),
            lambda: forebay.run(self.scenario, {"job.batch": "a\0b"}),
            lambda: forebay.run(self.scenario, seed=object()),
            lambda: forebay.run(self.scenario, profile=self.scenario.with_name("absent")),
            lambda: forebay.sweep(self.scenario, vary={"job.batch": 5}),
            lambda: forebay.sweep(self.scenario, vary={"job.batch": "16"}),
            lambda: forebay.sweep(self.scenario, vary=["job.batch"]),
            lambda: forebay.sweep(self.scenario, columns=5),
            lambda: forebay.sweep(self.scenario, columns=[5]),
        ]:
            with self.assertRaises(forebay.ForebayError) as refused:
                call()
            self.assertNotEqual(str(refused.exception), "")

    def test_a_program_that_is_not_forebay_is_named(self):
        for other in ("/bin/echo", "/bin/false"):
            with mock.patch.dict(os.environ, FOREBAY=other):
                with self.assertRaises(forebay.ForebayError):
                    forebay.run(self.scenario)

    def test_the_module_is_the_command_line_too(self):
        done = subprocess.run([sys.executable, "-m", "forebay", "--version"], stdout=subprocess.PIPE, check=True)
        self.assertRegex(done.stdout.decode(), r"^forebay \d+\.\d+\.\d+")


class Settings(unittest.TestCase):
    """Values as `--set` takes them."""

    def test_values_are_written_as_toml(self):
        cases = [
            (True, "true"),
            (3, "3"),
            (0.5, "0.5"),
            (1e300, "1e+300"),
            (float("inf"), "inf"),
            ('"3 ms"\n\x7f', r'"\"3 ms\"\n\u007F"'),
            ([1, "a", [2.0]], '[1, "a", [2.0]]'),
            (range(2), "[0, 1]"),
            ({"median": "1 ms", "a.b": {}}, '{ "median" = "1 ms", "a.b" = {  } }'),
        ]
        for value, text in cases:
            self.assertEqual(setting("k", value), f"k={text}")

    def test_what_toml_lacks_is_refused(self):
        itself = []
        itself.append(itself)
        for value in (None, object(), 1j, itself, b"\xff"):
            with self.assertRaises(forebay.ForebayError):
                setting("job.batch", value)
        with self.assertRaises(forebay.ForebayError):
            setting(3, 4)


def say(*arguments):
    """What the program prints."""
    return subprocess.run([forebay.executable(), *arguments], stdout=subprocess.PIPE, check=True).stdout.decode()


def commands(*of):
    """The commands of a command, as its help lists them, and those below them."""
    section = re.search(r"^Commands:\n((?: .*\n|\n(?= ))+)", say(*of, "--help"), re.MULTILINE)
    names = re.findall(r"^  (\S+)", section.group(1), re.MULTILINE) if section else []
    for name in names:
        if name != "help":
            yield (*of, name)
            yield from commands(*of, name)


class Installed(unittest.TestCase):
    """Manual pages and completions."""

    def test_every_command_has_a_manual_page(self):
        with tempfile.TemporaryDirectory() as folder:
            say("man", folder)
            pages = {page.name: page.read_text(encoding="utf-8") for page in Path(folder).iterdir()}
        expected = {"forebay.1", *("-".join(("forebay", *names)) + ".1" for names in commands())}
        self.assertIn("forebay-profile-show.1", expected)
        self.assertEqual(set(pages), expected)
        for name, page in pages.items():
            self.assertIn(f".SH NAME\n{name[:-2]} - ", page.replace("\\-", "-"))

    def test_completions_know_every_command(self):
        for shell in ("bash", "zsh", "fish", "elvish", "powershell"):
            script = say("completions", shell)
            for names in commands():
                self.assertIn(names[-1], script)
            if shell in ("bash", "zsh", "fish") and shutil.which(shell):
                subprocess.run([shell, "-n"], input=script.encode(), check=True)


class Documented(unittest.TestCase):
    """The guide's page about installing, and the folder `packaging`."""

    root = Path(__file__).resolve().parents[2]

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def test_the_code_of_the_guide_runs(self):
        (code,) = re.findall(r"^```python\n(.*?)^```", self.text("docs/src/install.md"), re.MULTILINE | re.DOTALL)
        paths = [os.path.abspath(path) for path in sys.path if path]
        environment = {
            **os.environ,
            "FOREBAY": os.path.abspath(forebay.executable()),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        command = [sys.executable, "-c", code + "print(len(rows))"]
        done = subprocess.run(command, cwd=self.root, env=environment, stdout=subprocess.PIPE, check=True)
        self.assertRegex(done.stdout.decode(), r"lenet(.|\n)*\n10\n$")

    def test_packaging_asks_for_the_rust_of_cargo_toml(self):
        (rust,) = re.findall(r'^rust-version = "(.*)"', self.text("Cargo.toml"), re.MULTILINE)
        files = {
            "packaging/Dockerfile": f"FROM rust:{rust}-",
            "packaging/forebay.def": f"From: rust:{rust}-",
            "packaging/spack/spack_repo/forebay/packages/forebay/package.py": f'"rust@{rust}:"',
            "docs/src/install.md": f"(https://rustup.rs) {rust} or later",
        }
        for name, expected in files.items():
            self.assertIn(expected, self.text(name), name)


if __name__ == "__main__":
    unittest.main()
