"""python3 tpu_study_test.py MOESIM: tools/tpu_study prints its tables from what moesim says."""

import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MOESIM = sys.argv.pop()


def study(*arguments):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "tpu_study"), "--moesim", MOESIM, *arguments],
                          capture_output=True, text=True, check=False, cwd=ROOT)


def cells(output):
    return [[cell.strip() for cell in line.strip("| \n").split("|")] for line in output.splitlines()
            if line.startswith("| ")]


class Study(unittest.TestCase):
    def test_fitted_rows_are_met(self):
        done = study("--tables", "gmm")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = cells(done.stdout)[1:]
        self.assertEqual([row[0] for row in rows], ["1", "2", "3", "4", "5"])
        for row in (rows[0], rows[2]):
            self.assertLess(abs(float(row[7])), 0.2)

    def test_growth_of_the_grouped_path_is_not_above_the_measured_one(self):
        rows = cells(study("--tables", "growth").stdout)[1:]
        for row in rows:
            self.assertLessEqual(float(row[2]), float(row[1]))

    def test_an_override_changes_the_ladder(self):
        plain, slow = (cells(study("--tables", "ladder", *more).stdout)[1]
                       for more in ([], ["--set", "sequence.scan=1us"]))
        self.assertGreater(float(slow[1]), float(plain[1]) + 900)
        self.assertEqual(slow[2:], plain[2:])

    def test_wrong_input_is_refused(self):
        self.assertNotEqual(study("--tables", "grwth").returncode, 0)
        self.assertNotEqual(study("--tables", "growth", "--set", "sequence.scan=1").returncode, 0)


if __name__ == "__main__":
    unittest.main()
