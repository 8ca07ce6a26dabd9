"""Tests of the hook in `calibrate/hook`: `PYTHONPATH=python python3 -m unittest discover python/tests`"""

import csv
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "calibrate" / "hook"))
from forebay_hook import watch  # noqa: E402

BATCHES = [([1, 2, 3, 4], [0, 0, 0, 0])] * 10


class Hook(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "runs.csv"

    def run_with(self, keys):
        for _ in watch(BATCHES, self.path, keys, warm_up=2):
            pass

    def rows(self):
        with open(self.path, newline="") as file:
            return list(csv.DictReader(file))

    def test_a_run_with_its_keys_in_another_order_is_written_under_their_names(self):
        self.run_with({"job.batch": 4, "job.loader.pytorch.workers": 2})
        self.run_with({"job.loader.pytorch.workers": 8, "job.batch": 4})
        rows = self.rows()
        self.assertEqual([row["job.loader.pytorch.workers"] for row in rows], ["2", "8"])
        self.assertEqual([row["job.batch"] for row in rows], ["4", "4"])
        self.assertEqual([row["steps"] for row in rows], ["8", "8"])

    def test_a_run_with_other_keys_is_refused_before_it_trains(self):
        self.run_with({"job.batch": 4})
        for keys in ({"job.batch": 4, "job.model.step": "1 s"}, {"job.accumulation": 2}, {}):
            batches = watch(BATCHES, self.path, keys)
            with self.assertRaises(ValueError) as refused:
                next(batches)
            said = str(refused.exception)
            for key in set(keys) ^ {"job.batch"}:
                self.assertIn(key, said)
        self.assertEqual(len(self.rows()), 1)

    def test_keys_that_are_the_hook_s_own_columns_are_refused(self):
        with self.assertRaises(ValueError):
            next(watch(BATCHES, self.path, {"steps": 3}))
        self.assertFalse(self.path.exists())

    def test_a_loop_that_ends_early_still_writes_its_row(self):
        for number, _ in enumerate(watch(BATCHES, self.path, {"job.batch": 4}, warm_up=2)):
            if number == 5:
                break
        self.assertEqual(self.rows()[0]["steps"], "3")


if __name__ == "__main__":
    unittest.main()
