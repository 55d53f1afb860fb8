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
from server import (BINARY, IS_MEMCACHED, MEMCACHED, PATIENCE_S, SANITIZER, Server, die_with_parent, free_port,
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
            # The answer has the key as it was stored, not as it was asked for.
            return b"mg %s b k v\r\n" % coded, b"VA 3800 k%s\r\n%s\r\n" % (key, self.VALUE)
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
        # More lines than the buffer of the log holds.
        line = b"get " + b"k" * 240 + b"\r\n"
        with server.connect() as wire:
            for _ in range(30):
                wire.send(line * 100 + b"mn\r\n")
                self.assertEqual(wire.until(b"MN\r\n"), b"END\r\n" * 100 + b"MN\r\n")
        self.assertGreater(int(server.stats("kbf")["log_lines_dropped"]), 0)

    def test_verbosity_2_with_a_log_that_is_not_read_delays_no_client(self):
        with Pipe() as pipe, Server("-t", "2", stderr=pipe.start) as server:
            self.serves_with_full_pipe(server, pipe)
            self.assertEqual(server.stop(), 0)

    def test_a_log_that_is_full_before_the_start_delays_no_client(self):
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
            head = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (notice|error|debug) "
            pattern = rb"\.*(" + head + rb"(<\d+ .*|listening on .*|signal .*|[-\w ]+: .*)|)"
            for line in lines[:-1]:
                self.assertRegex(line, rb"\A" + pattern + rb"\Z")

    def test_a_log_whose_reader_has_gone_delays_no_client(self):
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

    def test_a_key_over_250_bytes_in_a_long_line_is_one_error(self):
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

    def test_a_long_line_without_end_or_cut_off_delays_no_client(self):
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


# ---- 4. allocation failure ------------------------------------------------------------------------


@unittest.skipIf(SANITIZER, "a sanitizer reserves address space of its own")
class NoMemoryLeft(unittest.TestCase):
    """Address space is limited to what is mapped: requests may fail, the server may not."""

    VALUE = b"v" * 20000

    def ask(self, server, data):
        """Everything that comes; nothing when the connection fails."""
        try:
            with server.connect() as wire:
                wire.offer(data)
                wire.socket.shutdown(socket.SHUT_WR)  # then it closes, whatever it answers
                return wire.rest()
        except OSError:
            return b""

    def abuse(self, server, spare):
        pid = server.process.pid
        size = server.proc("VmSize") * 1024
        _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (size + spare, hard))
        held = []
        try:
            for i in range(300):
                answer = self.ask(server, b"set k%d 0 0 20000\r\n%s\r\n" % (i, self.VALUE))
                self.assertRegex(answer, rb"\A(STORED\r\n|SERVER_ERROR out of memory.*\r\n|)\Z")
                answer = self.ask(server, b"get k%d\r\n" % i)
                want = b"VALUE k%d 0 20000\r\n%s\r\nEND\r\n" % (i, self.VALUE)
                if not want.startswith(answer) and answer != b"END\r\n":
                    self.assertRegex(answer, rb"\ASERVER_ERROR out of memory.*\r\n")
                if i % 10 == 0:
                    for sub in (b"", b" settings", b" conns", b" kbf", b" items", b" slabs",
                                b" detail dump"):
                        self.ask(server, b"stats%s\r\n" % sub)
                    self.ask(server, b"".join(b"get k%d\r\n" % j for j in range(i)) + b"mn\r\n")
                try:
                    wire = server.connect()
                    held.append(wire)
                    wire.offer(b"set half 0 0 1000000\r\n" + b"h" * 300000)
                except OSError:
                    pass
                if server.process.poll() is not None:
                    self.fail(f"the server died with {server.process.returncode}: "
                              f"{server.stderr()[-500:]}")
        finally:
            for wire in held:
                wire.close()
            if server.process.poll() is None:
                resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))

    def test_the_server_survives_every_failed_allocation(self):
        for spare in (0, 1 << 20, 4 << 20, 16 << 20):
            with self.subTest(spare=spare), Server("-m", "64", "-t", "2", "-D", ":") as server:
                self.abuse(server, spare)
                self.assertTrue(wait_for(lambda: self.works(server)))
                server.check_alive()

    def works(self, server):
        """Without the limit the server works as usual."""
        with server.connect() as wire:
            wire.send(b"set after 0 0 900000\r\n" + b"a" * 900000 + b"\r\n")
            return wire.line() == b"STORED\r\n" and b"a" * 900000 in wire.ask("get after", b"END\r\n")


