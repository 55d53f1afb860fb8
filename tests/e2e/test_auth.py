"""Authentication: passwords in text (-Y) and SASL PLAIN on the binary wire (-S)."""

import os
import signal
import tempfile
import unittest

from binary import OPCODES, frame, read_frame
from certificates import Certificates, TlsWire
from server import (IS_MEMCACHED, MEMCACHED, PATIENCE_S, Server, Wire, free_port, read_stats,
                    run_once, wait_for)

AS_USER = ("-u", "root") if os.geteuid() == 0 else ()
NO = b"CLIENT_ERROR unauthenticated\r\n"
WRONG = b"CLIENT_ERROR authentication failure\r\n"

# memcached checks SASL with libsasl2 and its files, so that part is kbfcached's own.
ours = unittest.skipIf(IS_MEMCACHED, "kbfcached's own")


def login(user=b"user", password=b"pass", line=b"set k 0 0 %d\r\n"):
    token = user + b" " + password
    return line % len(token) + token + b"\r\n"


def plain(user, password):
    return b"\0" + user + b"\0" + password


class WithUsers(unittest.TestCase):
    def setUp(self):
        directory = self.enterContext(tempfile.TemporaryDirectory(prefix="kbf-auth-"))
        self.path = os.path.join(directory, "users")
        self.write(b"user:pass\nother:pass word\n")

    def write(self, data):
        temporary = self.path + ".new"
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
        os.rename(temporary, self.path)

    def start(self, *words):
        return self.enterContext(Server("-Y", self.path, *words))

    def say(self, server, data):
        """Everything that is answered on a connection of its own, to its end."""
        with server.connect() as wire:
            wire.send(data)
            wire.socket.shutdown(1)
            return wire.rest()

    def authenticated(self, server):
        wire = self.enterContext(server.connect())
        wire.send(login())
        self.assertEqual(wire.line(), b"STORED\r\n")
        return wire

    def check_alive(self, server):
        with server.connect() as wire:
            wire.send(login() + b"mn\r\n")
            self.assertEqual(wire.until(b"MN\r\n"), b"STORED\r\nMN\r\n")

    def sasl(self, server, mechanism, message, opcode="sasl_auth"):
        with server.connect() as wire:
            wire.send(frame(opcode, mechanism, value=message))
            answer = read_frame(wire)
            return answer["status"], answer["value"]


