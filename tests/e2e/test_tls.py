"""TLS: handshakes, certificates, reloading, memory, and real clients over it."""

import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest

from certificates import Certificates, TlsWire, client_hello
from server import (IS_MEMCACHED, MEMCACHED, PATIENCE_S, SANITIZER, Server, Wire, free_port,
                    raise_file_limit, read_stats, run_once, wait_for)
from test_stats import NEWER

AS_USER = ("-u", "root") if os.geteuid() == 0 else ()
MEGABYTE = 1 << 20
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3

# memcached closes connections whose handshake is refused only sometimes, and takes what a broken
# certificate leaves behind; those tests are for kbfcached.
ours = unittest.skipIf(IS_MEMCACHED, "kbfcached's own")


class WithTls(unittest.TestCase):
    """self.certificates, and servers that use them beside a plain port on the same machine."""

    def setUp(self):
        self.certificates = self.enterContext(Certificates())

    def start(self, *options, words=()):
        """A server with TLS on `server.tls` and a plain listener where Server looks for it."""
        for _ in range(5):
            port = free_port()
            plain = free_port()
            server = Server(*self.certificates.server_words(*options), "-p", port,
                            "-l", f"127.0.0.1,notls:127.0.0.1:{plain}", *words, listen=None)
            server.address = ("127.0.0.1", plain)
            server.tls = ("127.0.0.1", port)
            try:
                return self.enterContext(server)
            except AssertionError:
                continue  # somebody else took a port
        self.fail("the server does not start")

    def connect(self, server, **context):
        return self.enterContext(TlsWire(server.tls, self.certificates.context(**context)))

    def works(self, wire):
        return (wire.ask("set works 0 0 2\r\nok") == b"STORED\r\n"
                and wire.ask("get works", b"END\r\n") == b"VALUE works 0 2\r\nok\r\nEND\r\n")


class Handshakes(WithTls):
    def test_tls_1_2_and_1_3_are_spoken_and_older_ones_are_not(self):
        server = self.start()
        for version, name in ((V12, "TLSv1.2"), (V13, "TLSv1.3")):
            wire = self.connect(server, version=version)
            self.assertEqual(wire.socket.version(), name)
            self.assertTrue(self.works(wire))
        old = self.certificates.context()
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            TlsWire(server.tls, old)
        server.check_alive()

    def test_min_version_3_is_tls_1_3_only(self):
        server = self.start("ssl_min_version=3")
        self.assertTrue(self.works(self.connect(server, version=V13)))
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.connect(server, version=V12)

    def test_ciphers_are_those_that_were_asked_for(self):
        server = self.start("ssl_ciphers=ECDHE-ECDSA-AES256-GCM-SHA384")
        wire = self.connect(server, version=V12)
        self.assertEqual(wire.socket.cipher()[0], "ECDHE-ECDSA-AES256-GCM-SHA384")

    def test_plain_text_on_a_tls_port_is_closed_without_an_answer(self):
        server = self.start()
        for data in (b"get a\r\n", b"version\r\n" * 100, b"GET / HTTP/1.0\r\n\r\n", b"\r\n" * 10,
                     b"\x80\x0b" + bytes(22)):
            with Wire(server.tls) as wire:
                wire.send(data)
                answer = wire.rest()
                # At most a TLS alert, which begins with 0x15.
                self.assertTrue(len(answer) <= 7 and answer[:1] in (b"", b"\x15"), answer)
        server.check_alive()

    def test_tls_on_a_plain_port_is_no_command(self):
        server = self.start()
        with self.assertRaises((ssl.SSLError, ConnectionError, TimeoutError)):
            TlsWire(server.address, self.certificates.context(), timeout=2)
        server.check_alive()

    def test_a_key_may_stand_in_the_file_of_the_certificates(self):
        if IS_MEMCACHED:
            self.skipTest("its help says so, but it does not")
        both = b""
        for kind in ("crt", "key"):
            with open(self.certificates.path(f"server.{kind}"), "rb") as file:
                both += file.read()
        self.certificates.write("both.pem", both)
        port = free_port()
        with Server("-Z", "-o", f"ssl_chain_cert={self.certificates.path('both.pem')}", "-p", port,
                    "-l", "127.0.0.1", listen=None) as server:
            server.tls = ("127.0.0.1", port)
            self.assertTrue(wait_for(lambda: self.accepts(server)))
            self.assertTrue(self.works(self.connect(server)))

    def accepts(self, server):
        try:
            Wire(server.tls).close()
            return True
        except OSError:
            return False

    @ours
    def test_a_handshake_that_stalls_is_closed(self):
        server = self.start("idle_timeout=1")
        hello = client_hello(self.certificates.context())
        for sent in (hello[:3], hello[:100], hello):
            with Wire(server.tls) as wire:
                wire.send(sent)
                wire.rest()  # fails when the server does not close within the patience of a test
        server.check_alive()

    @ours
    def test_a_trickle_does_not_keep_a_handshake_open(self):
        server = self.start("idle_timeout=2")
        hello = client_hello(self.certificates.context())
        with Wire(server.tls, timeout=0.2) as wire:
            closed = False
            for byte in hello[:100]:  # at this pace for 20 seconds
                try:
                    wire.send(bytes([byte]))
                    closed = not wire.fill()
                except AssertionError:
                    continue
                except OSError:
                    closed = True
                if closed:
                    break
            self.assertTrue(closed)

    def test_who_connects_and_leaves_is_no_handshake_error(self):
        server = self.start()
        before = int(server.stats()["ssl_handshake_errors"])
        for _ in range(20):
            Wire(server.tls).close()
        with Wire(server.tls) as wire:
            wire.send(b"get a\r\n")
            wire.rest()
        self.assertTrue(wait_for(
            lambda: int(server.stats()["ssl_handshake_errors"]) > before) or IS_MEMCACHED)
        if not IS_MEMCACHED:
            self.assertEqual(int(server.stats()["ssl_handshake_errors"]), before + 1)


