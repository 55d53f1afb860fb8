"""Client libraries as programs use them: one table of scenarios, played by each of them.

A scenario is a method `in_…` of Scenarios; it runs once per library. Where a library has no such
operation, that part is left out, and the test is skipped when nothing of it is left.
"""

import unittest

from clients import ADAPTERS, ClientFailed, is_installed
from server import Server, wait_for

MEGABYTE = 1 << 20


class Scenarios:
    """self.client is an adapter of clients.py, self.server the server behind it."""

    client = None
    server = None

    def needs(self, *operations):
        for operation in operations:
            if not self.client.offers(operation):
                self.skipTest(f"{self.client.library} has no {operation}")

    def raw(self, command, end=b"END\r\n"):
        with self.server.connect() as wire:
            return wire.ask(command, end)

    def in_get_and_set(self):
        client = self.client
        self.assertIsNone(client.get(b"none"))
        self.assertTrue(client.set(b"key", b"value"))
        self.assertEqual(client.get(b"key"), b"value")
        self.assertTrue(client.set(b"key", b"other"))
        self.assertEqual(client.get(b"key"), b"other")
        self.assertTrue(client.set(b"k" * 250, b"long"))
        self.assertEqual(client.get(b"k" * 250), b"long")

    def in_any_bytes_as_a_value(self):
        value = bytes(range(256)) + b"\r\nEND\r\n" + b"VALUE k 0 1\r\n"
        self.assertTrue(self.client.set(b"bytes", value))
        self.assertEqual(self.client.get(b"bytes"), value)

    def in_many_keys_at_once(self):
        keys = [b"many-%d" % i for i in range(300)]
        for key in keys[::2]:
            self.assertTrue(self.client.set(key, b"value of " + key))
        self.assertEqual(
            self.client.get_many(keys), {key: b"value of " + key for key in keys[::2]})

    def in_add_and_replace(self):
        client = self.client
        self.assertFalse(client.replace(b"ar", b"0"))
        self.assertTrue(client.add(b"ar", b"1"))
        self.assertFalse(client.add(b"ar", b"2"))
        self.assertEqual(client.get(b"ar"), b"1")
        self.assertTrue(client.replace(b"ar", b"3"))
        self.assertEqual(client.get(b"ar"), b"3")

    def in_append_and_prepend(self):
        client = self.client
        self.assertFalse(client.append(b"ap", b"x"))
        self.assertFalse(client.prepend(b"ap", b"x"))
        self.assertTrue(client.set(b"ap", b"mid"))
        self.assertTrue(client.append(b"ap", b"-end"))
        self.assertTrue(client.prepend(b"ap", b"begin-"))
        self.assertEqual(client.get(b"ap"), b"begin-mid-end")

    def in_cas(self):
        client = self.client
        self.needs("gets", "cas")
        self.assertTrue(client.set(b"cas", b"1"))
        value, token = client.gets(b"cas")
        self.assertEqual(value, b"1")
        self.assertTrue(client.cas(b"cas", b"2", token))
        self.assertFalse(client.cas(b"cas", b"3", token))
        self.assertEqual(client.get(b"cas"), b"2")
        client.delete(b"cas")
        self.assertFalse(client.cas(b"cas", b"4", token))
        self.assertIsNone(client.get(b"cas"))

    def in_incr_and_decr(self):
        client = self.client
        self.assertIsNone(client.incr(b"counter", 1))
        self.assertTrue(client.set(b"counter", b"10"))
        self.assertEqual(client.incr(b"counter", 5), 15)
        self.assertEqual(client.decr(b"counter", 3), 12)
        self.assertEqual(client.decr(b"counter", 100), 0)
        self.assertEqual(client.incr(b"counter", 1 << 30), 1 << 30)
        self.assertEqual(client.get(b"counter").rstrip(), b"%d" % (1 << 30))

    def in_counting_what_is_no_number_fails(self):
        self.assertTrue(self.client.set(b"word", b"abc"))
        try:
            self.assertIsNone(self.client.incr(b"word", 1))
        except ClientFailed:
            pass
        self.assertEqual(self.client.get(b"word"), b"abc")

    def in_delete(self):
        self.assertFalse(self.client.delete(b"del"))
        self.assertTrue(self.client.set(b"del", b"x"))
        self.assertTrue(self.client.delete(b"del"))
        self.assertIsNone(self.client.get(b"del"))

    def in_expiry_touch_and_gat(self):
        client = self.client
        self.assertTrue(client.set(b"short", b"x", 1))
        self.assertTrue(client.set(b"stays", b"x", 100))
        self.assertEqual(client.get(b"stays"), b"x")
        touched = client.offers("touch")
        if touched:
            self.assertFalse(client.touch(b"none", 100))
            # On a busy machine the second may be over before the touch comes.
            self.assertTrue(wait_for(lambda: client.set(b"touched", b"x", 1)
                                     and client.touch(b"touched", 100)))
            self.assertTrue(client.touch(b"stays", 1))
        gatted = client.offers("gat")
        if gatted:
            self.assertIsNone(client.gat(b"none", 100))
            self.assertTrue(wait_for(lambda: client.set(b"gatted", b"x", 1)
                                     and client.gat(b"gatted", 100) == b"x"))
        self.pass_seconds()
        self.assertIsNone(client.get(b"short"))
        if touched:
            self.assertIsNone(client.get(b"stays"))
            self.assertEqual(client.get(b"touched"), b"x")
        if gatted:
            self.assertEqual(client.get(b"gatted"), b"x")

    def pass_seconds(self):
        """Until an item with one second to live, stored now, has gone."""
        self.raw("set clock 0 1 1\r\nx", b"STORED\r\n")
        self.assertTrue(wait_for(lambda: b"VALUE" not in self.raw("get clock")))

    def in_flags(self):
        self.assertTrue(self.client.set_typed(b"typed"))
        self.assertTrue(self.client.check_typed(b"typed"))
        flags = int(self.raw("get typed").split()[2])
        self.assertNotEqual(flags, 0, "the library marks the type by flags")

    def in_large_values(self):
        client = self.client
        large = bytes(i * 7 % 251 for i in range(1000)) * 1000
        self.assertTrue(client.set(b"large", large))
        self.assertEqual(client.get(b"large"), large)
        # What is refused removes the old value, and the connection is good for more.
        try:
            self.assertFalse(client.set(b"large", b"x" * (2 * MEGABYTE)))
        except ClientFailed:
            pass
        self.assertIsNone(client.get(b"large"))
        self.assertTrue(client.set(b"after", b"large"))
        self.assertEqual(client.get(b"after"), b"large")

    def in_flush(self):
        self.assertTrue(self.client.set(b"flushed", b"x"))
        self.client.flush()
        self.assertIsNone(self.client.get(b"flushed"))
        self.assertTrue(self.client.set(b"flushed", b"y"))
        self.assertEqual(self.client.get(b"flushed"), b"y")

    def in_noreply(self):
        self.needs("set_noreply")
        for i in range(100):
            self.client.set_noreply(b"noreply-%d" % i, b"value-%d" % i)
        self.settle(lambda: self.client.get(b"noreply-99") == b"value-99")
        for i in range(100):
            self.assertEqual(self.client.get(b"noreply-%d" % i), b"value-%d" % i)
        if self.client.offers("delete_noreply"):
            self.client.delete_noreply(b"noreply-0")
            self.settle(lambda: self.client.get(b"noreply-0") is None)

    def settle(self, holds):
        """A library may send noreply on another connection, so the order is not given."""
        self.assertTrue(wait_for(holds), "what was sent without a reply did not happen")

    def in_stats(self):
        self.needs("stats")
        before = self.client.stats()
        self.client.get(b"nothing")
        after = self.client.stats()
        self.assertEqual(int(after["get_misses"]) - int(before["get_misses"]), 1)
        self.assertEqual(int(after["pid"]), self.server.process.pid)
        self.assertGreater(int(after["limit_maxbytes"]), 0)

    def in_version(self):
        self.needs("version")
        self.assertRegex(self.client.version(), r"^1\.6\.18")

    def in_a_bad_key_breaks_nothing(self):
        for key in (b"k" * 251, b""):
            # Some libraries refuse, some report the server's error, Dalli shortens the key.
            try:
                self.client.set(key, b"x")
            except Exception:
                pass
        self.assertTrue(self.client.set(b"good", b"x"))
        self.assertEqual(self.client.get(b"good"), b"x")


def make_case(adapter):
    """A TestCase with one server, one client, and a test per scenario."""

    def set_up_class(cls):
        if not is_installed(adapter):
            raise unittest.SkipTest(f"{adapter.library} is not installed")
        cls.server = Server("-m", "64")
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def set_up(self):
        self.raw("flush_all", b"OK\r\n")
        self.client = adapter(self.server.port)
        self.addCleanup(self.client.close)

    members = {"setUpClass": classmethod(set_up_class), "setUp": set_up}
    for name in dir(Scenarios):
        if name.startswith("in_"):
            def test(self, name=name):
                getattr(self, name)()
            members["test_" + name[3:]] = test
    return type(adapter.__name__, (Scenarios, unittest.TestCase), members)


for _adapter in ADAPTERS:
    globals()[_adapter.__name__] = make_case(_adapter)


if __name__ == "__main__":
    unittest.main()