class Text(WithUsers):
    def test_a_set_with_user_and_password_opens_everything(self):
        server = self.start()
        for line in (b"set k 0 0 %d\r\n", b"set k b c %d\r\n", b"set k 0 0 %d noreply\r\n",
                     b"set k 0 0 %d\n", b"  set k 0 0 %d x y\r\n",
                     b"set " + b"k" * 300 + b" 0 0 %d\r\n"):
            with self.subTest(line=line), server.connect() as wire:
                wire.send(login(line=line))
                self.assertEqual(wire.line(), b"STORED\r\n")
                # From here on a set is a set.
                wire.send(login())
                self.assertEqual(wire.line(), b"STORED\r\n")
                self.assertEqual(wire.ask("get k", b"END\r\n"),
                                 b"VALUE k 0 9\r\nuser pass\r\nEND\r\n")

    def test_a_password_may_have_spaces(self):
        if IS_MEMCACHED:
            self.skipTest("1.6.18 takes one word")
        server = self.start()
        self.assertEqual(self.say(server, login(b"other", b"pass word")), b"STORED\r\n")
        self.assertEqual(self.say(server, login(b"other", b"pass")), WRONG)

    def test_wrong_credentials_are_refused(self):
        server = self.start()
        for user, password in ((b"user", b"passx"), (b"user", b"pas"), (b"use", b"pass"),
                               (b"userx", b"pass"), (b"other", b"pass"), (b"user", b"pass word"),
                               (b"x" * 300, b"pass"), (b"user", b"x" * 300), (b"", b"pass"),
                               (b"user", b"\0"), (b"USER", b"pass")):
            if IS_MEMCACHED and b" " in password:
                continue
            with self.subTest(user=user, password=password):
                self.assertIn(self.say(server, login(user, password) + b"get k\r\n"),
                              (WRONG + NO, WRONG, NO, b"CLIENT_ERROR bad authentication token "
                               b"format\r\n"))
        self.check_alive(server)

    @ours
    def test_nothing_is_carried_out_before(self):
        server = self.start("-A")
        with self.authenticated(server) as wire:
            self.assertEqual(wire.ask("set kept 0 0 1\r\nx"), b"STORED\r\n")
        commands = (b"get kept", b"gets kept", b"gat 0 kept", b"mg kept v", b"ms kept 1\r\ny",
                    b"md kept", b"ma kept", b"me kept", b"mn", b"add new 0 0 9\r\nuser pass",
                    b"append kept 0 0 1\r\ny", b"cas kept 0 0 1 1\r\ny", b"incr kept 1",
                    b"delete kept", b"touch kept 1", b"flush_all", b"version", b"verbosity 3",
                    b"stats", b"stats conns", b"quit", b"shutdown", b"refresh_certs",
                    b"cache_memlimit 8", b"lru_crawler metadump all", b"watch", b"", b"   ", b" ",
                    b"\t", b"\0", b"GET / HTTP/1.0", b"get " + b"k " * 900)
        for command in commands:
            with self.subTest(command=command):
                answer = self.say(server, command + b"\r\n")
                self.assertEqual(answer, NO * (1 + command.count(b"\r\n")))
        self.assertEqual(self.say(server, b"\r\n".join(commands) + b"\r\n"),
                         NO * (len(commands) + sum(c.count(b"\r\n") for c in commands)))
        self.assertEqual(self.authenticated(server).ask("get kept", b"END\r\n"),
                         b"VALUE kept 0 1\r\nx\r\nEND\r\n")

    def test_single_lines_are_answered_as_memcached_does(self):
        if IS_MEMCACHED:
            self.skipTest("it is the other side of this test")
        lines = [b"get a", b"mg a v", b"", b"   ", b"quit", b"shutdown", b"add k 0 0 9",
                 b"set k 0 0", b"set", b"set k 0 0 x", b"set k 0 0 -1", b"set k 0 0 9x", b"version",
                 b"GET / HTTP/1.0", b"set k 0 0 9\r\nuser pass", b"set k 0 0 9\nuser pass",
                 b"set k b c 9 noreply\r\nuser pass", b"set k 0 0 9\r\nuser pasx",
                 b"set k 0 0 4\r\nuser"]
        server = self.start()
        with Server("-Y", self.path, binary=MEMCACHED) as memcached:
            for line in lines:
                with self.subTest(line=line), server.connect() as a, memcached.connect() as b:
                    for wire in (a, b):
                        wire.send(line + b"\r\n")
                    # Behind the last one memcached waits for more of the line that follows.
                    self.assertEqual(a.line(), b.line())

    def test_split_at_every_byte(self):
        server = self.start()
        data = b"\r\nget a\r\n" + login(b"user", b"wrong") + login() + b"mn\r\n"
        expected = NO * 2 + WRONG + b"STORED\r\nMN\r\n"
        if IS_MEMCACHED:
            self.skipTest("it answers several errors that arrive together once")
        for size in (1, 2, 3, 7):
            with server.connect() as wire:
                for at in range(0, len(data), size):
                    wire.send(data[at:at + size])
                self.assertEqual(wire.until(b"MN\r\n"), expected)

    @ours
    def test_much_junk_takes_no_memory_and_opens_nothing(self):
        server = self.start()
        before = server.rss_kib()
        self.assertEqual(self.say(server, b"\r\n" * 50_000), NO * 50_000)
        self.assertEqual(self.say(server, b"x" * 100_000), b"CLIENT_ERROR line too long\r\n")
        too_long = b"CLIENT_ERROR auth token too long\r\n"
        for size in (1025, 1_000_000):
            data = b"set k 0 0 %d\r\n" % size + b"\n" * size + b"\r\nmn\r\n"
            self.assertEqual(self.say(server, data), too_long + NO)
        self.assertEqual(self.say(server, b"set k 0 0 4294967295\r\nx"), too_long)
        wires = [self.enterContext(server.connect()) for _ in range(100)]
        for wire in wires:
            wire.send(b"set k 0 0 1024\r\n" + b"x" * 1000)
        self.check_alive(server)
        self.assertLess(server.rss_kib() - before, 8 << 10)

    def test_the_binary_protocol_is_refused(self):
        server = self.start()
        for data in (frame("version"), frame("noop"), frame("get", b"k"), frame("sasl_list"),
                     frame("sasl_auth", b"PLAIN", value=plain(b"user", b"pass"))):
            if IS_MEMCACHED:
                data += b"\n"  # it waits for the end of a line
                self.assertEqual(self.say(server, data), NO)
            else:
                with server.connect() as wire:
                    wire.send(data)
                    self.assertEqual(wire.rest(), b"")

    def test_statistics_and_settings(self):
        server = self.start()
        for _ in range(3):
            self.say(server, login(b"user", b"wrong"))
        self.say(server, b"get a\r\n")  # no attempt
        with self.authenticated(server) as wire:
            stats = read_stats(wire)
            self.assertEqual((stats["auth_cmds"], stats["auth_errors"]), ("4", "3"))
            settings = read_stats(wire, "settings")
            self.assertEqual(settings["auth_enabled_ascii"], self.path)
            self.assertEqual(settings["auth_enabled_sasl"], "no")
            self.assertEqual(settings["binding_protocol"], "ascii")
            self.assertEqual(wire.ask("stats reset"), b"RESET\r\n")
            self.assertEqual(read_stats(wire)["auth_cmds"], "0")


