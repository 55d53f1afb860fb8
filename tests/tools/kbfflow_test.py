#!/usr/bin/python3
"""kbfflow end to end: generated captures, bad ones, and real packets that tcpdump and kbfflow itself capture on
loopback from kbfcached, other servers and their clients. BUILD (default: build) holds the programs. The last line is
"N passed, M failed"."""

import json
import math
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import program
import summary
from program import PATIENCE_S

sys.path.insert(0, os.path.join(program.ROOT, "tests", "e2e"))
from server import Server  # pylint: disable=wrong-import-position


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen")
        time.sleep(0.01)


def tcp_packet(flags, source=40000, destination=80, swapped=False):
    """Ethernet, IPv4, TCP between 192.0.2.1 and 198.51.100.2."""
    addresses = [bytes((192, 0, 2, 1)), bytes((198, 51, 100, 2))]
    ports = [source, destination]
    if swapped:
        addresses.reverse()
        ports.reverse()
    tcp = struct.pack(">HHIIBBHHH", *ports, 1, 2, 0x50, flags, 65535, 0, 0)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + b"".join(addresses)
    return bytes(12) + b"\x08\x00" + ip + tcp


def pcap(packets, link=1, snap=None):
    head = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    return head + b"".join(struct.pack("<IIII", 1700000000 + second, 0, len(packet[:snap]), len(packet)) + packet[:snap]
                           for second, packet in enumerate(packets))


SYN, RST, FIN, ACK = 2, 4, 1, 16


