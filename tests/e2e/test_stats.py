"""Statistics as tools read them: names and order are memcached's, types are numbers."""

import os
import re
import unittest

from server import IS_MEMCACHED, MEMCACHED, Server

# What memcached's exporter for Prometheus cannot do without.
EXPORTED = (
    "version uptime time cmd_set cmd_flush get_hits get_misses delete_hits delete_misses "
    "incr_hits incr_misses decr_hits decr_misses cas_hits cas_misses cas_badval touch_hits "
    "touch_misses rusage_user rusage_system bytes limit_maxbytes curr_items total_items "
    "bytes_read bytes_written curr_connections total_connections rejected_connections "
    "conn_yields listen_disabled_num evictions reclaimed store_too_large store_no_memory "
    "lru_crawler_starts direct_reclaims crawler_items_checked crawler_reclaimed "
    "moves_to_cold moves_to_warm moves_within_lru accepting_conns"
).split()


# What came after 1.6.18, from the protocol document of 1.6.45.
NEWER = {
    "": ["slab_reassign_busy_nomem", "slab_reassign_last_busy_status"],
    "settings": ["client_flags_size"],
}


@unittest.skipUnless(os.path.exists(MEMCACHED), "memcached is not installed")
class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server(binary=MEMCACHED) as server:
            cls.theirs = {sub: server.stats(sub) for sub in ("", "settings")}

    def check_names(self, sub):
        with Server() as server:
            ours = list(server.stats(sub))
        self.assertEqual([name for name in ours if name not in NEWER[sub]], list(self.theirs[sub]))
        if not IS_MEMCACHED:
            self.assertEqual([name for name in ours if name in NEWER[sub]], NEWER[sub])

    def test_the_same_fields_in_the_same_order(self):
        self.check_names("")

    def test_the_same_settings_in_the_same_order(self):
        self.check_names("settings")

    def test_values_have_the_shape_of_memcached_s(self):
        with Server() as server:
            for name, value in server.stats().items():
                shape = r"\d+\.\d{6}" if name.startswith("rusage") else r"\d+"
                if name not in ("version", "libevent", "slab_reassign_last_busy_status"):
                    self.assertRegex(value, rf"\A{shape}\Z", name)


class Truth(unittest.TestCase):
    def test_fields_that_the_exporter_needs(self):
        with Server() as server:
            stats = server.stats()
        self.assertEqual([name for name in EXPORTED if name not in stats], [])
        self.assertRegex(stats["version"], r"^\d+\.\d+\.\d+")

    def test_counts_follow_what_happens(self):
        with Server("-m", "64") as server, server.connect() as wire:
            before = server.stats()
            self.assertEqual(before["limit_maxbytes"], str(64 << 20))
            self.assertEqual(int(before["pid"]), server.process.pid)
            for i in range(100):
                wire.ask(f"set k{i} 0 0 100\r\n" + "v" * 100)
            after = server.stats()
            moved = lambda name: int(after[name]) - int(before[name])
            self.assertEqual(moved("cmd_set"), 100)
            self.assertEqual(moved("curr_items"), 100)
            self.assertEqual(moved("total_items"), 100)
            self.assertGreaterEqual(moved("bytes_read"), 100 * 100)
            self.assertGreaterEqual(moved("bytes_written"), 100 * 8)
            self.assertGreater(int(after["bytes"]), int(before["bytes"]))
            # This connection, the watcher's, and listeners as memcached counts them.
            self.assertGreaterEqual(int(after["curr_connections"]), 2)
            self.assertGreater(moved("total_connections"), 0)

    def test_reset_sets_counters_to_0_and_leaves_items(self):
        with Server() as server, server.connect() as wire:
            wire.ask("set k 0 0 1\r\nx")
            wire.ask("get k", b"END\r\n")
            self.assertEqual(wire.ask("stats reset"), b"RESET\r\n")
            stats = server.stats()
            self.assertEqual((stats["cmd_get"], stats["get_hits"], stats["cmd_set"]), ("0",) * 3)
            self.assertEqual(stats["curr_items"], "1")

    def test_items_and_slabs(self):
        with Server() as server, server.connect() as wire:
            for i in range(10):
                wire.ask(f"set k{i} 0 0 5\r\nhello")
            items, slabs = server.stats("items"), server.stats("slabs")
        self.assertEqual(sum(int(v) for k, v in items.items() if k.endswith(":number")), 10)
        for key in items:
            self.assertRegex(key, r"^items:\d+:\w+$")
        self.assertIn("active_slabs", slabs)
        self.assertIn("total_malloced", slabs)
        classes = {k.split(":")[0] for k in slabs if ":" in k}
        self.assertTrue(classes)
        for number in classes:
            for field in ("chunk_size", "used_chunks", "total_chunks", "total_pages"):
                self.assertIn(f"{number}:{field}", slabs)

    def test_conns_shows_listener_and_client(self):
        with Server() as server, server.connect() as wire:
            wire.ask("mn")
            conns = server.stats("conns")
        self.assertIn(f"tcp:127.0.0.1:{server.port}", conns.values())
        ports = [v for k, v in conns.items() if re.fullmatch(r"\d+:addr", k)]
        self.assertGreaterEqual(len(ports), 3)
        for key in conns:
            self.assertRegex(key, r"^\d+:(addr|listen_addr|state|secs_since_last_cmd)$")

    def test_conns_shows_who_sends_a_value_and_who_asks(self):
        with Server("-t", "1") as server, server.connect() as idle, server.connect() as sends:
            self.assertEqual(idle.ask("mn"), b"MN\r\n")
            sends.send(b"mn\r\nset k 0 0 6\r\nabc")
            self.assertEqual(sends.line(), b"MN\r\n")
            self.assertEqual(idle.ask("mn"), b"MN\r\n")  # has let the other one have its turn
            states = sorted(v for k, v in server.stats("conns").items() if k.endswith(":state"))
            # memcached's listeners are more than one, and an idle client is in the state conn_read.
            self.assertEqual([s for s in states if s != "conn_listening"],
                             ["conn_nread", "conn_parse_cmd", "conn_read"])
            sends.send(b"def\r\n")
            self.assertEqual(sends.line(), b"STORED\r\n")
            states = list(server.stats("conns").values())
            self.assertNotIn("conn_nread", states)

    def test_detail(self):
        with Server() as server, server.connect() as wire:
            self.assertEqual(wire.ask("stats detail on"), b"OK\r\n")
            wire.ask("set pre:k 0 0 1\r\nx")
            wire.ask("get pre:k", b"END\r\n")
            wire.ask("get pre:none")
            wire.ask("delete pre:k")
            self.assertEqual(wire.ask("stats detail dump", b"END\r\n"),
                             b"PREFIX pre get 2 hit 1 set 1 del 1\r\nEND\r\n")
            self.assertEqual(wire.ask("stats detail off"), b"OK\r\n")
            self.assertEqual(wire.ask("stats detail"),
                             b"CLIENT_ERROR usage: stats detail on|off|dump\r\n")



if __name__ == "__main__":
    unittest.main()