class Files(WithUsers):
    @ours
    def test_files_of_all_kinds_of_lines(self):
        for data in (b"user:pass", b"user:pass\r\n", b"a:b\r\nuser:pass\r\n", b"a:b\nuser:pass"):
            with self.subTest(data=data):
                self.write(data)
                server = self.start()
                self.assertEqual(self.say(server, login()), b"STORED\r\n")
                self.assertEqual(self.say(server, login(password=b"pas")), WRONG)
                server.stop()

    @ours
    def test_blank_lines_are_nobody(self):
        self.write(b"\n   \n\t\r\nuser:pass\n\n")
        server = self.start()
        self.assertEqual(self.say(server, login()), b"STORED\r\n")
        for user, password in ((b"", b""), (b" ", b""), (b"", b" ")):
            self.assertEqual(self.say(server, login(user, password)), WRONG)

    @ours
    def test_files_that_cannot_be_used_are_one_line_without_a_password(self):
        for data, part in ((b"", "has no user"), (b" \n\n", "has no user"),
                           (b"a:b\nsecret\n", "line 2: no colon"),
                           (b":secret\n", "line 1: no user"), (b"secret:\n", "no password"),
                           (b"u:secret" + b"x" * 300 + b"\n", "more than 255 bytes"),
                           (b"u:se\0cret\n", "NUL")):
            with self.subTest(part=part):
                self.write(data)
                code, text = run_once(*AS_USER, "-p", free_port(), "-Y", self.path)
                self.assertEqual(code, 1)
                self.assertEqual(len(text.strip().splitlines()), 1, text)
                self.assertIn(part, text)
                self.assertNotIn("secret", text)
        for path, part in (("/nonexistent", "No such file"), ("/", "not a regular file")):
            code, text = run_once(*AS_USER, "-p", free_port(), "-Y", path)
            self.assertEqual(code, 1)
            self.assertIn(part, text)

    @ours
    def test_a_file_that_others_can_read_is_warned_of(self):
        os.chmod(self.path, 0o644)
        server = self.start()
        self.assertIn("other users of this machine can read the passwords", server.stderr())

    def test_sighup_reads_the_file_again(self):
        server = self.start()
        stays = self.authenticated(server)
        self.write(b"new:word\n")
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_for(lambda: self.say(server, login(b"new", b"word")) == b"STORED\r\n"))
        self.assertEqual(self.say(server, login()), WRONG)
        self.assertEqual(stays.ask("mn"), b"MN\r\n")

    @ours
    def test_a_broken_new_file_changes_nothing(self):
        server = self.start()
        for data in (b"", b"nonsense\n", b"x:y\n:\n"):
            self.write(data)
            said = server.stderr().count("the users stay as they were")
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(wait_for(
                lambda: server.stderr().count("the users stay as they were") > said))
            self.assertEqual(self.say(server, login()), b"STORED\r\n")
            self.assertEqual(self.say(server, login(b"x", b"y")), WRONG)
        os.unlink(self.path)
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_for(lambda: "No such file" in server.stderr()))
        self.assertEqual(self.say(server, login()), b"STORED\r\n")


