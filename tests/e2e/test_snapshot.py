"""Restarts with --snapshot: what comes back, what must not, and files that cannot be used.

Each test runs several servers after each other in one directory with one file.
"""

import os
import random
import resource
import shutil
import signal
import stat
import tempfile
import threading
import time
import unittest

from server import IS_MEMCACHED, PATIENCE_S, SOAK, Server, wait_for

VALUES = [b"value-%02d-" % i + b"v" * 40 for i in range(100)]
# Enough for a chain of filters at -m 16, few enough to be quick.
KEYS = 1000000 if SOAK else 120000


def value_of(i):
    return VALUES[(i * 2654435761 >> 7) % len(VALUES)]


def fill(server, keys, expires=0):
    with server.connect() as wire:
        for start in range(0, keys, 1000):
            wire.send(b"".join(b"set key-%d 5 %d %d noreply\r\n%s\r\n" % (
                i, expires, len(value_of(i)), value_of(i)) for i in range(start, start + 1000)))
        assert wire.ask("mn") == b"MN\r\n"


def found_keys(server, keys):
    """Which of them are found; all values must be right, but for one in 100,000."""
    found = set()
    wrong = 0
    with server.connect() as wire:
        for start in range(0, keys, 100):
            wire.send(b"get " + b" ".join(b"key-%d" % i for i in range(start, start + 100)) + b"\r\n")
            while (line := wire.line()) != b"END\r\n":
                words = line.split()
                i = int(words[1][4:])
                found.add(i)
                wrong += wire.read(int(words[3]) + 2) != value_of(i) + b"\r\n" or words[2] != b"5"
    assert wrong <= 1 + keys / 100000, wrong
    return found


