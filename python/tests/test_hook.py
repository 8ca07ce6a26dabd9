"""Tests of the hook in `calibrate/hook`: `PYTHONPATH=python python3 -m unittest discover python/tests`"""

import csv
import os
import sys
import tempfile
import time
import unittest
from unittest import mock
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

    def test_a_row_tells_the_first_batch_the_cost_of_next_and_the_cores(self):
        # System: a loader that sleeps for 30 ms before its first batch, and computes for 10 ms for each; steps that sleep.
        def batches():
            time.sleep(0.03)
            for batch in BATCHES:
                end = time.thread_time() + 0.01
                while time.thread_time() < end:
                    pass
                yield batch

        for _ in watch(batches(), self.path, {"job.batch": 4}, warm_up=2, sync=lambda: time.sleep(0.005)):
            time.sleep(0.005)
        [row] = self.rows()
        self.assertGreater(float(row["first_batch"]), 0.04)
        self.assertLess(abs(float(row["next_time"]) - 0.01), 0.005)
        self.assertLess(abs(float(row["host_time"]) - 0.015), 0.01)
        self.assertTrue(0.1 < float(row["cores"]) < 1.1, row["cores"])
        self.assertEqual((row["workers"], row["ranks"]), ("", "1"))

    def test_a_loop_that_makes_its_batches_takes_none(self):
        class Alone(list):
            num_workers = 0

        for _ in watch(Alone(BATCHES), self.path, {"job.batch": 4}, warm_up=2):
            pass
        self.assertEqual((self.rows()[0]["next_time"], self.rows()[0]["workers"]), ("0.0", "0"))

    def test_without_sync_the_host_s_time_is_not_known(self):
        self.run_with({"job.batch": 4})
        self.assertEqual(self.rows()[0]["host_time"], "")

    def test_of_several_ranks_the_first_writes_the_samples_of_all(self):
        with mock.patch.dict(os.environ, {"WORLD_SIZE": "4", "RANK": "1"}):
            self.run_with({"job.batch": 4})
        self.assertFalse(self.path.exists())
        with mock.patch.dict(os.environ, {"WORLD_SIZE": "4", "RANK": "0"}):
            self.run_with({"job.batch": 4})
        row = self.rows()[0]
        self.assertEqual(row["ranks"], "4")
        self.assertAlmostEqual(float(row["samples_per_second"]) * float(row["step_time"]), 16.0, 6)

    def test_rows_go_on_in_a_file_of_an_earlier_hook(self):
        self.path.write_text("name,use,job.batch,steps,samples_per_second,step_time,stall\na,fit,4,8,100.0,0.04,0.5\n")
        self.run_with({"job.batch": 4})
        rows = self.rows()
        self.assertEqual((len(rows), rows[1]["job.batch"], rows[1]["steps"]), (2, "4", "8"))


if __name__ == "__main__":
    unittest.main()
