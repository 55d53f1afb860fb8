"""What broke memcached, and limits: after each of these the server still serves a normal client.

The classes follow HARDENING: inputs that broke others (named after CVE and commit), limits on
connections and memory. The command line has its own file, test_options.py.
"""

import os
import re
import select
import signal
import socket
import threading
import time
import unittest

from binary import HEADER, OPCODES, RESPONSE, frame
from server import IS_MEMCACHED, SANITIZER, SOAK, Server, raise_file_limit, read_stats, wait_for

# Statuses of the binary protocol.
TOO_LARGE, INVALID, UNKNOWN = 0x03, 0x04, 0x81
OPAQUE, NOOP_OPAQUE = 0x01020304, 0x0a0b0c0d
ALL_OPCODES = sorted(set(OPCODES.values()) | {0x1b, 0x40, 0xff})

# Everything that a line of a text or meta answer may be.
LINE = re.compile(
    rb"ERROR|ERROR: shutdown not enabled|Error TLS not enabled|(CLIENT|SERVER)_ERROR [ -~]+|STORED|"
    rb"NOT_STORED|EXISTS|NOT_FOUND|DELETED|TOUCHED|OK|END|RESET|VERSION [ -~]+|STAT [ -~]+|PREFIX [ -~]+|"
    rb"VALUE [ -~]+|ITEM [ -~]+|key=[ -~]+|\d+|BUSY [ -~]+|BADCLASS [ -~]+|NOSPARE [ -~]+|"
    rb"MN|(EN|HD|NF|NS|EX)( [ -~]+)?|ME [ -~]+|VA [ -~]+|NOTFOUND|SAME [ -~]+|"
    rb"MEMLIMIT_(TOO_SMALL|ADJUST_FAILED) [ -~]+")

TEXT_COMMANDS = (
    "get gets gat gats set add replace append prepend cas incr decr touch delete flush_all version "
    "verbosity stats quit shutdown cache_memlimit slabs lru lru_crawler watch mn mg ms md ma me "
    "refresh_certs bget misbehave debugtime extstore"
).split()


def until_closed(server, data):
    """Sends everything, says that no more will come, and gives what the server answers."""
    with server.connect() as wire:
        try:
            wire.send(data)
            wire.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has closed already
        return wire.rest()


class WithServer(unittest.TestCase):
    """One server for the class, on a unix socket: thousands of connections use up no ports."""

    options = ("-m", "64")
    listen = "unix"

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options, listen=cls.listen)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def tearDown(self):
        self.server.check_alive()


