"""--warm-from: a server takes over the items of another one while it serves."""

import socket
import threading
import time
import unittest

from server import IS_MEMCACHED, MEMCACHED, SOAK, Server, free_port, wait_for

ITEMS = 1000000 if SOAK else 5000


def ttl_of(i):
    """0: never."""
    return (0, 100, 1000, 86400, 2000000)[i % 5]


def key_of(i):
    return b"key%%41:%d" % i if i % 3 else b"plain-%d" % i


def value_of(i):
    return b"value %d" % (i % 1000) * (1 + i % 5)


def fill(server, items):
    with server.connect() as wire:
        for start in range(0, items, 1000):
            wire.send(b"".join(b"ms %s %d T%d F%d q\r\n%s\r\n" % (
                key_of(i), len(value_of(i)), ttl_of(i), i, value_of(i))
                for i in range(start, min(start + 1000, items))))
        assert wire.ask("mn") == b"MN\r\n"


def look(server, items):
    """{number: (value, flags, ttl)} of what is there."""
    found = {}
    with server.connect() as wire:
        for start in range(0, items, 100):
            batch = range(start, min(start + 100, items))
            wire.send(b"".join(b"mg %s f t v\r\n" % key_of(i) for i in batch))
            for i in batch:
                words = wire.line().split()
                if words[0] == b"VA":
                    found[i] = (wire.read(int(words[1]) + 2)[:-2], int(words[2][1:]),
                                int(words[3][1:]))
    return found


class Impostor:
    """A server on a port that does what `serve(connection)` says."""

    def __init__(self, serve):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.serve = serve
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()


