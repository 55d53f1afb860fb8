"""What the tests of a program share: it is run with files in a directory of its own, and refuses what is wrong in one
line. BUILD (default: build) holds the programs."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.path.join(ROOT, os.environ.get("BUILD", "build")))
# Long enough for a sanitizer build on a busy machine; a limit for hangs, never a measurement.
PATIENCE_S = 120


class ProgramTest(unittest.TestCase):
    NAME = None  # the program's

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    @classmethod
    def program(cls):
        return os.path.join(BUILD, cls.NAME)

    def run_program(self, *arguments, data=b"", **options):
        return subprocess.run([self.program(), *arguments], input=data, capture_output=True, timeout=PATIENCE_S,
                              check=False, **options)

    def path(self, name, data=None):
        """Of a file in the directory, with that data."""
        path = os.path.join(self.directory.name, name)
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        return path

    def refuses(self, pattern, *arguments, **options):
        """Exit code 1 and one line with the pattern; gives what was written to standard output before."""
        done = self.run_program(*arguments, **options)
        text = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 1, (arguments, text))
        self.assertRegex(text, rf"\A{self.NAME}: [^\n]*\n\Z")
        self.assertRegex(text, pattern)
        return done.stdout
