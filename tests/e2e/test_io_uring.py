"""--io-uring: rounds through io_uring where it is there, plain calls and one line where it is not.

That the answers are the same both ways is shown by test_wire and test_limits, which run with and
without it (tests/e2e/run).
"""

import os
import sys
import unittest

from server import IS_MEMCACHED, Server, run_once, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
SETUP, ENTER = 425, 426
REFUSED = "io_uring is not available"
CLIENTS = 40


class Refusing(Server):
    """A server to which a system call is forbidden."""

    def __init__(self, number, *arguments):
        super().__init__(*arguments)
        self.number = number

    def command(self):
        refuse = os.path.join(HERE, "refuse_call.py")
        return [sys.executable, refuse, str(self.number), *super().command()]


@unittest.skipIf(IS_MEMCACHED, "memcached has no such option")
class IoUring(unittest.TestCase):
    def talk(self, server, rounds=20):
        """Many clients ask before any of them reads."""
        wires = [server.connect() for _ in range(CLIENTS)]
        try:
            for turn in range(rounds):
                for number, wire in enumerate(wires):
                    wire.send(f"set key{number} 0 0 5\r\n{turn:05}\r\nget key{number}\r\n".encode())
                for number, wire in enumerate(wires):
                    expected = f"STORED\r\nVALUE key{number} 0 5\r\n{turn:05}\r\nEND\r\n".encode()
                    self.assertEqual(wire.read(len(expected)), expected)
        finally:
            for wire in wires:
                wire.close()

    def rounds(self, server):
        return int(server.stats("kbf")["io_uring_rounds"])

    def test_off_makes_no_ring_and_says_nothing(self):
        with Server("--io-uring", "off", "-t", "2") as server:
            self.talk(server)
            self.assertEqual(self.rounds(server), 0)
            self.assertNotIn("io_uring", server.stderr())

    def test_auto_serves_ready_connections_through_the_ring(self):
        with Server("--io-uring", "auto", "-t", "1") as server:
            def has_rounds():
                self.talk(server)
                return self.rounds(server) > 0 or REFUSED in server.stderr()
            self.assertTrue(wait_for(has_rounds))
            if REFUSED in server.stderr():
                self.skipTest("io_uring is not available here")

    def test_where_it_is_forbidden_one_line_says_so_and_plain_calls_do(self):
        for number in (SETUP, ENTER):
            with self.subTest(call=number), Refusing(number, "-t", "4") as server:
                self.talk(server)
                self.assertEqual(self.rounds(server), 0)
                self.assertTrue(wait_for(lambda: REFUSED in server.stderr()))
                self.assertEqual(server.stderr().count("io_uring"), 1, server.stderr())

    def test_other_modes_are_refused(self):
        code, text = run_once("--io-uring", "on")
        self.assertNotEqual(code, 0)
        self.assertIn("--io-uring needs auto or off", text)


if __name__ == "__main__":
    unittest.main()