class KbfflowTest(program.ProgramTest):
    NAME = "kbfflow"

    def read(self, *arguments, **options):
        """The reports and the summary."""
        done = self.run_program("read", "--json", *arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return self.parsed(done.stdout)

    def parsed(self, output):
        *reports, last = [json.loads(line) for line in output.decode().splitlines()]
        return reports, last


class Generated(KbfflowTest):
    FLOWS = 20000

    def setUp(self):
        super().setUp()
        self.trace = self.path("trace.pcap")
        done = self.run_program("generate", self.trace, "--flows", str(self.FLOWS), "--fin", "300", "--rst", "400", "--half-open",
                   "50", "--illegal", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.packets = int(done.stderr.split()[2])

    def test_both_engines_find_what_was_put_into_the_trace(self):
        expected = {"rst": 400, "fin": 300, "half-open": 50, "illegal": 20}
        for engine in ("kbf", "sbf"):
            for key in ("pair", "5-tuple"):
                reports, last = self.read(self.trace, "--engine", engine, "--key", key, "--verify", "--seed", "7",
                                          "--flows", str(self.FLOWS))
                self.assertEqual(last["packets"], self.packets)
                self.assertEqual(last["tcp"], self.packets)
                self.assertEqual(last["exact_reports"], expected)
                self.assertEqual(len(reports), sum(last["reports"].values()))
                self.assertEqual(len(reports) + last["missed"] - last["false_alarms"], sum(expected.values()))
                # 1e-3 false negatives and 1e-5 false positives are allowed; 20,000 and 770 times.
                self.assertLessEqual(last["missed"], 6)
                self.assertLessEqual(last["false_alarms"], 6)
                mean = 1e-3 * last["stored_lookups"]
                self.assertLessEqual(last["not_found"], mean + 5 * math.sqrt(10 * mean))
                self.assertEqual(last["absent_lookups"] + last["stored_lookups"], self.packets)

    def test_a_small_filter_errs_and_the_summary_says_so(self):
        reports, last = self.read(self.trace, "--engine", "sbf", "--false-positive", "0.1", "--verify", "--seed", "7",
                                  "--flows", "20k")
        self.assertGreater(last["not_found"], 100)
        self.assertGreater(last["false_positives"], 10)
        self.assertGreater(last["missed"], 0)
        self.assertLess(last["bytes"], last["exact_bytes"] / 5)

    def test_generations_keep_memory_and_forget_only_idle_flows(self):
        one = self.read(self.trace, "--verify", "--flows", "20k", "--quiet")[1]
        many = self.read(self.trace, "--verify", "--flows", "2k", "--quiet")[1]
        self.assertLess(many["bytes"], one["bytes"] / 4)
        self.assertLess(many["flows"], 4001)
        self.assertEqual(many["missed"], 0)

    def test_reports_and_summary_as_text(self):
        done = self.run_program("read", self.trace, "--verify", "--seed", "1")
        lines = done.stdout.decode().splitlines()
        reports = [line.split("\t") for line in lines if not line.startswith("#")]
        self.assertEqual({len(cells) for cells in reports}, {5})
        self.assertEqual({cells[1] for cells in reports}, {"rst", "fin", "half-open", "illegal"})
        times = [float(cells[0]) for cells in reports]
        self.assertEqual(times, sorted(times))
        self.assertIn("# reports: rst 400, fin 300, half-open 50, illegal 20", lines)
        self.assertIn("# reports missed: 0, false: 0", lines)

    def test_files_in_turn_standard_input_and_a_limit(self):
        with open(self.trace, "rb") as file:
            data = file.read()
        half = 24 + 70 * (self.packets // 2)
        parts = [self.path("one", data[:half]), self.path("two", data[:24] + data[half:])]
        whole = self.read("-", "--quiet", "--seed", "2", data=data)[1]
        self.assertEqual(self.read(*parts, "--quiet", "--seed", "2")[1], whole)
        self.assertEqual(self.read(self.trace, "--quiet", "--packets", "1k")[1]["packets"], 1000)
        self.assertEqual(self.read(self.trace, "--quiet", "--only", "src net 10.0.0.0/8")[1]["reports"]["half-open"], 50)

    def test_the_same_seed_makes_the_same_trace(self):
        def made(*arguments):
            return self.run_program("generate", "-", "--flows", "1k", "--fin", "9", "--rst", "9", *arguments).stdout
        self.assertEqual(made("--half-open", "5"), made("--half-open", "5"))
        self.assertNotEqual(made("--half-open", "5"), made("--half-open", "5", "--seed", "2"))


class Refused(KbfflowTest):
    TALK = [tcp_packet(SYN), tcp_packet(SYN | ACK, swapped=True), tcp_packet(ACK), tcp_packet(RST, swapped=True)]

    def test_bad_files_end_with_a_line_and_keep_what_was_read(self):
        whole = pcap(self.TALK + [tcp_packet(SYN, 1)])
        out = self.refuses("cannot read on in .*truncated.*before it were followed", "read", "--json",
                           self.path("cut", whole[:-5]))
        reports, last = self.parsed(out)
        self.assertEqual([report["kind"] for report in reports], ["rst"])
        self.assertEqual((last["packets"], last["complete"]), (4, False))
        self.refuses("cannot read .*/text: .*unknown file format", "read", self.path("text", b"this is no capture file\n" * 9))
        self.refuses("cannot read .*/empty: .*truncated", "read", self.path("empty", b""))
        self.refuses("cannot read .*link type is 105 .*Ethernet", "read", self.path("wifi", pcap(self.TALK, link=105)))
        self.refuses("cannot read .*/none: No such file", "read", self.path("none"))
        self.refuses("cannot read", "read", self.directory.name)
        self.refuses("cannot use the filter 'tcp port'", "read", self.path("good", whole), "--only", "tcp port")

    def test_packets_that_are_cut_too_short_are_counted(self):
        _, last = self.read(self.path("short", pcap(self.TALK, snap=40)))
        self.assertEqual((last["packets"], last["tcp"], last["cut_short"]), (4, 0, 4))
        _, last = self.read(self.path("enough", pcap(self.TALK, snap=48)))
        self.assertEqual((last["tcp"], last["reports"]["rst"]), (4, 1))

    def test_wrong_calls(self):
        trace = self.path("trace", pcap(self.TALK))
        self.refuses("file", "read")
        self.refuses("interface", "listen")
        self.refuses("--key", "read", trace, "--key", "ports")
        self.refuses("--engine", "read", trace, "--engine", "bloom")
        self.refuses("--flows", "read", trace, "--flows", "10")
        self.refuses("--false-positive", "read", trace, "--false-positive", "0")
        self.refuses("watch", "watch", trace)
        self.refuses("--fin, --rst", "generate", self.path("x"), "--flows", "100")
        self.refuses("cannot capture on .*nothere", "listen", "nothere0")
        self.refuses("cannot write .*No such file", "generate", self.path("no/such"))

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_full_disk_is_an_error(self):
        self.refuses("cannot write", "generate", "/dev/full", "--flows", "10k")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([self.program(), "read", self.path("t", pcap(self.TALK))], stdout=full,
                                  stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the result", done.stderr)

    def test_a_reader_that_goes_away_ends_the_program(self):
        trace = self.path("trace")
        self.assertEqual(self.run_program("generate", trace, "--flows", "10k").returncode, 0)
        with subprocess.Popen([self.program(), "read", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as flow:
            flow.stdout.readline()
            flow.stdout.close()
            self.assertEqual(flow.wait(PATIENCE_S), 1)
            self.assertIn(b"cannot write the result", flow.stderr.read())


def why_no_capture():
    """Empty where packets on loopback can be captured here."""
    if shutil.which("tcpdump") is None:
        return "there is no tcpdump"
    with subprocess.Popen(["tcpdump", "-i", "lo", "-w", "-"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as probe:
        line = probe.stderr.readline().decode(errors="replace").strip()
        probe.send_signal(signal.SIGINT)
        probe.communicate(timeout=PATIENCE_S)
    return "" if "listening on" in line else f"tcpdump cannot capture on loopback: {line}"


NO_CAPTURE = why_no_capture()


@unittest.skipIf(NO_CAPTURE, NO_CAPTURE)
class Loopback(KbfflowTest):
    """Real servers and clients: kbfcached answers; others reset, never finish, or do not answer at all."""
    GOOD, RESET, REFUSED, HALF_CLOSED = 20, 7, 3, 4

    def setUp(self):
        super().setUp()
        self.sockets = []
        self.addCleanup(lambda: [one.close() for one in self.sockets])
        server = Server("-m", "64")
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        self.ports = {"server": server.port, "refused": self.listener(None), "silent": self.listener(0),
                      "patient": self.listener(100)}

    def stop(self, process):
        process.kill()
        process.communicate(timeout=PATIENCE_S)

    def listener(self, backlog):
        """Its port; nobody listens where the backlog is None."""
        listener = socket.socket()
        self.sockets.append(listener)
        listener.bind(("127.0.0.1", 0))
        if backlog is not None:
            listener.listen(backlog)
        return listener.getsockname()[1]

    def filter(self):
        return " or ".join(f"tcp port {port}" for port in self.ports.values())

    def client(self, name):
        client = socket.create_connection(("127.0.0.1", self.ports[name]), timeout=PATIENCE_S)
        self.sockets.append(client)
        return client

    def talk(self, client):
        client.sendall(b"set key 0 0 5\r\nvalue\r\nget key\r\n")
        answer = b""
        while not answer.endswith(b"END\r\n"):
            answer += client.recv(4096)
        self.assertEqual(answer, b"STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n")

    def make_traffic(self):
        """Returns how many reports of each kind it is worth."""
        for _ in range(self.GOOD):
            client = self.client("server")
            self.talk(client)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
            client.close()
        for _ in range(self.RESET):
            client = self.client("server")
            self.talk(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        for _ in range(self.REFUSED):
            with self.assertRaises(ConnectionRefusedError):
                self.client("refused")
        for _ in range(self.HALF_CLOSED):
            self.client("patient").shutdown(socket.SHUT_WR)
        # The queue of a listener that never accepts takes one connection; Linux drops the other SYNs.
        self.client("silent")
        unanswered = 0
        for _ in range(4):
            client = socket.socket()
            self.sockets.append(client)
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", self.ports["silent"]))
            _, writable, _ = select.select([], [client], [], 0.3)
            unanswered += not writable
        return {"rst": self.RESET + self.REFUSED, "fin": self.HALF_CLOSED, "half-open": unanswered, "illegal": 0}

    def capture(self):
        """A file of what tcpdump saw of the traffic, and what is in it."""
        path = self.path("lo.pcap")
        with open(path, "wb") as file:
            tcpdump = subprocess.Popen(["tcpdump", "-i", "lo", "-U", "-s", "128", "-w", "-", self.filter()], stdout=file,
                                       stderr=subprocess.PIPE)
            self.addCleanup(self.stop, tcpdump)
            self.assertIn(b"listening on", tcpdump.stderr.readline())
            expected = self.make_traffic()
            # A last connection whose packets come after all others.
            mark = self.client("server")
            self.talk(mark)
            port = mark.getsockname()[1]
            wait_for("the last packet in the capture", lambda: self.holds_port(path, port))
            tcpdump.send_signal(signal.SIGINT)
            _, said = tcpdump.communicate(timeout=PATIENCE_S)
        self.assertIn(b"\n0 packets dropped by kernel", said)
        return path, expected

    def holds_port(self, path, port):
        done = self.run_program("read", "--quiet", "--json", "--only", f"tcp src port {port} and tcp[tcpflags] & tcp-push != 0", path)
        return done.returncode == 0 and self.parsed(done.stdout)[1]["packets"] > 0

    def test_a_capture_of_tcpdump(self):
        path, expected = self.capture()
        self.assertGreater(expected["half-open"], 0)
        for engine in ("kbf", "sbf"):
            reports, last = self.read(path, "--key", "5-tuple", "--engine", engine, "--verify", "--flows", "10k")
            self.assertEqual(last["exact_reports"], expected, reports)
            self.assertEqual(last["reports"], expected)
            self.assertEqual((last["missed"], last["false_alarms"]), (0, 0))
            self.assertEqual(last["tcp"], last["packets"])
            silent = {report["to"] for report in reports if report["kind"] == "half-open"}
            self.assertEqual(silent, {f"127.0.0.1:{self.ports['silent']}"})
            self.assertTrue(all(report["from"].startswith("127.0.0.1:") for report in reports))
        # All of it is one pair of hosts.
        self.assertLessEqual(self.read(path, "--quiet", "--flows", "10k")[1]["flows"], 1)

    def test_listening_reports_while_it_runs(self):
        path = self.path("reports")
        with open(path, "wb") as out:
            flow = subprocess.Popen([self.program(), "listen", "lo", "--key", "5-tuple", "--json", "--timeout", "0.5", "--flows",
                                     "10k", "--only", self.filter(), "--verify"], stdout=out, stderr=subprocess.PIPE)
        self.addCleanup(self.stop, flow)
        self.assertIn(b"listening on lo", flow.stderr.readline())
        expected = self.make_traffic()

        def lines():
            with open(path, "rb") as out:
                return [json.loads(line) for line in out if line.endswith(b"\n")]

        wait_for("a report of each kind", lambda: {line["kind"] for line in lines()} == {"rst", "fin", "half-open"})
        self.assertIsNone(flow.poll())
        flow.send_signal(signal.SIGINT)
        self.assertEqual((flow.wait(PATIENCE_S), flow.stderr.read()), (0, b""))
        *reports, last = lines()
        # SYNs are sent again each second, so each may be reported more than once with this timeout.
        kinds = [report["kind"] for report in reports]
        self.assertEqual(kinds.count("rst"), expected["rst"])
        self.assertEqual(kinds.count("fin"), expected["fin"])
        self.assertGreaterEqual(kinds.count("half-open"), expected["half-open"])
        self.assertEqual(last["missed"] + last["false_alarms"], 0)


if __name__ == "__main__":
    summary.main()