@ours
class Sasl(WithUsers):
    def test_list_auth_and_step(self):
        server = self.start("-S")
        with server.connect() as wire:
            wire.send(frame("sasl_list", opaque=5))
            answer = read_frame(wire)
            self.assertEqual((answer["status"], answer["value"], answer["opaque"]),
                             (0, b"PLAIN", 5))
            # In two steps.
            wire.send(frame("sasl_auth", b"PLAIN"))
            self.assertEqual(read_frame(wire)["status"], 0x21)
            wire.send(frame("sasl_step", b"PLAIN", value=plain(b"user", b"pass")))
            answer = read_frame(wire)
            self.assertEqual((answer["status"], answer["value"]), (0, b"Authenticated"))
            wire.send(frame("version"))
            self.assertEqual(read_frame(wire)["status"], 0)
        self.assertEqual(self.sasl(server, b"PLAIN", plain(b"user", b"pass")),
                         (0, b"Authenticated"))
        self.assertEqual(self.sasl(server, b"PLAIN", b"user" + plain(b"user", b"pass")),
                         (0, b"Authenticated"))
        self.assertEqual(self.sasl(server, b"PLAIN", plain(b"other", b"pass word")),
                         (0, b"Authenticated"))

    def test_wrong_credentials_mechanisms_and_messages_are_refused(self):
        server = self.start("-S")
        refused = (0x20, b"Auth failure.")
        for message in (plain(b"user", b"wrong"), plain(b"user", b"pass\0"), plain(b"", b""),
                        plain(b"user", b""), b"user\0pass", b"user", b"\0",
                        b"root" + plain(b"user", b"pass"), b"x" * 1025, b"\0" * 1024):
            self.assertEqual(self.sasl(server, b"PLAIN", message), refused, message)
        for mechanism in (b"CRAM-MD5", b"plain", b"X" * 250):
            self.assertEqual(self.sasl(server, mechanism, plain(b"user", b"pass")), refused)
        # A step that nothing began.
        self.assertEqual(self.sasl(server, b"PLAIN", plain(b"user", b"pass"), "sasl_step"), refused)
        # Many attempts on one connection, and then the right one.
        with server.connect() as wire:
            for _ in range(50):
                wire.send(frame("sasl_auth", b"PLAIN", value=plain(b"user", b"wrong")))
                self.assertEqual(read_frame(wire)["status"], 0x20)
            wire.send(frame("sasl_auth", b"PLAIN", value=plain(b"user", b"pass")))
            self.assertEqual(read_frame(wire)["status"], 0)

    def test_everything_else_is_an_authentication_error_and_the_end(self):
        server = self.start("-S")
        for opcode in sorted(set(OPCODES.values()) - {0x20, 0x21, 0x22}) + [0x1b, 0xff]:
            with self.subTest(opcode=opcode), server.connect() as wire:
                wire.send(frame(opcode, b"k", bytes(8), b"value") + frame("noop"))
                answer = read_frame(wire)
                self.assertEqual((answer["status"], answer["value"]), (0x20, b"Auth failure."))
                self.assertTrue(wire.closed())

    def test_lengths_that_lie_are_refused(self):
        server = self.start("-S")
        for opcode in ("sasl_list", "sasl_auth", "sasl_step"):
            for extras in (0, 1, 8, 255):
                for key in (0, 5, 250, 251, 65535):
                    for body in (0, 1, 4, 300, 0x7fffffff, 0x80000000, 0xffffffff):
                        with server.connect() as wire:
                            wire.send(frame(opcode, key_len=key, extras_len=extras, body_len=body)
                                      + b"PLAIN" + bytes(600))
                            wire.socket.shutdown(1)
                            # Whatever is said, it is not "Authenticated".
                            self.assertNotIn(b"Authenticated", wire.rest())
        self.check_alive(server)

    def test_a_failed_second_authentication_ends_the_first(self):
        server = self.start("-S")
        with server.connect() as wire:
            wire.send(frame("sasl_auth", b"PLAIN", value=plain(b"user", b"pass")))
            self.assertEqual(read_frame(wire)["status"], 0)
            wire.send(frame("sasl_auth", b"PLAIN", value=plain(b"user", b"wrong")))
            self.assertEqual(read_frame(wire)["status"], 0x20)
            wire.send(frame("noop"))
            self.assertEqual(read_frame(wire)["status"], 0x20)

    def test_text_needs_its_password_too(self):
        server = self.start("-S")
        self.assertEqual(self.say(server, b"get a\r\n" + login()), NO + b"STORED\r\n")

    def test_with_b_binary_text_is_hung_up_on(self):
        server = self.start("-S", "-B", "binary")
        self.assertEqual(self.say(server, login()), b"")
        self.assertEqual(self.sasl(server, b"PLAIN", plain(b"user", b"pass"))[0], 0)

    def test_statistics_and_settings(self):
        server = self.start("-S")
        self.sasl(server, b"PLAIN", plain(b"user", b"wrong"))
        with self.authenticated(server) as wire:
            stats = read_stats(wire)
            self.assertEqual((stats["auth_cmds"], stats["auth_errors"]), ("2", "1"))
            self.assertEqual(read_stats(wire, "settings")["auth_enabled_sasl"], "yes")


