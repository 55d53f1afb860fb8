"""What broke kbfcached: one class for each defect, each test named after its symptom.

Memory held by abusers has a file of its own, test_memory.py. CPU time is compared as a ratio with
a wide margin, and nothing here depends on how fast the machine is.
"""

import base64
import fcntl
import os
import random
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from binary import RESPONSE, frame
from server import (BINARY, IS_MEMCACHED, MEMCACHED, SANITIZER, Server, die_with_parent, free_port,
                    read_stats, run_once, wait_for)
from transcript import pieces_of

AS_USER = ("-u", "root") if os.geteuid() == 0 else ()


def first_difference(got, want):
    """Where two long answers differ, short enough to be shown."""
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    return (f"{len(got)} bytes of {len(want)}, different from byte {at}: "
            f"got {got[at:at + 80]!r}, want {want[at:at + 80]!r}")


class Comparing(unittest.TestCase):
    def assert_same(self, got, want, context=""):
        if got != want:
            self.fail(f"{context} {first_difference(got, want)}")


# ---- 1. pipelines ---------------------------------------------------------------------------------


class Pipelines(Comparing):
    """An ordinary pipeline whose replies fill the output must be answered to the last byte."""

    PIPELINES = 60 if SANITIZER else 300
    VALUE = bytes(random.Random(1).randrange(33, 127) for _ in range(3800))
    KEYS = [b"key-%02d" % i for i in range(32)]

    def store(self, wire):
        for key in self.KEYS:
            wire.send(b"set %s 5 0 %d\r\n%s\r\n" % (key, len(self.VALUE), self.VALUE))
            self.assertEqual(wire.line(), b"STORED\r\n")

    def check(self, wire, requests, context):
        """Sends all requests at once; `requests` are pairs of what is sent and what must come."""
        want = b"".join(answer for _, answer in requests)
        wire.send(b"".join(request for request, _ in requests))
        self.assert_same(wire.read(len(want)), want, context)

    def test_gets_of_14_and_32_and_32_keys_with_18_mn_between_in_one_message(self):
        key, value = b"k" * 250, b"v" * 4095
        one = b"VALUE %s 0 4095\r\n%s\r\n" % (key, value)
        with Server() as server, server.connect() as wire:
            wire.send(b"set %s 0 0 4095\r\n%s\r\n" % (key, value))
            self.assertEqual(wire.line(), b"STORED\r\n")
            get = lambda count: (b"get" + (b" " + key) * count + b"\r\n", one * count + b"END\r\n")
            for _ in range(10):
                self.check(wire, [get(14)] + [(b"mn\r\n", b"MN\r\n")] * 18 + [get(32), get(32)],
                           "one message")
            server.check_alive()

    def text_request(self, dice):
        if dice.random() < 0.6:
            return b"touch %s 0\r\n" % dice.choice(self.KEYS), b"TOUCHED\r\n"
        keys = dice.choices(self.KEYS, k=dice.randrange(8, 33))
        return b"get " + b" ".join(keys) + b"\r\n", b"".join(
            b"VALUE %s 5 3800\r\n%s\r\n" % (key, self.VALUE) for key in keys) + b"END\r\n"

    def meta_request(self, dice):
        key = dice.choice(self.KEYS)
        kind = dice.randrange(6)
        if kind == 0:
            return b"touch %s 0\r\n" % key, b"TOUCHED\r\n"
        if kind == 1:
            return b"mn\r\n", b"MN\r\n"
        if kind == 2:
            coded = base64.b64encode(key)
            return (b"mg %s b k v\r\n" % coded,
                    b"VA 3800 k%s b\r\n%s\r\n" % (coded, self.VALUE))
        if kind == 3:
            return b"mg none-%s q v\r\n" % key, b""
        return b"mg %s k f v\r\n" % key, b"VA 3800 k%s f5\r\n%s\r\n" % (key, self.VALUE)

    def binary_request(self, dice):
        key, opaque = dice.choice(self.KEYS), dice.randrange(1 << 32)
        answer = lambda opcode, key=b"", extras=b"", value=b"": frame(
            opcode, key, extras, value, opaque=opaque, magic=RESPONSE, cas=self.cas.get(key, 0))
        kind = dice.randrange(6)
        if kind == 0:
            return (frame("touch", key, bytes(4), opaque=opaque),
                    frame("touch", b"", bytes((0, 0, 0, 5)), opaque=opaque, magic=RESPONSE,
                          cas=self.cas[key]))
        if kind == 1:
            return frame("noop", opaque=opaque), answer("noop")
        if kind == 2:
            return frame("getq", b"none", opaque=opaque), b""
        opcode = dice.choice(("getk", "getkq"))
        return (frame(opcode, key, opaque=opaque),
                answer(opcode, key, bytes((0, 0, 0, 5)), self.VALUE))

    def play(self, request, *options, seed=1, pipelines=None, **how):
        dice = random.Random(seed)
        with Server("-t", "2", *options) as server:
            with server.connect() as wire:
                self.store(wire)
                wire.send(b"gets " + b" ".join(self.KEYS) + b"\r\n")
                lines = wire.until(b"END\r\n").split(b"\r\n")
                self.cas = {words[1]: int(words[4]) for words in map(bytes.split, lines)
                            if words[:1] == [b"VALUE"]}
            with server.connect(**how) as wire:
                for number in range(pipelines or self.PIPELINES):
                    self.check(wire, [request(dice) for _ in range(60)],
                               f"seed {seed}, pipeline {number}:")
            server.check_alive()

    def test_text_gets_of_8_to_32_large_values_among_touches(self):
        self.play(self.text_request)

    def test_meta_gets_of_large_values_among_touches(self):
        self.play(self.meta_request, seed=2)

    def test_binary_gets_of_large_values_among_touches(self):
        self.play(self.binary_request, seed=3)

    def test_with_1_and_20_and_1000_requests_for_each_event(self):
        for requests_per_event in (1, 20, 1000):
            for number, request in enumerate(
                    (self.text_request, self.meta_request, self.binary_request)):
                with self.subTest(requests_per_event=requests_per_event, number=number):
                    self.play(request, "-R", requests_per_event, seed=number, pipelines=20)

    def test_clients_that_read_slowly(self):
        for number, request in enumerate(
                (self.text_request, self.meta_request, self.binary_request)):
            with self.subTest(number=number):
                self.play(request, seed=10 + number, pipelines=10, receive_buffer=4096)

    def test_several_clients_at_once_on_one_worker(self):
        with Server("-t", "1") as server:
            wires = [server.connect(receive_buffer=4096 if i % 2 else None) for i in range(6)]
            self.store(wires[0])
            dice, wants = random.Random(20), {}
            for number in range(10):
                for wire in wires:
                    requests = [self.text_request(dice) for _ in range(60)]
                    wants[wire] = b"".join(answer for _, answer in requests)
                    wire.send(b"".join(request for request, _ in requests))
                for wire in reversed(wires):
                    self.assert_same(wire.read(len(wants[wire])), wants[wire], number)
            for wire in wires:
                wire.close()
            server.check_alive()