# ---- 6. prefixes, flushes, stops, sockets, options ------------------------------------------------


class ManyPrefixes(unittest.TestCase):
    def test_a_dump_of_65536_prefixes_is_complete_and_right_for_several_clients_at_once(self):
        count, clients = 65536, 4
        with Server("-D", ":", "-t", "4", "-m", "256") as server:
            def touch_all(wire, failures):
                for start in range(0, count, 512):
                    wire.send(b"get " + b" ".join(b"prefix-%d:k" % i for i in
                                                  range(start, start + 512)) + b"\r\n")
                    if wire.line() != b"END\r\n":
                        failures.append(start)
            wires, failures = [server.connect() for _ in range(clients)], []
            threads = [threading.Thread(target=touch_all, args=(w, failures)) for w in wires]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            want = sorted(b"PREFIX prefix-%d get %d hit 0 set 0 del 0" % (i, clients)
                          for i in range(count))
            for wire in wires:
                wire.send(b"stats detail dump\r\nmn\r\n")
            for wire in wires:
                lines = wire.until(b"END\r\nMN\r\n").split(b"\r\n")
                self.assertEqual(lines[-3:], [b"END", b"MN", b""])
                self.assertEqual(sorted(lines[:-3]) == want, True, f"{len(lines)} lines")
                wire.close()
            server.check_alive()