@unittest.skipIf(IS_MEMCACHED, "kbfcached's own")
class Snapshot(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="kbf-snapshot-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.file = os.path.join(self.directory, "file")

    def server(self, *arguments, **named):
        return Server("-m", 16, "--snapshot", self.file, *arguments, **named)

    def kbf(self, server, name):
        return int(server.stats("kbf")[name])

    def store(self, server, key, value):
        with server.connect() as wire:
            self.assertEqual(wire.ask(f"set {key} 0 0 {len(value)}\r\n{value}"), b"STORED\r\n")

    def value(self, server, key):
        with server.connect() as wire:
            wire.send(b"mg %s v\r\n" % key.encode())
            words = wire.line().split()
            return wire.read(int(words[1]) + 2)[:-2] if words[0] == b"VA" else None

    def files(self):
        return sorted(os.listdir(self.directory))

    def test_what_was_found_is_found_after_a_stop_in_order(self):
        with self.server() as server:
            fill(server, KEYS)
            with server.connect() as wire:
                wire.send(b"ms lock 1 F9 T1000 E77\r\nx\r\n")
                self.assertEqual(wire.line(), b"HD\r\n")
                for i in range(0, KEYS, 7):
                    wire.send(b"delete key-%d noreply\r\n" % i)
                self.assertEqual(wire.ask("mn"), b"MN\r\n")
            before = found_keys(server, KEYS)
            self.assertGreater(self.kbf(server, "curr_chain_keys"), KEYS / 4)
        self.assertEqual(self.files(), ["file"])
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        with self.server("-t", 2, "-m", 24, "--slabs", 4) as server:
            self.assertEqual(self.files(), [])
            after = found_keys(server, KEYS)
            self.assertEqual(before - after, set())
            # What was deleted may be found by chance.
            self.assertLessEqual(len(after - before), 5)
            self.assertGreater(self.kbf(server, "snapshot_loaded_keys"), KEYS / 4)
            self.assertGreater(self.kbf(server, "snapshot_loaded_items"), 0)
            self.assertEqual(self.kbf(server, "snapshot_rejected"), 0)
            with server.connect() as wire:
                wire.send(b"mg lock v f c t\r\n")
                self.assertRegex(wire.line(), rb"^VA 1 f9 c77 t(99[0-9])\r\n$")
            self.assertLess(int(server.stats()["uptime"]), PATIENCE_S)

    def test_only_a_stop_in_order_writes(self):
        for how, files in ((signal.SIGTERM, ["file"]), (signal.SIGUSR1, ["file"]),
                           (signal.SIGINT, []), (signal.SIGKILL, [])):
            with self.subTest(how=how):
                with self.server(exit_codes=(0, -signal.SIGKILL)) as server:
                    self.store(server, "a", "1")
                    server.stop(how)
                    self.assertEqual(self.files(), files)
        with self.server("-A") as server:
            self.store(server, "a", "2")
            with server.connect() as wire:
                wire.send(b"shutdown graceful\r\n")
                self.assertEqual(wire.rest(), b"")
            server.process.wait(PATIENCE_S)
        self.assertEqual(self.files(), ["file"])
        # The alias of memcached.
        with Server("-m", 16, "-e", self.file) as server:
            self.assertEqual(self.value(server, "a"), b"2")

    def test_after_a_crash_nothing_comes_back(self):
        with self.server() as server:
            self.store(server, "a", "1")
        with self.server(exit_codes=(-signal.SIGKILL,)) as server:
            self.assertEqual(self.value(server, "a"), b"1")
            server.stop(signal.SIGKILL)
        with self.server() as server:
            self.assertIsNone(self.value(server, "a"))
            self.assertEqual(self.kbf(server, "snapshot_rejected"), 0)

    def test_accept_stale_loads_what_there_is(self):
        with self.server("--accept-stale", "--snapshot-interval", 1,
                         exit_codes=(-signal.SIGKILL,)) as server:
            self.store(server, "a", "1")
            fill(server, 20000)
            self.assertTrue(wait_for(lambda: self.kbf(server, "snapshots_written") >= 2))
            server.stop(signal.SIGKILL)
        # Without the option the file is left alone.
        with self.server(exit_codes=(-signal.SIGKILL,)) as server:
            self.assertIsNone(self.value(server, "a"))
            self.assertEqual(self.kbf(server, "snapshot_rejected"), 1)
            self.assertIn("was not stopped in order", server.stderr())
            server.stop(signal.SIGKILL)
        for _ in range(2):
            with self.server("--accept-stale", exit_codes=(-signal.SIGKILL,)) as server:
                self.assertEqual(self.value(server, "a"), b"1")
                self.assertGreater(len(found_keys(server, 20000)), 19000)
                server.stop(signal.SIGKILL)

    def test_expiry_times_go_on(self):
        with self.server() as server:
            with server.connect() as wire:
                wire.send(b"set short 0 3 1\r\nx\r\nset long 0 100 1\r\nx\r\n")
                wire.line(), wire.line()
        started = time.monotonic()
        with self.server() as server:
            with server.connect() as wire:
                wire.send(b"mg long t\r\n")
                left = int(wire.line().split()[1][1:])
                self.assertLessEqual(left, 100)
                self.assertGreaterEqual(left, 97 - (time.monotonic() - started))
            self.assertTrue(wait_for(lambda: self.value(server, "short") is None))

    def test_a_file_that_cannot_be_used_is_put_aside(self):
        def damage(data):
            return data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1:]

        cases = {
            "flipped": (damage, (), "damaged"),
            "cut off": (lambda data: data[:-1], (), "cut off"),
            "empty": (lambda data: b"", (), "no image"),
            "longer": (lambda data: data + b"x", (), "contradicts"),
            "another version": (lambda data: data[:8] + b"\x63" + data[9:], (), "another version"),
            "another plan": (lambda data: data, ("--false-positive", "1e-7"), "configuration"),
        }
        for name, (change, options, word) in cases.items():
            with self.subTest(name):
                with self.server() as server:
                    self.store(server, "a", "1")
                with open(self.file, "rb") as file:
                    data = file.read()
                with open(self.file, "wb") as file:
                    file.write(change(data))
                with self.server(*options, exit_codes=(-signal.SIGKILL,)) as server:
                    self.assertIsNone(self.value(server, "a"))
                    self.assertEqual(self.kbf(server, "snapshot_rejected"), 1)
                    self.assertTrue(wait_for(lambda: "snapshot" in server.stderr()))
                    lines = [line for line in server.stderr().splitlines() if "snapshot" in line]
                    self.assertEqual(len(lines), 1, lines)
                    self.assertIn(word, lines[0])
                    self.assertEqual(self.files(), ["file.rejected"])
                    server.stop(signal.SIGKILL)

    def test_kill_at_any_moment_of_writing_leaves_a_whole_file_or_none(self):
        generator = random.Random(16)
        whole = 0
        rounds = 100 if SOAK else 6
        keys = 200000 if SOAK else 40000
        for i in range(rounds):
            with self.server(exit_codes=(0, -signal.SIGKILL)) as server:
                self.assertEqual(self.kbf(server, "snapshot_rejected"), 0)
                fill(server, keys)
                server.process.send_signal(signal.SIGTERM)
                temporary = self.file + ".new"
                wait_for(lambda: os.path.exists(temporary) or server.process.poll() is not None)
                time.sleep(generator.random() * (0.1 if SOAK else 0.02))
                server.stop(signal.SIGKILL)
            if "file" not in self.files():
                continue
            whole += 1
            with self.server() as server:
                self.assertGreater(len(found_keys(server, keys)), keys * 0.99)
                self.assertEqual(self.files(), [])
            os.remove(self.file)
        print(f"{whole} of {rounds} killed servers had finished their file")

    def test_a_full_disk_is_said_and_leaves_nothing(self):
        with self.server() as server:
            fill(server, 20000)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (200000, 200000))
            self.assertEqual(server.stop(), 0)
            self.assertIn("File too large", server.stderr())
        self.assertEqual(self.files(), [])

    def test_repeated_sigterm_does_not_cut_the_file_off(self):
        with self.server() as server:
            fill(server, 50000)
            before = found_keys(server, 50000)
            stopped = threading.Event()

            def repeat():
                while not stopped.is_set() and server.process.poll() is None:
                    server.process.send_signal(signal.SIGTERM)
                    time.sleep(0.001)

            thread = threading.Thread(target=repeat)
            thread.start()
            self.assertEqual(server.process.wait(PATIENCE_S), 0)
            stopped.set()
            thread.join()
        with self.server() as server:
            self.assertEqual(before - found_keys(server, 50000), set())


if __name__ == "__main__":
    unittest.main()
