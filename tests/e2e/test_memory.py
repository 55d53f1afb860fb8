"""What connections hold has a limit: clients that do not read, or send halves, cost only themselves.

Bounds are on resident memory (VmRSS, polled all the while) and on what `stats kbf` says:
connection_bytes, all that connections hold in buffers, unfinished requests and replaced items;
connection_bytes_max, its limit, a sixteenth of -m and at least 16 MB; connections_shed, connections
that were closed because all together held too much.
"""

import random
import unittest

from binary import frame
from server import IS_MEMCACHED, SANITIZER, Server, raise_file_limit, read_stats, wait_for

MEMORY_MB = 64
SLACK_MB = 32
LIMIT = 16 << 20  # for all connections at -m 64


def fill_of(seed, size):
    """Bytes that no compression and no shared table makes smaller."""
    return random.Random(seed).randbytes(size)


@unittest.skipIf(IS_MEMCACHED, "kbfcached's own limit")
class HeldByConnections(unittest.TestCase):
    options = ()

    def setUp(self):
        raise_file_limit(1000)
        self.server = Server("-m", MEMORY_MB, *self.options, listen="unix")
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.normal = self.server.connect()
        self.addCleanup(self.normal.close)
        self.abusers = []
        self.addCleanup(self.leave)
        self.most_kib = 0
        self.count = 0

    def abuse(self, count):
        for _ in range(count):
            self.abusers.append(self.server.connect())
        return self.abusers

    def leave(self):
        for wire in self.abusers:
            wire.close()
        self.abusers = []

    def look(self):
        """Takes the resident memory, and fails as soon as it is over the limit."""
        self.most_kib = max(self.most_kib, self.server.rss_kib())
        if not SANITIZER:
            self.assertLessEqual(self.most_kib, (MEMORY_MB + SLACK_MB) * 1024, "KiB resident")

    def serve_normal(self, size=100):
        """A well-behaved client is served as usual."""
        self.count += 1
        key, value = b"normal-%d" % (self.count % 3), fill_of(self.count, size)
        self.normal.send(b"set %s 3 0 %d\r\n%s\r\n" % (key, size, value))
        self.assertEqual(self.normal.line(), b"STORED\r\n", f"set number {self.count}")
        self.normal.send(b"get %s\r\n" % key)
        want = b"VALUE %s 3 %d\r\n%s\r\nEND\r\n" % (key, size, value)
        if self.normal.read(len(want)) != want:
            self.fail(f"get number {self.count} is not what was set")

    def kbf(self, name):
        return int(read_stats(self.normal, "kbf").get(name, -1))

    def check_counters(self):
        self.assertEqual(self.kbf("connection_bytes_max"), LIMIT)
        self.assertGreater(self.kbf("connections_shed"), 0)
        self.assertLessEqual(self.kbf("connection_bytes"), LIMIT)
        self.leave()
        self.assertTrue(wait_for(lambda: 0 <= self.kbf("connection_bytes") < 1 << 20),
                        self.kbf("connection_bytes"))
        self.look()
        self.server.check_alive()