class ManyFlushes(unittest.TestCase):
    ITEMS = 60000 if SANITIZER else 300000

    def fill(self, wire, generation, count):
        for start in range(0, count, 2000):
            wire.send(b"".join(b"set g%d-%d 0 0 5 noreply\r\nhello\r\n" % (generation, i)
                               for i in range(start, min(start + 2000, count))))
        self.assertEqual(wire.ask("mn"), b"MN\r\n")

    def thread_ticks(self, server):
        """CPU time of each thread. The busiest after a fill is the worker; others sweep."""
        ticks = {}
        for task in os.listdir(f"/proc/{server.process.pid}/task"):
            with open(f"/proc/{server.process.pid}/task/{task}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            ticks[task] = int(fields[11]) + int(fields[12])
        return ticks

    def test_the_fourth_flush_in_a_row_costs_what_the_first_costs(self):
        with Server("-m", "256", "-t", "1") as server, server.connect() as wire:
            self.fill(wire, 0, self.ITEMS)
            ticks = self.thread_ticks(server)
            worker = max(ticks, key=ticks.get)
            costs = []
            for number in range(6):
                wire.ask(f"set g{number}-new 0 0 1\r\nx")
                before = self.thread_ticks(server)[worker]
                self.assertEqual(wire.ask("flush_all"), b"OK\r\n")
                costs.append(self.thread_ticks(server)[worker] - before)
                for i in range(0, self.ITEMS, self.ITEMS // 7):
                    self.assertEqual(wire.ask(f"get g0-{i}"), b"END\r\n")
                self.assertEqual(wire.ask(f"get g{number}-new"), b"END\r\n")
            self.assertLessEqual(max(costs[1:]), 5 * costs[0] + 4, f"ticks for each: {costs}")
            self.assertTrue(wait_for(lambda: read_stats(wire)["curr_items"] == "0"))
            server.check_alive()

    def test_what_is_stored_between_flushes_stays_and_what_was_before_is_gone(self):
        with Server("-m", "64") as server, server.connect() as wire:
            for generation in range(8):
                self.fill(wire, generation, 5000)
                for i in range(0, 5000, 501):
                    self.assertEqual(wire.ask(f"get g{generation}-{i}", b"END\r\n"),
                                     b"VALUE g%d-%d 0 5\r\nhello\r\nEND\r\n" % (generation, i))
                self.assertEqual(wire.ask("flush_all"), b"OK\r\n")
                self.assertEqual(wire.ask("set kept 0 0 1\r\nx"), b"STORED\r\n")
                for i in range(0, 5000, 501):
                    self.assertEqual(wire.ask(f"get g{generation}-{i}"), b"END\r\n")
                self.assertEqual(wire.ask("get kept", b"END\r\n"),
                                 b"VALUE kept 0 1\r\nx\r\nEND\r\n")
                self.assertTrue(wait_for(lambda: read_stats(wire)["curr_items"] == "1"))

    def test_many_flushes_in_one_message_leave_the_last_items(self):
        with Server("-m", "64") as server, server.connect() as wire:
            wire.send(b"".join(b"set k%d 0 0 1\r\nx\r\nflush_all\r\n" % i for i in range(50))
                      + b"set last 0 0 1\r\nx\r\nget k49 last\r\n")
            want = b"STORED\r\nOK\r\n" * 50 + b"STORED\r\nVALUE last 0 1\r\nx\r\nEND\r\n"
            self.assertEqual(wire.read(len(want)), want)
            self.assertTrue(wait_for(lambda: read_stats(wire)["curr_items"] == "1"))


class Stopping(unittest.TestCase):
    def test_kill_term_among_pipelines_large_values_and_slow_readers_exits_0(self):
        with Server("-m", "256") as server:
            with server.connect() as wire:
                for i in range(20):
                    wire.send(b"set big-%d 0 0 900000\r\n" % i + b"b" * 900000 + b"\r\n")
                    self.assertEqual(wire.line(), b"STORED\r\n")
            ask = b"".join(b"get big-%d\r\n" % (i % 20) for i in range(60)) * 10
            slow = [server.connect(receive_buffer=4096) for _ in range(20)]
            halves = [server.connect() for _ in range(20)]
            for wire in slow:
                wire.offer(ask)
            for wire in halves:
                wire.offer(b"set half 0 0 1000000\r\n" + b"h" * 500000)
            running = threading.Semaphore(0)

            def busy():
                try:
                    with server.connect() as wire:
                        for number in range(1000000):
                            wire.send(b"get big-%d\r\n" % (number % 20) * 5 + b"mn\r\n" * 60)
                            if not wire.read(5 * 900000).strip():
                                return
                            wire.until(b"MN\r\n" * 60)
                            if number == 1:
                                running.release()
                except OSError:
                    return
            threads = [threading.Thread(target=busy) for _ in range(8)]
            for thread in threads:
                thread.start()
            for _ in threads:
                self.assertTrue(running.acquire(timeout=PATIENCE_S))
            code = server.stop()
            server.kill()
            for thread in threads:
                thread.join()
            for wire in slow + halves:
                wire.close()
            self.assertEqual(code, 0)


class UnixSockets(unittest.TestCase):
    def serve(self, path):
        server = Server("-s", path, listen=None)
        server.address = path
        return server

    def test_a_second_server_does_not_remove_the_socket_of_a_running_one(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "socket")
            with self.serve(path) as first, first.connect() as wire:
                self.assertEqual(wire.ask("set k 0 0 1\r\nx"), b"STORED\r\n")
                try:
                    code, text = run_once(*AS_USER, "-s", path)
                except subprocess.TimeoutExpired:
                    self.fail("a second server took over the socket of the first")
                self.assertNotEqual(code, 0)
                self.assertIn(path, text)
                self.assertRegex(text, "in use|another server")
                # New clients of the path still come to the first.
                with first.connect() as other:
                    self.assertEqual(other.ask("get k", b"END\r\n"),
                                     b"VALUE k 0 1\r\nx\r\nEND\r\n")
                first.check_alive()
            self.assertFalse(os.path.exists(path))

    def test_a_server_that_stops_does_not_remove_the_socket_of_another(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "socket")
            with self.serve(path) as first:
                first.check_alive()
                os.unlink(path)  # as an impatient administrator does
                with self.serve(path) as second:
                    second.check_alive()
                    self.assertEqual(first.stop(), 0)
                    self.assertTrue(os.path.exists(path), "the first took the second's socket")
                    second.check_alive()

    def test_a_file_that_is_not_a_socket_is_not_removed(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "precious")
            with open(path, "w") as file:
                file.write("data")
            code, text = run_once(*AS_USER, "-s", path)
            self.assertNotEqual(code, 0)
            self.assertIn(path, text)
            with open(path) as file:
                self.assertEqual(file.read(), "data")


@unittest.skipIf(IS_MEMCACHED, "kbfcached's own")
class StartUp(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_a_daemon_for_a_user_that_does_not_exist_fails_with_a_message(self):
        code, text = run_once("-d", "-u", "nosuch", "-l", "127.0.0.1", "-p", free_port())
        self.assertNotEqual(code, 0)
        self.assertIn("nosuch", text)

    def test_a_daemon_that_cannot_listen_fails_with_a_message(self):
        with Server() as server:
            code, text = run_once(*AS_USER, "-d", "-l", "127.0.0.1", "-p", server.port)
            self.assertNotEqual(code, 0)
            self.assertIn(str(server.port), text)

    def test_items_larger_than_the_buffers_take_are_refused_at_the_start(self):
        port = free_port()
        process = subprocess.Popen(
            [BINARY, *AS_USER, "-l", "127.0.0.1", "-p", str(port), "-I", "200m", "-m", "1024"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=die_with_parent)
        try:
            text, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail("-I 200m -m 1024 starts, though such items cannot be received")
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(text, r"-I|max-item-size")
        self.assertRegex(text, r"\d+ ?(m\b|MB|MiB)")

    def test_items_of_29_mb_are_served_with_i_30m(self):
        with Server("-I", "30m", "-m", "1024") as server, server.connect() as wire:
            for seed in range(3):
                value = random.Random(seed).randbytes(29 << 20)
                wire.send(b"set big 0 0 %d\r\n" % len(value) + value + b"\r\n")
                self.assertEqual(wire.line(), b"STORED\r\n")
                wire.send(b"get big\r\n")
                self.assertEqual(wire.line(), b"VALUE big 0 %d\r\n" % len(value))
                want = value + b"\r\nEND\r\n"
                self.assertEqual(wire.read(len(want)) == want, True)

    def test_too_many_slabs_are_refused_before_memory_is_taken(self):
        def limited():
            die_with_parent()
            if not SANITIZER:  # so that a failure of this test does not fill the machine
                resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        process = subprocess.Popen(
            [BINARY, *AS_USER, "-l", "127.0.0.1", "-p", str(free_port()), "--slabs", "65536",
             "-m", "64"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=limited)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertNotEqual(process.returncode, 0)
        if not SANITIZER:
            self.assertLess(usage.ru_maxrss, 256 * 1024, "KiB")


# ---- 7. without evictions ------------------------------------------------------------------------


class WithoutEvictions(unittest.TestCase):
    """-M on a full server: what was confirmed happened, and what was refused changed nothing."""

    VALUES = [b"value-%02d-" % i + b"v" * 40 for i in range(50)]

    def fill(self, wire):
        """Sets until one is refused and a while on; gives the keys that were stored."""
        stored, refused, i = [], 0, 0
        while refused < 2000 and i < 2000000:
            batch = range(i, i + 500)
            wire.send(b"".join(b"set key-%d 0 0 49\r\n%s\r\n" % (k, self.VALUES[k % 50])
                               for k in batch))
            for k in batch:
                answer = wire.line()
                if answer == b"STORED\r\n":
                    stored.append(k)
                else:
                    self.assertEqual(answer, b"SERVER_ERROR out of memory storing object\r\n")
                    refused += 1
            i += 500
        self.assertGreater(refused, 0)
        return stored

    def test_an_item_touched_with_a_past_time_is_removed(self):
        with Server("-m", "8", "-M") as server, server.connect() as wire:
            stored = self.fill(wire)
            chosen = stored if len(stored) < 30000 else stored[::len(stored) // 30000]
            stayed = []
            for k in chosen:
                wire.send(b"touch key-%d -1\r\nget key-%d\r\n" % (k, k))
                touched = wire.line()
                self.assertRegex(touched, rb"\A(TOUCHED|NOT_FOUND|SERVER_ERROR .*)\r\n\Z")
                found = wire.until(b"END\r\n")
                if touched == b"TOUCHED\r\n" and found != b"END\r\n":
                    stayed.append(k)
            self.assertEqual(len(stayed), 0, f"of {len(chosen)} stayed, such as {stayed[:5]}")

    def refuse(self, server):
        """Answers of get after sets of stored keys that were refused."""
        with server.connect() as wire:
            for i in range(5):
                wire.send(b"set old-%d 0 0 10000\r\n%s\r\n" % (i, b"%010d" % i * 1000))
                self.assertEqual(wire.line(), b"STORED\r\n")
            for size in (500000, 100000, 10000, 1000, 100):
                value, answer, i = b"f" * size, b"STORED\r\n", 0
                while answer == b"STORED\r\n" and i < 200000:
                    # Each its own value, so that nothing is shared.
                    wire.send(b"set fill-%d-%d 0 0 %d\r\n%010d%s\r\n" % (
                        size, i, size, i, value[10:]))
                    answer, i = wire.line(), i + 1
                self.assertEqual(answer, b"SERVER_ERROR out of memory storing object\r\n")
            answers = []
            for i in range(5):
                wire.send(b"get old-%d\r\n" % i)
                if wire.until(b"END\r\n") == b"END\r\n":
                    continue
                wire.send(b"set old-%d 0 0 400000\r\n%s\r\n" % (i, b"n" * 400000))
                if wire.line() == b"SERVER_ERROR out of memory storing object\r\n":
                    wire.send(b"get old-%d\r\n" % i)
                    answers.append(wire.until(b"END\r\n")[:40])
            return answers

    def test_a_refused_set_leaves_no_old_value(self):
        with Server("-m", "8", "-M") as server:
            answers = self.refuse(server)
            self.assertTrue(answers, "no set of a stored key was refused")
            self.assertEqual(answers, [b"END\r\n"] * len(answers))

    @unittest.skipUnless(os.path.exists(MEMCACHED), "memcached is not installed")
    def test_memcached_removes_the_old_value_as_well(self):
        with Server("-m", "8", "-M", binary=MEMCACHED) as server:
            answers = self.refuse(server)
            self.assertEqual(answers, [b"END\r\n"] * len(answers))
            self.assertTrue(answers, "no set of a stored key was refused")

    def test_a_refused_append_leaves_the_old_value(self):
        with Server("-m", "8", "-M") as server, server.connect() as wire:
            self.assertEqual(wire.ask("set small 0 0 5\r\nsmall"), b"STORED\r\n")
            stored = self.fill(wire)
            wire.send(b"append small 0 0 900000\r\n%s\r\n" % (b"a" * 900000))
            answer = wire.line()
            self.assertRegex(answer, rb"\A(STORED|SERVER_ERROR out of memory.*)\r\n\Z")
            if answer != b"STORED\r\n":
                self.assertIn(wire.ask("get small", b"END\r\n"),
                              (b"VALUE small 0 5\r\nsmall\r\nEND\r\n", b"END\r\n"))


if __name__ == "__main__":
    unittest.main()
