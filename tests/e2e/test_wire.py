"""Every transcript in tests/wire, on a server of its own and sent in several ways.

However the bytes of a request arrive, the answers are the same: exchange by exchange, all requests
of a scene in one go, byte by byte, and cut at places that a seed decides.
"""

import glob
import os
import unittest

from server import PATIENCE_S, SOAK, Server
from transcript import WIRE_DIRECTORY, Mismatch, Player, bytewise, parse, pieces_of, play, whole

WAYS = {
    "one_exchange_at_a_time": {"cut": whole},
    "all_at_once": {"cut": whole, "together": True},
    "byte_by_byte": {"cut": bytewise},
}
WAYS.update(
    (f"in_pieces_of_seed_{seed}", {"cut": pieces_of(seed)}) for seed in range(8 if SOAK else 1))


class Transcripts(unittest.TestCase):
    pass


def add_tests():
    for path in sorted(glob.glob(os.path.join(WIRE_DIRECTORY, "*.txt"))):
        name = os.path.splitext(os.path.basename(path))[0]
        waits = any(step.kind == "gone" for step in parse(path)[1])
        for way, settings in WAYS.items():
            if waits and not way.startswith(("one", "byte")):
                continue  # two ways are enough where time passes
            def test(_self, path=path, settings=settings):
                play(path, **settings)
            setattr(Transcripts, f"test_{name}_{way}", test)


add_tests()


class ThePlayerItself(unittest.TestCase):
    """A player that accepts everything would make the transcripts worthless."""

    def plays(self, server, *lines, timeout=PATIENCE_S):
        path = os.path.join(server.directory, "transcript.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(("=== scene",) + lines) + "\n")
        Player(server, path, whole, timeout=timeout).play(parse(path)[1])

    def test_wrong_transcripts_fail(self):
        wrong = [
            (">>> mn", "<<< MX"),
            (">>> mn", "<<< MN", "<<< MN"),
            (">>> mn", ">>> mn", "<<< MN"),
            (">>> version", "<<~ VERSION 0.*"),
            (">>> get k", "<<< END", "+++ cmd_get 2"),
            (">>> get k", "<<< END", "+++ no_such_counter 1"),
            (">>> mn", "<<< MN", "!!! closed"),
            (">>b noop opaque=1", "<<b noop opaque=2"),
        ]
        with Server() as server:
            self.plays(server, ">>> mn", "<<< MN", ">>> get k", "<<< END", "+++ cmd_get 1")
            for lines in wrong:
                with self.subTest(lines=lines), self.assertRaises(Mismatch):
                    # Some wait for what never comes; that is a mismatch as well.
                    self.plays(server, *lines, timeout=0.5)


if __name__ == "__main__":
    unittest.main()