# ---- 3. logging -----------------------------------------------------------------------------------


class Pipe:
    """A pipe that is as small as can be and full, for a server that writes its log into it."""

    def __enter__(self):
        self.end, self.start = os.pipe()
        fcntl.fcntl(self.start, fcntl.F_SETPIPE_SZ, 4096)
        return self

    def __exit__(self, *_):
        os.close(self.end)
        os.close(self.start)

    def fill(self):
        os.set_blocking(self.start, False)
        try:
            while True:
                os.write(self.start, b".")
        except BlockingIOError:
            pass
        os.set_blocking(self.start, True)  # the server shares this setting


class Logging(unittest.TestCase):
    def serves_with_full_pipe(self, server, pipe):
        pipe.fill()
        with server.connect() as wire:
            self.assertEqual(wire.ask("verbosity 2"), b"OK\r\n")
        with server.connect() as wire, server.connect() as other:
            for i in range(1000):
                self.assertEqual(wire.ask(f"set k{i} 0 0 1\r\nx"), b"STORED\r\n")
                other.send(b"get k%d\r\nmn\r\n" % i)
                self.assertEqual(other.until(b"MN\r\n"),
                                 b"VALUE k%d 0 1\r\nx\r\nEND\r\nMN\r\n" % i)
        self.assertTrue(wait_for(
            lambda: int(server.stats("kbf").get("log_lines_dropped", 0)) > 0),
            "stats kbf has no log_lines_dropped, or it is 0")

    def test_verbosity_2_with_a_log_that_nobody_reads_stops_nobody(self):
        with Pipe() as pipe, Server("-t", "2", stderr=pipe.start) as server:
            self.serves_with_full_pipe(server, pipe)
            self.assertEqual(server.stop(), 0)

    def test_a_log_that_is_full_before_the_start_stops_nobody(self):
        with Pipe() as pipe:
            pipe.fill()
            with Server("-t", "2", "-vv", stderr=pipe.start) as server:
                self.serves_with_full_pipe(server, pipe)
                self.assertEqual(server.stop(), 0)

    def test_a_log_that_is_read_again_is_written_again(self):
        with Pipe() as pipe, Server("-t", "2", stderr=pipe.start) as server:
            self.serves_with_full_pipe(server, pipe)
            os.set_blocking(pipe.end, False)
            seen = bytearray()

            def shows_a_request():
                with server.connect() as wire:
                    wire.ask("get after-the-flood")
                try:
                    seen.extend(os.read(pipe.end, 1 << 16))
                except BlockingIOError:
                    pass
                return b"get after-the-flood" in seen
            self.assertTrue(wait_for(shows_a_request), bytes(seen[-200:]))
            # Lines stay whole: none begins in the middle of another.
            lines = bytes(seen).lstrip(b".").split(b"\n")
            pattern = (rb"\.*(<\d+ .*|>\d+ .*|listening on .*|signal .*|.*\d+ (log )?lines? .*|"
                       rb"[-\w ]+: .*|)")
            for line in lines[:-1]:
                self.assertRegex(line, rb"\A" + pattern + rb"\Z")

    def test_a_log_whose_reader_has_gone_stops_nobody(self):
        end, start = os.pipe()
        try:
            with Server("-vv", stderr=start) as server:
                os.close(end)
                end = None
                with server.connect() as wire:
                    for i in range(1000):
                        self.assertEqual(wire.ask("mn"), b"MN\r\n")
                self.assertEqual(server.stop(), 0)
        finally:
            for descriptor in (end, start):
                if descriptor is not None:
                    os.close(descriptor)

    def test_a_verbosity_over_an_int_does_not_silence_the_log(self):
        for number in ("4294967295", "2147483648", "99"):
            with self.subTest(number=number), Server() as server:
                with server.connect() as wire:
                    self.assertEqual(wire.ask(f"verbosity {number}"), b"OK\r\n")
                    wire.ask("get seen-in-the-log")
                # One end of the range means as much as possible.
                self.assertTrue(wait_for(lambda: "seen-in-the-log" in server.stderr()))
                self.assertEqual(server.stop(), 0)
                self.assertIn("signal 15: stopping", server.stderr())