class ClientCertificates(WithTls):
    def setUp(self):
        super().setUp()
        for name, issuer in (("authority", None), ("other", None), ("known", "authority"),
                             ("unknown", "other")):
            self.certificates.make(name, issuer)

    def is_served(self, server, client, version):
        try:
            return self.works(self.connect(server, client=client, version=version))
        except (ssl.SSLError, ConnectionError):
            return False

    def test_verify_mode_2_serves_only_clients_with_a_certificate_of_the_authority(self):
        authority = f"ssl_ca_cert={self.certificates.path('authority.crt')}"
        for mode, served in ((0, (True, True, True)), (1, (True, False, True)),
                             (2, (False, False, True)), (3, (False, False, True))):
            server = self.start(f"ssl_verify_mode={mode}", authority)
            for client, expected in zip((None, "unknown", "known"), served):
                for version in (V12, V13):
                    with self.subTest(mode=mode, client=client, version=version.name):
                        self.assertEqual(self.is_served(server, client, version), expected)
            server.check_alive()
            server.stop()

    @ours
    def test_a_reload_takes_an_authority_away(self):
        server = self.start("ssl_verify_mode=2",
                            f"ssl_ca_cert={self.certificates.path('authority.crt')}")
        stays = self.connect(server, client="known")
        with open(self.certificates.path("other.crt"), "rb") as file:
            self.certificates.write("authority.crt", file.read())
        with server.connect() as wire:
            self.assertEqual(wire.ask("refresh_certs"), b"OK\r\n")
        self.assertFalse(self.is_served(server, "known", V13))
        self.assertTrue(self.is_served(server, "unknown", V13))
        self.assertTrue(self.works(stays))