class HostileBinary(WithServer):
    def frames(self, answer, context):
        """The frames of an answer; it must consist of whole ones."""
        at = 0
        while at < len(answer):
            self.assertLessEqual(at + HEADER.size, len(answer), (context, answer))
            head = HEADER.unpack_from(answer, at)
            self.assertEqual(head[0], RESPONSE, (context, answer[at:at + 40]))
            self.assertLessEqual(head[2] + head[3], head[6], context)
            at += HEADER.size + head[6]
            self.assertLessEqual(at, len(answer), (context, "half a frame"))
            yield head

    def ask(self, request, context, half_close=False):
        """What comes to a request and a NOOP behind it. half_close: and then nothing more.

        Gives the status of each frame that answers the request, and True when the NOOP is answered
        (in step, as the last frame), False when the server has closed by itself before.
        """
        opcode = request[1]
        with self.server.connect() as wire:
            try:
                wire.send(request + frame("noop", opaque=NOOP_OPAQUE))
                if half_close:
                    wire.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has closed already
            statuses = []
            while True:
                head = wire.read(HEADER.size)
                if not head:
                    return statuses, False
                self.assertEqual(len(head), HEADER.size, (context, "half a frame"))
                head = HEADER.unpack(head)
                self.assertEqual(head[0], RESPONSE, (context, head))
                self.assertLessEqual(head[2] + head[3], head[6], context)
                self.assertEqual(len(wire.read(head[6])), head[6], (context, "half a frame"))
                if head[7] == NOOP_OPAQUE:
                    self.assertEqual((head[1], head[5]), (OPCODES["noop"], 0), context)
                    return statuses, True
                self.assertEqual((head[1], head[7]), (opcode, OPAQUE), context)
                statuses.append(head[5])

    def assert_refused(self, answer, statuses, context):
        """One error frame of this kind, and the server closes. memcached may close without."""
        if not IS_MEMCACHED or answer[0]:
            self.assertEqual(len(answer[0]), 1, (context, answer))
            self.assertIn(answer[0][0], statuses, context)
        self.assertFalse(answer[1], (context, "goes on though its place in the stream is lost"))

    def test_cve_2011_4971_and_229cf41be_body_longer_than_an_int(self):
        for opcode in ALL_OPCODES:
            for body_len in (0x7fffffff, 0x80000000, 0xffffffff):
                for key_len, extras_len in ((0, 0), (3, 0), (3, 8), (3, 20)):
                    context = (hex(opcode), hex(body_len), key_len, extras_len)
                    data = frame(opcode, key_len=key_len, extras_len=extras_len,
                                 body_len=body_len, opaque=OPAQUE)
                    # A body that an int can count may be skipped, and the NOOP is part of it. What
                    # is longer closes the connection at once.
                    answer = self.ask(data + b"abc" * 20, context, body_len <= 0x7fffffff)
                    # Never success, and always a reply.
                    self.assert_refused(answer, (INVALID, TOO_LARGE, UNKNOWN), context)

    def check_grid(self, opcodes):
        """All lengths that do and do not add up; gives how often the server stayed in step."""
        in_step = 0
        for opcode in opcodes:
            for key_len in (0, 1, 250, 251, 0xffff):
                for extras_len in (0, 1, 4, 8, 20, 21, 255):
                    fitting = key_len + extras_len
                    for body_len in {0, 1, max(0, fitting - 1), fitting, fitting + 1}:
                        context = (hex(opcode), key_len, extras_len, body_len)
                        data = frame(opcode, key_len=key_len, extras_len=extras_len,
                                     body_len=body_len, opaque=OPAQUE) + b"a" * body_len
                        answer = self.ask(data, context)
                        if body_len < fitting:
                            self.assert_refused(answer, (INVALID, UNKNOWN), context)
                        elif answer[1]:
                            in_step += 1
                        elif opcode == OPCODES["quit"] and fitting == body_len == 0:
                            self.assertEqual(answer[0], [0])
                        elif opcode == OPCODES["quitq"] and fitting == body_len == 0:
                            self.assertEqual(answer[0], [])
                        else:
                            self.assert_refused(answer, (INVALID, UNKNOWN), context)
        return in_step

    def test_cve_2016_8704_8705_lengths_that_do_not_add_up(self):
        # Each opcode has lengths that are right, and then the connection goes on.
        self.assertGreaterEqual(self.check_grid(ALL_OPCODES), 2 * len(ALL_OPCODES))

    def test_cve_2016_8706_sasl_with_lengths_that_do_not_add_up(self):
        self.assertGreater(self.check_grid((0x20, 0x21, 0x22)), 3)
        for opcode in (0x20, 0x21, 0x22):
            for key in (b"", b"PLAIN", b"k" * 250):
                for value in (b"", b"\0user\0password", b"v" * 1000):
                    if opcode == 0x20 and (key or value):
                        continue
                    request = frame(opcode, key, b"", value, opaque=OPAQUE)
                    statuses, in_step = self.ask(request, (opcode, key, value))
                    if key or opcode == 0x20:
                        self.assertEqual((statuses, in_step), ([UNKNOWN], True))

    def test_cve_2020_10931_every_length_of_extras(self):
        right = {"set": (8,), "add": (8,), "replace": (8,), "increment": (20,),
                 "decrement": (20,), "touch": (4,), "gat": (4,), "gatk": (4,), "get": (0,),
                 "getk": (0,), "delete": (0,), "append": (0,), "prepend": (0,), "stat": (0,)}
        right.update({name + "q": lengths for name, lengths in right.items()})
        for name, opcode in OPCODES.items():
            if name.startswith(("sasl", "r")) and name != "replace" and name != "replaceq":
                continue  # unknown, whatever the lengths: the grid above has them
            for extras_len in range(256):
                context = (name, extras_len)
                answer = self.ask(frame(opcode, b"k", b"\0" * extras_len, opaque=OPAQUE), context)
                if extras_len in right.get(name, ()):
                    self.assertTrue(answer[1], context)
                else:
                    self.assert_refused(answer, (INVALID, UNKNOWN), context)

    def test_e3b7d33ce_pipelined_reads_of_one_key_by_a_client_that_never_reads(self):
        until_closed(self.server, frame("set", b"k", bytes(8), b"v" * 1000))
        never_reads(self, self.server, frame("get", b"k") * 100000)

    def test_a_frame_cut_anywhere(self):
        data = frame("set", b"key", bytes(8), b"value") + frame("get", b"key")
        for length in range(len(data)):
            list(self.frames(until_closed(self.server, data[:length]), length))