@ours
class Clients(WithUsers):
    def test_pylibmc(self):
        import pylibmc
        server = self.start("-S")
        name = "127.0.0.1:%d" % server.port
        client = pylibmc.Client([name], binary=True, username="user", password="pass")
        self.assertTrue(client.set("key", "value"))
        self.assertEqual(client.get("key"), "value")
        self.assertTrue(client.set_multi({f"k{i}": "x" * 100 for i in range(200)}) == [])
        self.assertEqual(len(client.get_multi([f"k{i}" for i in range(200)])), 200)
        for user, password in (("user", "wrong"), ("nobody", "pass")):
            client = pylibmc.Client([name], binary=True, username=user, password=password)
            with self.assertRaises(pylibmc.Error):
                client.set("key", "other")
        with self.assertRaises(pylibmc.Error):
            pylibmc.Client([name], binary=True).set("key", "other")
        with self.assertRaises(pylibmc.Error):
            pylibmc.Client([name]).set("key", "other")
        self.assertEqual(self.authenticated(server).ask("get key", b"END\r\n"),
                         b"VALUE key 16 5\r\nvalue\r\nEND\r\n")

    def test_python_binary_memcached(self):
        import bmemcached
        server = self.start("-S")
        name = "127.0.0.1:%d" % server.port
        client = bmemcached.Client([name], "user", "pass")
        self.assertTrue(client.set("key", "value"))
        self.assertEqual(client.get("key"), "value")
        client.disconnect_all()
        with self.assertRaises(Exception):
            bmemcached.Client([name], "user", "wrong").set("key", "other")

    def test_pymemcache_with_a_login_in_front(self):
        from pymemcache.client.base import Client
        server = self.start()
        client = Client(server.address, timeout=PATIENCE_S)
        with self.assertRaises(Exception):
            client.get("key")
        client = Client(server.address, timeout=PATIENCE_S, default_noreply=False)
        self.assertTrue(client.set("any", b"user pass"))
        self.assertTrue(client.set("key", b"value"))
        self.assertEqual(client.get("key"), b"value")

    def test_both_over_tls(self):
        certificates = self.enterContext(Certificates())
        port = free_port()
        server = Server("-Y", self.path, "-S", *certificates.server_words(), "-p", port,
                        "-l", "127.0.0.1", listen=None)
        server.address = ("127.0.0.1", port)
        with server:
            self.assertTrue(wait_for(lambda: server.process.poll() is None))
            with TlsWire(server.address, certificates.context()) as wire:
                wire.send(b"get a\r\n" + login() + b"mn\r\n")
                self.assertEqual(wire.until(b"MN\r\n"), NO + b"STORED\r\nMN\r\n")
            with TlsWire(server.address, certificates.context()) as wire:
                wire.send(frame("sasl_auth", b"PLAIN", value=plain(b"user", b"pass"))
                          + frame("noop"))
                self.assertEqual([read_frame(wire)["status"] for _ in range(2)], [0, 0])
            with Wire(server.address) as wire:
                wire.send(login())
                self.assertNotIn(b"STORED", wire.rest())


if __name__ == "__main__":
    unittest.main()