class Data(WithTls):
    def test_large_values_and_long_pipelines(self):
        server = self.start(words=("-m", "128"))
        for version in (V12, V13):
            wire = self.connect(server, version=version)
            for size in (0, 1, 1000, 16384, 16385, 100_000, MEGABYTE - 1000):
                value = bytes([size % 251]) * size
                wire.send(b"set big 0 0 %d\r\n%s\r\n" % (size, value))
                self.assertEqual(wire.line(), b"STORED\r\n")
                wire.send(b"get big\r\n")
                self.assertEqual(wire.until(b"END\r\n"),
                                 b"VALUE big 0 %d\r\n%s\r\nEND\r\n" % (size, value))
            # Fewer requests than would fill all buffers on the way: this client sends, then reads.
            count = 2000
            wire.send(b"".join(b"set p%d 0 0 5\r\n%05d\r\n" % (i, i) for i in range(count)))
            self.assertEqual(wire.read(8 * count), b"STORED\r\n" * count)
            wire.send(b"".join(b"get p%d\r\n" % i for i in range(count)))
            expected = b"".join(b"VALUE p%d 0 5\r\n%05d\r\nEND\r\n" % (i, i) for i in range(count))
            self.assertEqual(wire.read(len(expected)), expected)

    def test_requests_in_many_small_records_are_answered_at_once(self):
        server = self.start()
        wire = self.connect(server)
        # The whole burst goes out before anything is read.
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        plain = self.enterContext(Wire(server.tls))
        client = self.certificates.context().wrap_bio(incoming, outgoing,
                                                      server_hostname="localhost")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.send(outgoing.read())
                incoming.write(plain.socket.recv(65536))
        for byte in b"".join(b"mn\r\n" for _ in range(500)):
            client.write(bytes([byte]))
        plain.send(outgoing.read())
        answers = b""
        while len(answers) < 4 * 500:
            try:
                answers += client.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(plain.socket.recv(65536))
        self.assertEqual(answers, b"MN\r\n" * 500)
        self.assertTrue(self.works(wire))

    def test_binary_over_tls(self):
        from binary import frame, read_frame
        wire = self.connect(self.start())
        wire.send(frame("set", b"k", bytes(8), b"value") + frame("get", b"k"))
        self.assertEqual(read_frame(wire)["status"], 0)
        self.assertEqual(read_frame(wire)["value"], b"value")

    def test_replies_behind_quit_arrive_and_the_end_is_announced(self):
        server = self.start()
        wire = self.connect(server)
        wire.send(b"set q 0 0 1\r\nx\r\nget q\r\nquit\r\nget q\r\n")
        # recv would raise where the server closes without close_notify.
        if not IS_MEMCACHED:
            self.assertEqual(wire.rest(), b"STORED\r\nVALUE q 0 1\r\nx\r\nEND\r\n")

    @ours
    def test_a_server_that_stops_answers_first_and_announces_the_end(self):
        server = self.start()
        wire = self.connect(server)
        self.assertTrue(self.works(wire))
        wire.send(b"get works\r\n")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(wire.rest(), b"VALUE works 0 2\r\nok\r\nEND\r\n")
        wire.close()

    @ours
    def test_an_end_that_the_client_announces_is_answered(self):
        wire = self.connect(self.start())
        self.assertTrue(self.works(wire))
        wire.socket.unwrap()  # waits for the server's close_notify


class Reloading(WithTls):
    def setUp(self):
        super().setUp()
        for name in ("one", "two", "stranger"):
            self.certificates.make(name)
        self.certificates.replace("server", "one")

    def name_for_new(self, server):
        with TlsWire(server.tls, self.certificates.context(trust=None)) as wire:
            return wire.peer_name()

    def test_refresh_certs_is_for_new_connections(self):
        server = self.start()
        old = self.connect(server, trust=None)
        self.assertEqual(old.peer_name(), "one")
        self.certificates.replace("server", "two")
        self.assertEqual(old.ask("refresh_certs"), b"OK\r\n")
        self.assertEqual(self.name_for_new(server), "two")
        self.assertTrue(self.works(old))
        self.assertLess(int(server.stats()["time_since_server_cert_refresh"]), PATIENCE_S)

    @ours
    def test_sighup_reloads_too(self):
        server = self.start()
        self.certificates.replace("server", "two")
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_for(lambda: self.name_for_new(server) == "two"))

    def test_files_that_cannot_be_used_are_named_and_the_old_ones_stay(self):
        server = self.start()
        with server.connect() as wire:
            self.certificates.write("server.crt", b"garbage\n")
            self.assertRegex(wire.ask("refresh_certs"),
                             rb"^Error loading the certificate chain: .*server\.crt : .+\r\n$")
            self.certificates.replace("server", "one")
            with open(self.certificates.path("stranger.key"), "rb") as file:
                self.certificates.write("server.key", file.read())
            self.assertRegex(wire.ask("refresh_certs"),
                             rb"^Error loading the key: .*server\.key : .+\r\n$")
            self.assertEqual(wire.ask("mn"), b"MN\r\n")
        self.assertEqual(self.name_for_new(server), "one")
        if not IS_MEMCACHED:
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(wait_for(
                lambda: "the certificates stay as they were" in server.stderr()))
            self.assertEqual(self.name_for_new(server), "one")

    def test_without_tls_there_is_nothing_to_refresh(self):
        with Server() as server, server.connect() as wire:
            self.assertEqual(wire.ask("refresh_certs"), b"Error TLS not enabled\r\n")

    @ours
    def test_certificates_change_under_load_and_no_connection_is_dropped(self):
        server = self.start()
        faults = []
        done = threading.Event()
        rounds = [0] * 6

        def work(number):
            try:
                wire = TlsWire(server.tls, self.certificates.context(trust=None))
                with wire:
                    while not done.is_set():
                        key = f"w{number}"
                        if wire.ask(f"set {key} 0 0 3\r\nabc") != b"STORED\r\n":
                            faults.append("set")
                        if wire.ask(f"get {key}", b"END\r\n") != (
                                f"VALUE {key} 0 3\r\nabc\r\nEND\r\n".encode()):
                            faults.append("get")
                        rounds[number] += 1
                        if rounds[number] % 10 == 0:  # a new one now and then as well
                            with TlsWire(server.tls,
                                         self.certificates.context(trust=None)) as other:
                                if other.ask("mn") != b"MN\r\n":
                                    faults.append("mn")
            except Exception as error:
                faults.append(repr(error))

        workers = [threading.Thread(target=work, args=(i,)) for i in range(len(rounds))]
        for worker in workers:
            worker.start()
        try:
            with server.connect() as wire:
                for i in range(20):
                    self.certificates.replace("server", ("two", "one")[i % 2])
                    self.assertEqual(wire.ask("refresh_certs"), b"OK\r\n")
                    before = list(rounds)
                    self.assertTrue(wait_for(
                        lambda: faults or all(a > b for a, b in zip(rounds, before))))
                    if i % 5 == 0:
                        server.process.send_signal(signal.SIGHUP)
            self.assertEqual(self.name_for_new(server), "one")
        finally:
            done.set()
            for worker in workers:
                worker.join()
        self.assertEqual(faults, [])

    def test_sessions_are_resumed_only_with_a_cache(self):
        for options, expected in ((("ssl_session_cache",), True), ((), False)):
            server = self.start(*options)
            context = self.certificates.context(trust=None, version=V12)
            with TlsWire(server.tls, context) as first:
                self.assertTrue(self.works(first))
                session = first.socket.session
            with TlsWire(server.tls, context, session=session) as again:
                self.assertTrue(self.works(again))
                if expected or not IS_MEMCACHED:  # memcached gives tickets in any case
                    self.assertEqual(again.socket.session_reused, expected)
            self.assertEqual("ssl_new_sessions" in server.stats(), expected)
            server.stop()