class UnreadReplies(HeldByConnections):
    SIZE = 900000
    KEYS = 40

    def replace_all(self):
        """New values for all keys, so that only unsent replies hold the old ones."""
        self.round += 1
        value = fill_of(self.round, 1000) * (self.SIZE // 1000)
        for number in range(self.KEYS):
            self.normal.send(b"set big-%d 0 0 %d\r\n%s\r\n" % (number, self.SIZE, value))
            self.assertEqual(self.normal.line(), b"STORED\r\n")
            self.look()

    def hold_replaced(self, count, meanwhile=lambda: None):
        """So many clients ask for 32 values each and do not read; then the values are replaced."""
        self.round = 0
        self.replace_all()
        for wire in self.abuse(count):
            wire.offer(b"get " + b" ".join(b"big-%d" % i for i in range(32)) + b"\r\n")
            meanwhile()
            self.serve_normal()
            self.replace_all()

    def test_60_clients_that_get_900_kb_values_and_do_not_read_while_they_are_replaced(self):
        self.hold_replaced(60)
        self.check_counters()

    def test_clients_that_read_a_little_now_and_then_stay_within_the_limit(self):
        def read_a_little():
            for wire in self.abusers:
                wire.sip(100)
        self.hold_replaced(30, read_a_little)
        self.check_counters()

    def test_a_reader_gets_what_was_stored_when_it_asked(self):
        # A reply that is half sent does not change when the item does.
        value = fill_of(1, self.SIZE)
        self.normal.send(b"set k 0 0 %d\r\n%s\r\n" % (self.SIZE, value))
        self.assertEqual(self.normal.line(), b"STORED\r\n")
        want = b"VALUE k 0 %d\r\n%s\r\nEND\r\n" % (self.SIZE, value)
        with self.server.connect() as reader:
            reader.send(b"get k\r\n")
            self.assertEqual(reader.read(20), want[:20])
            for number in range(20):
                self.normal.send(b"set k 0 0 %d\r\n%s\r\n" % (self.SIZE, bytes(self.SIZE)))
                self.assertEqual(self.normal.line(), b"STORED\r\n")
            if reader.read(len(want) - 20) != want[20:]:
                self.fail("a reply changed while it was read")


class UnreadDumps(HeldByConnections):
    options = ("-D", ":")
    PREFIXES = 60000

    def test_60_dumps_of_60000_prefixes_that_are_not_read(self):
        name = lambda i: b"%06d-" % i + b"p" * 93
        for start in range(0, self.PREFIXES, 500):
            keys = b" ".join(name(i) + b":k" for i in range(start, start + 500))
            self.normal.send(b"get " + keys + b"\r\n")
            self.assertEqual(self.normal.line(), b"END\r\n")
        self.look()
        for wire in self.abuse(60):
            wire.offer(b"stats detail dump\r\n")
            self.serve_normal()
            self.look()
        for _ in range(100):
            self.serve_normal()
            self.look()
        # A client that reads gets everything, whether others read or not.
        with self.server.connect() as reader:
            reader.send(b"stats detail dump\r\n")
            lines = reader.until(b"\r\nEND\r\n").split(b"\r\n")
        self.assertEqual(lines[-2:], [b"END", b""])
        wanted = {b"PREFIX %s get 1 hit 0 set 0 del 0" % name(i) for i in range(self.PREFIXES)}
        self.assertEqual(len(wanted - set(lines)), 0, "prefixes that are not shown")
        self.leave()
        self.assertEqual(self.kbf("connection_bytes_max"), LIMIT)
        self.assertTrue(wait_for(lambda: 0 <= self.kbf("connection_bytes") < 1 << 20),
                        self.kbf("connection_bytes"))
        self.server.check_alive()


class UnfinishedRequests(HeldByConnections):
    options = ("-c", "10000")
    HALF = b"set half 0 0 1000000\r\n" + b"h" * 600000

    def hold(self, count):
        """So many clients that send 600 KB of a value, as far as the server takes it."""
        left = {wire: memoryview(self.HALF) for wire in self.abuse(count)}
        for turn in range(12):
            for wire in list(left):
                sent = wire.offer(left[wire][:100000])
                if sent is None:
                    del left[wire]  # it was closed
                else:
                    left[wire] = left[wire][sent:]
            self.look()
            self.serve_normal(300000)
        return left

    def test_other_clients_are_served_beside_79_unfinished_sets(self):
        self.hold(79)
        for _ in range(20):
            self.serve_normal(300000)
            self.look()
        self.check_counters()

    def test_300_unfinished_sets_take_no_more_than_their_limit(self):
        self.hold(300)
        for _ in range(20):
            self.serve_normal(300000)
            self.look()
        self.check_counters()

    def test_other_clients_are_served_beside_thousands_of_small_unfinished_sets(self):
        # Those that hold too much were closed two or three at a time, and nobody was served meanwhile.
        count = min(4000, (raise_file_limit(10000) - 500) // 2)
        for size in (60000, 15000, 900000):
            self.count, sent = 0, min(size - 1000, 59000)
            half = b"set half 0 0 %d\r\n" % size + b"h" * sent
            for wire in self.abuse(count):
                wire.offer(half)
            for _ in range(10):
                self.serve_normal(100)
                self.look()
                self.serve_normal(300000)
                self.look()
            self.leave()
        self.assertGreater(self.kbf("connections_shed"), 0)
        self.server.check_alive()

    def test_senders_of_a_byte_now_and_then_are_closed_first(self):
        left = self.hold(100)

        def send_a_byte_each():
            for wire in list(left):
                if wire.offer(b"h") is None:
                    del left[wire]
            self.serve_normal(300000)
            self.look()
            return len(left) <= 84  # more than 16 MB have been given back
        self.assertTrue(wait_for(send_a_byte_each), f"{len(left)} are left")
        self.check_counters()

    def test_unfinished_requests_of_every_protocol(self):
        binary = frame("set", b"half", bytes(8), b"h" * 600000, body_len=12 + 1000000)
        meta = b"ms half 1000000 T0\r\n" + b"h" * 600000
        line = b"get" + b" key" * 150000
        for index, wire in enumerate(self.abuse(120)):
            wire.offer((self.HALF, binary, meta, line)[index % 4])
            self.look()
            if index % 10 == 0:
                self.serve_normal(300000)
        for _ in range(20):
            self.serve_normal(300000)
            self.look()
        self.check_counters()

    def test_a_set_that_was_cut_off_is_not_stored(self):
        self.hold(100)
        self.leave()
        self.assertEqual(self.normal.ask("get half"), b"END\r\n")

    def test_unfinished_sets_of_others_finish_when_there_is_room(self):
        wires = self.abuse(8)  # 8 MB, within the limit
        value = fill_of(9, 900000)
        for index, wire in enumerate(wires):
            wire.send(b"set whole-%d 0 0 900000\r\n" % index + value[:700000])
        self.serve_normal(300000)
        for wire in wires:
            wire.send(value[700000:] + b"\r\n")
            self.assertEqual(wire.line(), b"STORED\r\n")
        self.normal.send(b"get whole-7\r\n")
        want = b"VALUE whole-7 0 900000\r\n" + value + b"\r\nEND\r\n"
        self.assertEqual(self.normal.read(len(want)) == want, True)


if __name__ == "__main__":
    unittest.main()