# ---- 5. long multigets ----------------------------------------------------------------------------


class LongMultigets(Comparing):
    """One long line costs what its keys cost in short lines, and is answered to the end."""

    NAMES = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j"]

    def setUp(self):
        # A sixteenth of this is the share of the connections; long lines are within it.
        self.server = Server("-m", "1024", "-t", "1")
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.wire = self.server.connect()
        self.addCleanup(self.wire.close)
        self.values = {name: name * 100 for name in self.NAMES}
        for name in self.NAMES:
            self.assertEqual(self.wire.ask(f"set {name.decode()} 0 0 100\r\n"
                                           + name.decode() * 100), b"STORED\r\n")

    def answer(self, keys, cas=None):
        head = lambda key: b"VALUE %s 0 100%s\r\n" % (key, b" %d" % cas[key] if cas else b"")
        whole = {key: head(key) + self.values[key] + b"\r\n" for key in self.NAMES}
        return b"".join(whole.get(key, b"") for key in keys) + b"END\r\n"

    def test_200000_keys_in_one_line_cost_what_they_cost_in_lines_of_100(self):
        keys = self.NAMES * 10
        short = [b"get " + b" ".join(keys) + b"\r\n"] * 2000
        want_short = self.answer(keys) * 2000
        long = [b"get " + b" ".join(keys * 2000) + b"\r\n"]
        want_long = self.answer(keys * 2000)
        ticks = [self.server.cpu_ticks()]
        # Several times, for a tick is long.
        for pieces, want in ((short, want_short), (long, want_long)):
            for _ in range(3):
                self.assert_same(self.wire.exchange([b"".join(pieces)], len(want)), want)
            ticks.append(self.server.cpu_ticks())
        cost_short, cost_long = ticks[1] - ticks[0], ticks[2] - ticks[1]
        self.assertLessEqual(cost_long, 3 * cost_short + 20, f"ticks: {cost_short}, {cost_long}")

    def test_500000_keys_are_answered_to_the_end(self):
        keys = self.NAMES * 50000
        want = self.answer(keys) + b"MN\r\n"
        line = b"get " + b" ".join(keys) + b"\r\nmn\r\n"
        self.assert_same(self.wire.exchange([line], len(want)), want)

    def test_lines_over_4_mb_are_answered(self):
        keys = [b"absent-%08d" % i for i in range(300000)]
        keys[::1000] = self.NAMES * 30
        want = self.answer(keys) + b"MN\r\n"
        line = b"get " + b" ".join(keys) + b"\r\nmn\r\n"
        self.assertGreater(len(line), 4 << 20)
        self.assert_same(self.wire.exchange([line], len(want)), want)

    def test_lines_in_pieces_with_get_gets_and_gat(self):
        self.wire.send(b"gets " + b" ".join(self.NAMES) + b"\r\n")
        lines = self.wire.until(b"END\r\n").split(b"\r\n")
        cas = {line.split()[1]: int(line.split()[4]) for line in lines if b"VALUE" in line}
        dice = random.Random(5)
        keys = [dice.choice(self.NAMES) if dice.random() < 0.3 else b"absent-%d" % i
                for i in range(100000)]
        for seed, (verb, with_cas) in enumerate((("get", None), ("gets", cas), ("gat 0", None),
                                                 ("gats 0", cas))):
            line = verb.encode() + b" " + b" ".join(keys) + b"\r\nmn\r\n"
            want = self.answer(keys, with_cas) + b"MN\r\n"
            for pieces in ([line], pieces_of(seed)(line)):
                with self.subTest(verb=verb, pieces=len(pieces)):
                    self.assert_same(self.wire.exchange(pieces, len(want)), want)

    def test_a_long_line_byte_by_byte_around_the_line_limit(self):
        keys = self.NAMES * 120
        line = b"get " + b" ".join(keys) + b"\r\nmn\r\n"
        want = self.answer(keys) + b"MN\r\n"
        pieces = [line[i:i + 1] for i in range(len(line))]
        self.assert_same(self.wire.exchange(pieces, len(want)), want)

    def test_a_key_over_250_bytes_in_a_long_line_is_an_error_and_nothing_more(self):
        error = b"CLIENT_ERROR bad command line format\r\n"
        for place in (0, 10, 3000, 99999, 100000):
            for verb in (b"get", b"gets", b"gat 0"):
                with self.subTest(place=place, verb=verb):
                    keys = self.NAMES * 10000
                    keys.insert(place, b"x" * 251)
                    line = verb + b" " + b" ".join(keys) + b"\r\nmn\r\n"
                    self.wire.exchange([line], 0)
                    answer = self.wire.until(error)
                    self.assertTrue(answer.endswith(error), answer[-200:])
                    self.assertNotIn(b"END\r\n", answer)
                    if verb == b"get":
                        # What came before it is the answer to keys before the wrong one.
                        self.assertTrue(
                            self.answer(keys[:place]).startswith(answer[:-len(error)]))
                    self.assertEqual(self.wire.line(), b"MN\r\n")
                    self.assertEqual(self.wire.ask("get a", b"END\r\n"), self.answer([b"a"]))

    def test_a_long_line_without_end_or_cut_off_holds_up_nobody(self):
        line = b"get " + b" ".join(self.NAMES * 50000)
        for how in ("end", "reset"):
            with self.server.connect() as other:
                other.offer(line)
                if how == "reset":
                    other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                            b"\1\0\0\0\0\0\0\0")
            self.server.check_alive()

    def test_others_are_served_between_the_keys_of_long_lines_that_find_nothing(self):
        lines, clients = 8, 4
        line = b"get" + b" z" * 500000 + b"\r\n"
        done = threading.Semaphore(0)

        def ask(wire):
            wire.exchange([line] * lines, len(b"END\r\n") * lines)
            done.release()
        wires = [self.server.connect() for _ in range(clients)]
        threads = [threading.Thread(target=ask, args=(wire,)) for wire in wires]
        for thread in threads:
            thread.start()
        rounds, finished = 0, 0
        while finished < clients:
            self.assertEqual(self.wire.ask("get a", b"END\r\n"), self.answer([b"a"]))
            rounds += 1
            finished += done.acquire(blocking=False)
        for thread in threads:
            thread.join()
        for wire in wires:
            wire.close()
        # With one worker, a server that finishes each line at once comes to about one for each.
        self.assertGreater(rounds, 3 * lines * clients)


if __name__ == "__main__":
    unittest.main()