class Starting(WithTls):
    def refused(self, *words):
        code, text = run_once(*AS_USER, "-l", "127.0.0.1", "-p", free_port(), *words)
        self.assertNotEqual(code, 0, text)
        return text

    @ours
    def test_files_that_cannot_be_used_are_one_clear_line(self):
        self.certificates.make("other")
        path = self.certificates.path
        self.certificates.write("garbage", b"garbage\n")
        for options, words in (
                ((), "ssl_chain_cert"),
                (("-o", f"ssl_chain_cert={path('none')}"), "No such file"),
                (("-o", f"ssl_chain_cert={path('garbage')}"), path("garbage")),
                (("-o", f"ssl_chain_cert={path('server.crt')},ssl_key={path('none')}"),
                 "No such file"),
                (("-o", f"ssl_chain_cert={path('server.crt')},ssl_key={path('other.key')}"),
                 "mismatch"),
                ((*self.certificates.server_words(f"ssl_ca_cert={path('none')}")[1:],),
                 "CA certificate"),
                ((*self.certificates.server_words("ssl_ciphers=none")[1:],), "cipher")):
            with self.subTest(options=options):
                text = self.refused("-Z", *options)
                self.assertEqual(len(text.strip().splitlines()), 1, text)
                self.assertIn(words, text)

    @ours
    def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(self):
        self.certificates.openssl("pkey", "-in", self.certificates.path("server.key"), "-aes256",
                                  "-passout", "pass:secret",
                                  "-out", self.certificates.path("locked.key"))
        self.certificates.write("server.key", open(
            self.certificates.path("locked.key"), "rb").read())
        text = self.refused(*self.certificates.server_words())
        self.assertIn("Error loading the key", text)

    def test_settings_and_statistics_have_memcached_s_names_in_its_order(self):
        if IS_MEMCACHED:
            self.skipTest("it is the other side of this test")
        expected = Server(binary=MEMCACHED)
        options = ("ssl_session_cache", "ssl_verify_mode=1",
                   f"ssl_ca_cert={self.certificates.path('server.crt')}")
        port, plain = free_port(), free_port()
        expected = Server(*self.certificates.server_words(*options), "-p", port, "-l",
                          f"127.0.0.1,notls:127.0.0.1:{plain}", listen=None, binary=MEMCACHED)
        expected.address = ("127.0.0.1", plain)
        server = self.start(*options)

        def about_tls(stats):
            return {k: v for k, v in stats.items() if k.startswith(("ssl_", "auth_"))}

        with expected:
            self.assertEqual(list(about_tls(server.stats("settings")).items()),
                             list(about_tls(expected.stats("settings")).items()))
            self.assertEqual([k for k in server.stats() if k not in NEWER[""]],
                             [k for k in expected.stats()])