@unittest.skipIf(IS_MEMCACHED, "kbfcached's own")
class Warm(unittest.TestCase):
    def warmed(self, port, *arguments):
        memory = 1024 if SOAK else 64
        return Server("-m", memory, "--warm-from", f"127.0.0.1:{port}", *arguments)

    def kbf(self, server, name):
        return server.stats("kbf")[name]

    def wait_until_done(self, server):
        self.assertTrue(wait_for(lambda: self.kbf(server, "warm_running") == "no"))

    def take_over(self, source):
        fill(source, ITEMS)
        with self.warmed(source.port, "--warm-rate", 1000000) as server:
            self.wait_until_done(server)
            self.assertEqual(self.kbf(server, "warm_errors"), "0", server.stderr())
            there = look(source, ITEMS)
            found = look(server, ITEMS)
            self.assertEqual(len(there), ITEMS)
            missing = set(there) - set(found)
            # Only by a false positive of the chain, or of what was changed.
            self.assertLessEqual(len(missing), ITEMS // 10000, sorted(missing)[:20])
            for i, (value, flags, ttl) in found.items():
                self.assertEqual((value, flags), (value_of(i), i))
                # The two looks are seconds apart on a busy machine.
                self.assertEqual(ttl == -1, ttl_of(i) == 0)
                self.assertLessEqual(ttl, there[i][2] + 1)
                self.assertGreaterEqual(ttl, there[i][2] - 30 if ttl_of(i) else -1)
            self.assertTrue(wait_for(lambda: f"{ITEMS} keys listed" in server.stderr()))

    def test_from_memcached(self):
        with Server("-m", 1024, binary=MEMCACHED) as source:
            with source.connect() as wire:
                large = b"x" * 500000
                wire.send(b"ms large 500000\r\n%s\r\nms YSBi 1 b\r\n1\r\n" % large)
                self.assertEqual([wire.line(), wire.line()], [b"HD\r\n"] * 2)
                wire.send(b"ms stale 1\r\n1\r\nmd stale I T100\r\nms gone 1 T1\r\n1\r\n")
                self.assertEqual([wire.line() for _ in range(3)], [b"HD\r\n"] * 3)
            with self.warmed(source.port) as server:
                self.wait_until_done(server)
                with server.connect() as wire:
                    wire.send(b"mg large v\r\n")
                    self.assertEqual(wire.read(11 + 500002), b"VA 500000\r\n" + large + b"\r\n")
                    # A key with a space, which is sent in base64.
                    wire.send(b"mg YSBi b k v\r\n")
                    self.assertIn(b"YSBi", wire.line())
                    self.assertEqual(wire.line(), b"1\r\n")
                    wire.send(b"mg stale v\r\n")
                    self.assertEqual(wire.line(), b"EN\r\n")
        with Server("-m", 1024, binary=MEMCACHED) as source:
            self.take_over(source)

    def test_from_kbfcached_its_exact_part(self):
        with Server("-m", 1024) as source:
            self.take_over(source)

    def test_what_clients_say_meanwhile_wins(self):
        items = 400
        with Server("-m", 64, binary=MEMCACHED) as source:
            fill(source, items)
            # Slowly, so that there is a meanwhile.
            with self.warmed(source.port, "--warm-rate", 100) as server:
                with server.connect() as wire:
                    for i in range(0, items, 4):
                        wire.send(b"ms %s 3 q\r\nnew\r\n" % key_of(i))
                        wire.send(b"md %s q\r\n" % key_of(i + 1))
                        wire.send(b"ms %s 3 T-1 q\r\nnew\r\nmd %s q\r\n" % (key_of(i + 2), key_of(i + 2)))
                    wire.send(b"mn\r\n")
                    wire.until(b"MN\r\n")
                self.assertEqual(self.kbf(server, "warm_running"), "yes")
                self.wait_until_done(server)
                found = look(server, items)
                for i in range(0, items, 4):
                    self.assertEqual(found[i][0], b"new")
                    self.assertNotIn(i + 1, found)
                    self.assertNotIn(i + 2, found)
                    self.assertEqual(found[i + 3][0], value_of(i + 3))

    def test_a_flush_ends_it(self):
        with Server("-m", 64, binary=MEMCACHED) as source:
            fill(source, 1000)
            with self.warmed(source.port, "--warm-rate", 100) as server:
                self.assertTrue(wait_for(lambda: int(self.kbf(server, "warm_stored")) > 0))
                with server.connect() as wire:
                    self.assertEqual(wire.ask("flush_all"), b"OK\r\n")
                self.wait_until_done(server)
                self.assertEqual(look(server, 1000), {})
                self.assertTrue(wait_for(lambda: "a flush has ended it" in server.stderr()))

    def check_error(self, port, word):
        with self.warmed(port) as server:
            self.wait_until_done(server)
            self.assertEqual(self.kbf(server, "warm_errors"), "1")
            # The log has a thread of its own.
            self.assertTrue(wait_for(lambda: "warming" in server.stderr()))
            lines = [line for line in server.stderr().splitlines() if "warming" in line]
            self.assertEqual(len(lines), 1, lines)
            self.assertRegex(lines[0], word)
            server.check_alive()

    def test_errors_are_one_line_and_the_server_goes_on(self):
        def garbage(connection):
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        def no_list(connection):
            with connection.makefile("rb") as lines:
                for line in lines:
                    connection.sendall(b"VERSION 1\r\n" if line == b"version\r\n" else b"ERROR\r\n")

        def half_way(connection):
            with connection.makefile("rb") as lines:
                for line in lines:
                    if line == b"version\r\n":
                        connection.sendall(b"VERSION 1\r\n")
                    elif line.startswith(b"lru_crawler"):
                        connection.sendall(b"".join(b"key=k%d exp=-1\n" % i for i in range(100)))
                    else:
                        connection.sendall(b"VA 100 f0 t-1\r\nabc")
                        connection.shutdown(socket.SHUT_RDWR)
                        return

        self.check_error(free_port(), "refused")
        self.check_error(Impostor(garbage).port, "HTTP/1.1")
        self.check_error(Impostor(no_list).port, "does not list its keys: 'ERROR")
        self.check_error(Impostor(half_way).port, "closed")
        self.check_error(Impostor(lambda connection: connection.close()).port, "closed|reset")

    def test_a_silent_source_does_not_hold_up_a_stop(self):
        source = Impostor(lambda connection: time.sleep(1000))
        with self.warmed(source.port) as server:
            started = time.monotonic()
            server.check_alive()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - started, 9)


if __name__ == "__main__":
    unittest.main()
