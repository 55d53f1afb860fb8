"""Existing tools: libmemcached's memccapable and smaller programs, and memcached-tool."""

import os
import re
import shutil
import subprocess
import unittest

from server import PATIENCE_S, Server, free_port

MEMCACHED_TOOL = "/usr/share/memcached/scripts/memcached-tool"
CAPABILITIES = 27  # memccapable 1.1.4 has that many tests for each protocol


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-m", "64")
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def run_tool(self, *command, code=0, timeout=PATIENCE_S):
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        done = subprocess.run(command, timeout=timeout, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, code, done.stdout)
        self.server.check_alive()
        return done.stdout

    def capable(self, protocol):
        where = ("-h", "127.0.0.1", "-p", str(self.server.port))
        text = self.run_tool("memccapable", *where, protocol)
        self.assertEqual(len(re.findall(r"\[pass\]", text)), CAPABILITIES, text)
        self.assertEqual(re.findall(r".*\[(?!pass)\w+\]", text), [])
        self.assertIn("All tests passed", text)

    def test_memccapable_text(self):
        self.capable("-a")

    def test_memccapable_binary(self):
        self.capable("-b")

    def servers(self, port=None):
        return f"--servers=127.0.0.1:{port or self.server.port}"

    def test_memcping_succeeds_only_with_a_server(self):
        self.run_tool("memcping", self.servers())
        self.run_tool("memcping", self.servers(free_port()), code=1)

    def test_memcstat_shows_every_field(self):
        text = self.run_tool("memcstat", self.servers())
        shown = re.findall(r"^\s+(\w+): ", text, re.M)
        self.assertEqual(shown, list(self.server.stats()))

    def test_memcflush_empties(self):
        with self.server.connect() as wire:
            self.assertEqual(wire.ask("set flushed 0 0 1\r\nx"), b"STORED\r\n")
            self.run_tool("memcflush", self.servers())
            self.assertEqual(wire.ask("get flushed"), b"END\r\n")

    def tool(self, mode):
        if not os.path.exists(MEMCACHED_TOOL):
            self.skipTest("memcached-tool is not installed")
        with self.server.connect() as wire:
            self.assertEqual(wire.ask("set shown 0 0 5\r\nvalue"), b"STORED\r\n")
        return self.run_tool(MEMCACHED_TOOL, f"127.0.0.1:{self.server.port}", mode)

    def test_memcached_tool_display(self):
        text = self.tool("display")
        self.assertRegex(text, r"#\s+Item_Size\s+Max_age\s+Pages\s+Count")
        counts = [int(n) for n in re.findall(r"^\s+\d+\s+\S+\s+\S+\s+\d+\s+(\d+)", text, re.M)]
        self.assertGreaterEqual(sum(counts), 1, text)

    def test_memcached_tool_stats(self):
        shown = set(re.findall(r"^\s*(\w+)\s+\S+$", self.tool("stats"), re.M))
        self.assertLessEqual(set(self.server.stats()), shown)

    def test_memcached_tool_settings(self):
        shown = dict(re.findall(r"^\s*(\w+)\s+(\S+)$", self.tool("settings"), re.M))
        self.assertEqual(shown["maxconns"], "1024")
        self.assertEqual(shown["tcpport"], str(self.server.port))
        self.assertEqual(shown["maxbytes"], str(64 << 20))

    def test_memcached_tool_sizes(self):
        self.assertRegex(self.tool("sizes"), r"Size\s+Count")

    def test_memcached_tool_display_is_not_full_while_nothing_is_evicted(self):
        rows = re.findall(r"^\s+\d+\s+\S+\s+\S+\s+\d+\s+\d+\s+(\w+)", self.tool("display"), re.M)
        self.assertEqual(self.server.stats()["evictions"], "0")
        self.assertEqual(set(rows), {"no"})

    def test_memcached_tool_dump_shows_keys_and_values(self):
        with self.server.connect() as wire:
            self.assertEqual(wire.ask("set other%key 7 0 3\r\nabc"), b"STORED\r\n")
        text = self.tool("dump")
        self.assertIn("Dumping memcache contents", text)
        self.assertRegex(text, "add other%key 7 0 3\r?\nabc\r?\n")
        self.assertRegex(text, "add shown 0 0 5\r?\nvalue\r?\n")

    def test_memcdump_shows_the_keys(self):
        with self.server.connect() as wire:
            for number in range(40):
                self.assertEqual(wire.ask(f"set dumped{number} 0 0 1\r\nx"), b"STORED\r\n")
        shown = self.run_tool("memcdump", self.servers()).split()
        self.assertLessEqual({f"dumped{number}" for number in range(40)}, set(shown))
        self.assertEqual(len(shown), len(set(shown)))


if __name__ == "__main__":
    unittest.main()