@ours
class Memory(WithTls):
    def counted(self, server):
        return int(server.stats("kbf")["connection_bytes"])

    def test_an_idle_connection_takes_at_most_what_the_documentation_says(self):
        server = self.start()
        self.connect(server)
        for version in (V12, V13):
            before = self.counted(server)
            wires = [self.connect(server, version=version) for _ in range(20)]
            for wire in wires:
                self.assertTrue(self.works(wire))
            # The last reply may still be on its way out of the turn that counts it.
            self.assertTrue(wait_for(
                lambda: 0 < self.counted(server) - before <= 20 * (16 << 10)))
            for wire in wires:
                wire.close()
            self.assertTrue(wait_for(lambda: self.counted(server) <= before))

    def test_clients_that_say_nothing_take_no_memory(self):
        server = self.start()
        before = self.counted(server)
        wires = [self.enterContext(Wire(server.tls)) for _ in range(50)]
        self.assertTrue(wait_for(lambda: int(server.stats()["curr_connections"]) > len(wires)))
        self.assertEqual(self.counted(server), before)

    def held_within(self, server, limit_mb, attackers):
        """Clients that are idle or served keep their connections, and memory stays within the limit."""
        good = self.connect(server)
        idle = self.connect(server)
        for _ in range(20):
            self.assertTrue(self.works(good))
        self.assertTrue(wait_for(lambda: self.counted(server) <= limit_mb * MEGABYTE))
        self.assertGreater(int(server.stats("kbf")["connections_shed"]), 0)
        self.assertTrue(self.works(good))
        self.assertTrue(self.works(idle))
        self.assertGreater(len(attackers), 0)

    def test_half_handshakes_stay_within_the_limit(self):
        count = 400
        raise_file_limit(2 * count)
        server = self.start("read_buf_mem_limit=4", words=("-m", "64", "-I", "512k"))
        hello = client_hello(self.certificates.context())
        attackers = []
        for _ in range(count):
            wire = self.enterContext(Wire(server.tls))
            wire.send(hello)
            attackers.append(wire)
        self.held_within(server, 4, attackers)

    def test_slow_readers_stay_within_the_limit(self):
        server = self.start("read_buf_mem_limit=4", words=("-m", "64", "-I", "512k"))
        with server.connect() as wire:
            for i in range(20):
                self.assertEqual(wire.ask(f"set v{i} 0 0 3000\r\n" + "x" * 3000), b"STORED\r\n")
        attackers = []
        line = b"get " + b" ".join(b"v%d" % (i % 20) for i in range(100)) + b"\r\n"
        for _ in range(120):
            wire = self.enterContext(TlsWire(server.tls, self.certificates.context(),
                                             receive_buffer=4096))
            wire.socket.settimeout(0.05)
            try:
                wire.send(line * 20)
            except (OSError, ssl.SSLError):
                pass
            attackers.append(wire)
        self.held_within(server, 4, attackers)


class Clients(WithTls):
    def test_pymemcache(self):
        from pymemcache.client.base import Client
        server = self.start()
        client = Client(server.tls, tls_context=self.certificates.context(), timeout=PATIENCE_S)
        client.server = ("localhost", server.tls[1])
        client.set("key", b"value")
        self.assertEqual(client.get("key"), b"value")
        client.set_many({f"k{i}": b"x" * 1000 for i in range(500)})
        self.assertEqual(len(client.get_many([f"k{i}" for i in range(500)])), 500)
        client.set("big", b"b" * 1_000_000)
        self.assertEqual(client.get("big"), b"b" * 1_000_000)
        client.close()

    def test_openssl_s_client(self):
        server = self.start()
        for version in ("-tls1_2", "-tls1_3"):
            done = subprocess.run(
                ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.tls[1], version,
                 "-CAfile", self.certificates.path("server.crt"), "-verify_return_error", "-quiet",
                 "-ign_eof"],
                input=b"set s 0 0 3\r\nabc\r\nget s\r\nquit\r\n", stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, timeout=PATIENCE_S)
            self.assertEqual(done.stdout, b"STORED\r\nVALUE s 0 3\r\nabc\r\nEND\r\n", done.stderr)

    def test_openssl_s_client_is_refused_a_renegotiation(self):
        server = self.start()
        process = subprocess.Popen(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.tls[1], "-tls1_2"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.stdin.write(b"mn\r\n")
        process.stdin.flush()
        while process.stdout.readline() not in (b"MN\r\n", b""):
            pass
        output = process.communicate(b"R\n", timeout=PATIENCE_S)[0]  # "R" alone asks for one
        self.assertIn(b"RENEGOTIATING", output)
        self.assertIn(b"no renegotiation", output)
        server.check_alive()


if __name__ == "__main__":
    unittest.main()