class HostileText(WithServer):
    def in_sync(self, wire, count):
        """The connection answers what is asked now, not something from before."""
        wire.send(b"md no-such-key O%d\r\n" % count)
        end = b"NF O%d\r\n" % count
        answer = wire.until(end)
        self.assertTrue(answer.endswith(end), answer[-200:])
        return answer

    def assert_lines(self, answer, context):
        """Nothing but whole lines that the protocol has, or pieces of the value `hi`."""
        lines = answer.split(b"\r\n")
        self.assertEqual(lines.pop(), b"", (context, answer[-200:]))
        for line in lines:
            if not LINE.fullmatch(line) and line not in (b"hi", b"x", b""):
                self.fail(f"{context}: {line[:200]!r}")

    def test_cve_2018_1000127_one_key_many_times_for_a_client_that_never_reads(self):
        with self.server.connect() as wire:
            self.assertEqual(wire.ask("set k 0 0 100\r\n" + "v" * 100), b"STORED\r\n")
        never_reads(self, self.server, b"get" + b" k" * 100000 + b"\r\n")
        with self.server.connect() as wire:
            for _ in range(3):
                wire.send(b"get" + b" k" * 1000 + b"\r\n")
                self.assertEqual(wire.until(b"END\r\n").count(b"VALUE k 0 100\r\n"), 1000)

    def test_cve_2018_1000115_and_cve_2022_48571_no_udp_socket(self):
        inodes = set()
        for name in os.listdir(f"/proc/{self.server.process.pid}/fd"):
            try:
                link = os.readlink(f"/proc/{self.server.process.pid}/fd/{name}")
            except OSError:
                continue
            inodes.update(re.findall(r"socket:\[(\d+)\]", link))
        self.assertTrue(inodes)
        for table in ("udp", "udp6"):
            if os.path.exists(f"/proc/net/{table}"):
                with open(f"/proc/net/{table}") as file:
                    used = {line.split()[9] for line in file.readlines()[1:]}
                self.assertFalse(used & inodes)

    def test_cve_2019_11596_every_command_with_0_to_9_words(self):
        for command in TEXT_COMMANDS:
            for word in ("x", "0", "99", "-1", "noreply"):
                if command in ("verbosity", "cache_memlimit") and word == "99":
                    continue  # these would be obeyed
                for count in range(10):
                    line = " ".join([command] + [word] * count).encode()
                    # Enough lines for the longest value that this may announce.
                    answer = until_closed(self.server, line + b"\r\n" + b"x\r\n" * 40)
                    self.assert_lines(answer, line)
                    if command != "quit" and not (command == "shutdown" and IS_MEMCACHED):
                        self.assertTrue(answer, line)
            self.server.check_alive()

    def test_cve_2020_22570_every_meta_flag_with_empty_long_and_wrong_arguments(self):
        flags = [chr(c) for c in range(33, 127)]
        values = ("", "9" * 40, "abc", "-1", "x" * 33, "0")
        with self.server.connect() as wire:
            count = 0
            for verb in ("mg k", "ms k 2", "md k", "ma k", "me k", "mn"):
                data = b"hi\r\n" if verb.startswith("ms") else b""
                for flag in flags:
                    for value in values:
                        wire.send(f"{verb} {flag}{value}\r\n".encode() + data)
                        count += 1
                        answer = self.in_sync(wire, count)
                        self.assert_lines(answer, (verb, flag, value))
                        # Only q may suppress a reply.
                        if flag != "q":
                            self.assertGreater(answer.count(b"\r\n"), 1, (verb, flag, value))

    def test_cve_2023_46852_and_46853_runs_of_spaces_and_all_line_ends(self):
        with self.server.connect() as wire:
            self.assertEqual(wire.ask("set k 0 0 1\r\nx"), b"STORED\r\n")
        lengths = [*range(0, 40), 200, 1000, *range(2030, 2060), 4096]
        for spaces in lengths:
            for end in (b"\n", b"\r\n", b"\r"):
                for line in (b"get%sk", b"get k%sk", b"%sget k", b"gets%sk k", b"set%sk 0 0 1"):
                    answer = until_closed(self.server, line % (b" " * spaces) + end)
                    # A long get is answered as it comes, also where its line never ends.
                    if end == b"\r" and answer.startswith(b"VALUE "):
                        answer += b"END\r\n" * (not answer.endswith(b"END\r\n"))
                    self.assertRegex(answer, rb"(?s)\A((VALUE .*)?END\r\n|ERROR\r\n|"
                                             rb"(CLIENT|SERVER)_ERROR [^\r]*\r\n)*\Z")
                    # A whole line is answered; a set waits for its value.
                    if end != b"\r" and line[:3] != b"set":
                        self.assertTrue(answer, (line, spaces, end))
                    if end != b"\r" and 0 < spaces <= 1000 and line == b"get%sk":
                        self.assertEqual(answer, b"VALUE k 0 1\r\nx\r\nEND\r\n", spaces)

    def test_d4fd459d6_e8364b58b_af05c9302_empty_lines(self):
        for data in (b" " * 100 + b"\r\n", b" " * 100, b" " * 5000, b"\r\n" * 1000, b"\n" * 1000,
                     b"\r" * 3000, b"\0" * 3000, b"\xff" * 3000, b" \r\n" * 500):
            answer = until_closed(self.server, data)
            self.assertRegex(answer, rb"\A(ERROR\r\n|CLIENT_ERROR [ -~]+\r\n)*\Z", data[:20])
            if b"\n" in data:
                self.assertEqual(answer, b"ERROR\r\n" * data.count(b"\n"), data[:20])
            self.server.check_alive()

    def test_a_line_without_end_is_refused(self):
        for start in (b"a", b"set ", b" ", b"mg "):
            with self.server.connect() as wire:
                try:
                    wire.send(start + b"a" * 100000)
                except OSError:
                    pass
                # It may say why; then it closes.
                self.assertRegex(wire.rest(), rb"\A((CLIENT_|SERVER_)?ERROR[^\r]*\r\n)?\Z")

    def test_a_multiget_longer_than_a_megabyte_is_served(self):
        line = b"get" + b" key" * 600000 + b"\r\nmn\r\n"
        with self.server.connect() as wire:
            self.assertEqual(wire.ask("set key 0 0 1\r\nx"), b"STORED\r\n")
            want = b"VALUE key 0 1\r\nx\r\n" * 600000 + b"END\r\nMN\r\n"
            got = wire.exchange([line], len(want))
            self.assertEqual(len(got), len(want), got[:100])
            self.assertEqual(got == want, True)

    def test_32ea7d8b5_failed_sets_while_a_client_watches(self):
        with self.server.connect() as watcher, self.server.connect() as wire:
            watcher.send(b"watch mutations\r\n")
            if not IS_MEMCACHED:  # there is no watch yet, and that is said
                self.assertEqual(watcher.line(), b"CLIENT_ERROR watch commands not allowed\r\n")
            for request, answer in (
                    (b"set w 0 0 2000000\r\n" + b"v" * 2000000,
                     b"SERVER_ERROR object too large for cache\r\n"),
                    (b"set w 0 0 -1", b"CLIENT_ERROR bad command line format\r\n"),
                    (b"set w 0 0 1\r\nxy", b"CLIENT_ERROR bad data chunk\r\n"),
                    (b"replace none 0 0 1\r\nx", b"NOT_STORED\r\n"),
                    (b"cas none 0 0 1 5\r\nx", b"NOT_FOUND\r\n"),
                    (b"append none 0 0 1\r\nx", b"NOT_STORED\r\n")):
                wire.exchange([request + b"\r\n"], 0)
                self.assertEqual(wire.line(), answer, request[:40])
                self.in_sync(wire, 1)
            if not IS_MEMCACHED:
                self.assertEqual(watcher.ask("mn"), b"MN\r\n")

    def test_7eeac6e9a_streaming_replies_that_are_not_read(self):
        with self.server.connect() as wire:
            wire.ask("set big 0 0 500000\r\n" + "v" * 500000)
        for command in (b"stats", b"stats settings", b"stats conns", b"stats items", b"stats slabs",
                        b"stats sizes", b"stats detail dump", b"get big", b"mg big v",
                        b"stats cachedump 1 0", b"lru_crawler metadump all"):
            never_reads(self, self.server, (command + b"\r\n") * 2000)

    def test_93b5e10fd_and_152ddb68f_parse_errors_leak_nothing(self):
        errors = 1000000 if SOAK else 20000
        batch = (b"mg k O" + b"o" * 40 + b"\r\n") * 250 + (
            b"ms k 2 O" + b"o" * 40 + b"\r\nhi\r\n") * 250
        with self.server.connect() as wire:
            wire.send(b"ms k 2\r\nhi\r\n")
            self.in_sync(wire, 0)
            for count in range(1, errors // 500 + 1):
                wire.send(batch)
                self.in_sync(wire, count)
                if count == 4:
                    before = self.server.rss_kib()
        if not SANITIZER:
            self.assertLess(self.server.rss_kib() - before, 8 * 1024)

    def test_cve_2009_1255_no_addresses_in_any_output(self):
        with self.server.connect() as wire:
            self.assertEqual(wire.ask("stats maps"), b"ERROR\r\n")
        for sub in ("", "settings", "items", "slabs", "sizes", "conns"):
            for name, value in self.server.stats(sub).items():
                self.assertNotRegex(value, r"\b0x[0-9a-f]{6,}|\b[57][0-9a-f]{11}\b", name)

    def test_http_requests_close_the_connection(self):
        for line in (b"GET / HTTP/1.0\r\n\r\n", b"POST /x HTTP/1.1\r\nHost: h\r\n\r\n"):
            with self.server.connect() as wire:
                wire.send(line)
                self.assertTrue(wire.closed(), line)

    def test_sighup_does_not_stop_the_server(self):
        self.server.process.send_signal(signal.SIGHUP)
        self.server.check_alive()


def never_reads(test, server, requests, patience=0.3):
    """Sends as much as the server takes and never reads; others are served, memory stays bounded.

    The server must stop reading from such a client (then nothing more can be sent), or close.
    """
    before = server.rss_kib()
    with server.connect() as wire:
        view = memoryview(requests)
        while view:
            _, writable, _ = select.select([], [wire.socket], [], patience)
            if not writable:
                break
            try:
                view = view[wire.socket.send(view[:1 << 16], socket.MSG_DONTWAIT):]
            except BlockingIOError:
                continue
            except OSError:
                break
        server.check_alive()
        if not SANITIZER:
            test.assertLess(server.rss_kib() - before, 64 * 1024 + 16 * 1024)
    server.check_alive()


class CutOff(unittest.TestCase):
    """SIGTERM under load: what was answered was answered in full, and the server exits with 0."""

    VALUE = b"v" * 1000

    def answers(self, start, count):
        return b"".join(b"VA 1000 O%d kk\r\n%s\r\n" % (i, self.VALUE)
                        for i in range(start, start + count))

    def client(self, server, enough, failures):
        """Asks without end, fifty at a time; the last answers may be missing, but not be cut."""
        asked, count = 0, 50
        with server.connect() as wire:
            while True:
                try:
                    wire.send(b"".join(b"mg k O%d k v\r\n" % (asked + i) for i in range(count)))
                except OSError:
                    pass
                want = self.answers(asked, count)
                got = wire.read(len(want))
                if not want.startswith(got):
                    failures.append(f"an answer that nobody asked for: {got[-2000:]!r}")
                if len(got) < len(want):
                    # memcached does not promise that it stops between two replies.
                    if got and not IS_MEMCACHED and not got.endswith(self.VALUE + b"\r\n"):
                        failures.append(f"half a reply: {got[-1100:]!r}")
                    return
                asked += count
                if asked == 10 * count:
                    enough.release()

    def test_kill_term_under_load_exits_0_and_cuts_no_reply(self):
        with Server("-m", "64") as server:
            with server.connect() as wire:
                wire.ask("set k 0 0 1000\r\n" + self.VALUE.decode())
            enough, failures = threading.Semaphore(0), []
            threads = [threading.Thread(target=self.client, args=(server, enough, failures))
                       for _ in range(8)]
            for thread in threads:
                thread.start()
            for _ in threads:
                enough.acquire()
            code = server.stop()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(code, 0)


class Connections(unittest.TestCase):
    def test_a_connection_over_the_limit_gets_an_error(self):
        with Server("-c", "100") as server:
            wires, refused = [], None
            while refused is None and len(wires) < 110:
                wire = server.connect()
                try:
                    wire.send(b"mn\r\n")
                except OSError:
                    pass
                answer = wire.line()
                if answer == b"MN\r\n":
                    wires.append(wire)
                else:
                    refused = answer
                    self.assertTrue(wire.closed())
                    wire.close()
            self.assertEqual(refused, b"ERROR Too many open connections\r\n")
            # memcached sets descriptors for its threads aside.
            self.assertGreaterEqual(len(wires), 40 if IS_MEMCACHED else 95)
            self.assertLessEqual(len(wires), 100)
            stats = read_stats(wires[0])
            self.assertGreaterEqual(int(stats["rejected_connections"]), 1)
            self.assertEqual(stats["max_connections"], "100")
            for wire in wires:
                wire.close()
            self.settles(server)

    def settles(self, server):
        """When connections have closed, new ones are accepted, perhaps after a moment."""
        def welcome():
            with server.connect() as wire:
                try:
                    return wire.ask("mn") == b"MN\r\n"
                except OSError:
                    return False
        self.assertTrue(wait_for(welcome), "closed connections are still counted")

    def test_idle_timeout_closes_silent_connections(self):
        with Server("-o", "idle_timeout=1") as server, server.connect() as silent:
            self.assertEqual(silent.ask("mn"), b"MN\r\n")
            talking, spoke = server.connect(), time.monotonic()

            def closed():
                nonlocal talking, spoke
                # On a busy machine this client itself may have been silent for too long.
                late = time.monotonic() - spoke > 0.9
                try:
                    answer = talking.ask("mn")
                except OSError:
                    answer = b""
                if answer != b"MN\r\n" and (late or time.monotonic() - spoke > 0.9):
                    talking.close()
                    talking = server.connect()
                else:
                    self.assertEqual(answer, b"MN\r\n")
                spoke = time.monotonic()
                return bool(select.select([silent.socket], [], [], 0)[0]) and silent.closed()
            self.assertTrue(wait_for(closed))
            talking.close()
            server.check_alive()
            self.assertEqual(server.stats("settings")["idle_timeout"], "1")

    def test_10000_idle_connections_cost_4_kib_each_at_most(self):
        limit = raise_file_limit(10500)
        wanted = min(10000, limit - 300)
        with Server("-c", "12000", "-m", "64") as server:
            before = None
            wires = []
            try:
                for count in range(wanted):
                    wire = server.connect()
                    wires.append(wire)
                    wire.send(b"mn\r\n")
                    if count % 500 == 499:
                        for asked in wires[-500:]:
                            self.assertEqual(asked.line(), b"MN\r\n")
                    if count == 999:
                        before = server.rss_kib()  # after the first thousand, buffers are warm
                for asked in wires[wanted - wanted % 500:]:
                    self.assertEqual(asked.line(), b"MN\r\n")
                grown = server.rss_kib() - before
                if not SANITIZER:
                    self.assertLessEqual(grown / (wanted - 1000), 4, f"{grown} KiB")
                server.check_alive()
                for wire in wires[::97]:
                    self.assertEqual(wire.ask("mn"), b"MN\r\n")
            finally:
                for wire in wires:
                    wire.close()
            server.check_alive()

    def test_other_clients_are_served_beside_1000_slow_senders(self):
        request = b"set slow 0 0 20\r\n" + b"v" * 20 + b"\r\n"
        raise_file_limit(1500)
        with Server("-c", "2000") as server, server.connect() as normal:
            slow = [server.connect() for _ in range(1000)]
            for at in range(len(request) - 1):
                for wire in slow[at % 10::10]:  # a byte each now and then
                    wire.send(request[at // 10:at // 10 + 1])
                for _ in range(20):
                    self.assertEqual(normal.ask("set k 0 0 1\r\nx"), b"STORED\r\n")
                    self.assertEqual(normal.ask("get k", b"END\r\n"),
                                     b"VALUE k 0 1\r\nx\r\nEND\r\n")
            for wire in slow:
                wire.close()
            server.check_alive()

    def test_a_client_that_never_reads_a_million_gets_keeps_memory_bounded(self):
        with Server("-m", "64") as server:
            with server.connect() as wire:
                wire.ask("set k 0 0 1000\r\n" + "v" * 1000)
            for request in (b"get k\r\n", b"mg k v\r\n", frame("get", b"k")):
                never_reads(self, server, request * (1000000 if SOAK else 300000))

    def test_pipelining_clients_take_turns(self):
        with Server("-R", "1", "-t", "1") as server:
            wires = [server.connect() for _ in range(3)]
            for wire in wires:
                wire.send(b"get k\r\n" * 1000)
            for wire in wires:
                self.assertEqual(wire.read(5000), b"END\r\n" * 1000)
                wire.close()
            self.assertGreater(int(server.stats()["conn_yields"]), 0)


if __name__ == "__main__":
    unittest.main()
