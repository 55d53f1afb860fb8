"""The command line: what each option does that a client or an administrator can see."""

import os
import signal
import socket
import stat
import tempfile
import unittest

from binary import frame
from server import (BINARY, IS_MEMCACHED, PATIENCE_S, SANITIZER, Server, Wire, free_port, read_stats,
                    run_once, wait_for)

# memcached refuses root without -u; for those who run the tests as root.
AS_USER = ("-u", "root") if os.geteuid() == 0 else ()

# Options of -o that tune memcached's slabs and lists: they are taken, and change nothing.
TUNING = (
    "modern,hashpower=16,tail_repair_time=100,slab_reassign,slab_automove=1,"
    "slab_automove_ratio=0.8,slab_automove_window=30,slab_chunk_max=512,lru_crawler,"
    "lru_crawler_sleep=100,lru_crawler_tocrawl=10,lru_maintainer,hot_lru_pct=20,"
    "warm_lru_pct=40,hot_max_factor=0.2,warm_max_factor=2.0,temporary_ttl=61,"
    "watcher_logbuf_size=128,no_hashexpand,resp_obj_mem_limit=10,read_buf_mem_limit=10,"
    "no_lru_crawler"
)


def accepts(address):
    try:
        with Wire(address) as wire:
            return wire.ask("mn") == b"MN\r\n"
    except OSError:
        return False


class Listening(unittest.TestCase):
    def test_unix_socket_is_for_its_owner_unless_a_mask_says_more(self):
        for arguments, mode in (((), 0o700), (("-a", "0777"), 0o777), (("-a", "770"), 0o770)):
            with Server(*arguments, listen="unix") as server:
                self.assertEqual(stat.S_IMODE(os.stat(server.address).st_mode), mode)
                server.check_alive()

    def test_unix_socket_of_an_ended_server_is_reused(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "socket")
            old = socket.socket(socket.AF_UNIX)
            old.bind(path)
            old.close()
            server = Server("-s", path, listen=None)
            server.address = path
            with server:
                server.check_alive()

    @unittest.skipIf(IS_MEMCACHED, "it takes the path")
    def test_unix_socket_of_a_running_server_is_not_reused(self):
        with Server(listen="unix") as server:
            code, text = run_once(*AS_USER, "-s", server.address)
            self.assertEqual(code, 1)
            self.assertIn(f"cannot listen on {server.address}: another server is using it", text)
            server.check_alive()
            # Where somebody removed the path, the server that follows keeps its own.
            os.unlink(server.address)
            second = Server("-s", server.address, listen=None)
            second.address = server.address
            with second:
                self.assertEqual(server.stop(), 0)
                second.check_alive()

    def test_cve_2019_15026_unix_socket_with_a_path_of_107_bytes(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            path = os.path.join(directory, "s" * (107 - len(directory) - 1))
            self.assertEqual(len(path), 107)
            server = Server("-s", path, listen=None)
            server.address = path
            with server:
                with server.connect() as other:
                    self.assertEqual(other.ask("mn"), b"MN\r\n")
                    conns = server.stats("conns")
                # The whole path, and nothing behind it; a client's end has no name in memcached.
                addresses = [v for k, v in conns.items() if "addr" in k]
                self.assertIn("unix:" + path, addresses)
                for address in addresses:
                    self.assertIn(address, ("unix:" + path, "?:<AF 0>"), conns)
                server.check_alive()

    def test_several_addresses_in_one_option_and_in_many(self):
        for many in (False, True):
            ports = [free_port() for _ in range(2)]
            names = [f"127.0.0.1:{ports[0]}", f"127.0.0.2:{ports[1]}"]
            arguments = ["-l", names[0], "-l", names[1]] if many else ["-l", ",".join(names)]
            server = Server(*arguments, "-p", ports[0], listen=None)
            server.address = ("127.0.0.1", ports[0])
            with server:
                self.assertTrue(accepts(("127.0.0.1", ports[0])))
                self.assertTrue(wait_for(lambda: accepts(("127.0.0.2", ports[1]))))
                self.assertFalse(accepts(("127.0.0.2", ports[0])))

    @unittest.skipIf(IS_MEMCACHED, "-s turns TCP off in memcached")
    def test_unix_socket_together_with_an_address(self):
        port = free_port()
        with Server("-l", "127.0.0.1", "-p", port, listen="unix") as server:
            self.assertTrue(accepts(server.address))
            self.assertTrue(wait_for(lambda: accepts(("127.0.0.1", port))))

    @unittest.skipIf(IS_MEMCACHED, "memcached listens everywhere")
    def test_without_an_address_only_loopback_listens(self):
        port = free_port()
        server = Server("-p", port, listen=None)
        server.address = ("127.0.0.1", port)
        with server:
            with open("/proc/net/tcp") as file:
                local = [line.split()[1] for line in file.readlines()[1:]
                         if line.split()[3] == "0A"]
            self.assertIn(f"0100007F:{port:04X}", local)
            self.assertNotIn(f"00000000:{port:04X}", local)

    def test_a_port_that_is_taken_is_an_error(self):
        with Server() as server:
            code, text = run_once(*AS_USER, "-l", "127.0.0.1", "-p", server.port)
            self.assertNotEqual(code, 0)
            self.assertTrue(text.strip())
            server.check_alive()

    def test_protocol(self):
        with Server("-B", "ascii") as server, server.connect() as wire:
            wire.send(frame("noop") + b"\r\n")
            self.assertNotIn(b"\x81", wire.line())
        with Server("-B", "binary") as server:
            with server.connect() as wire:
                wire.send(b"version" + b" " * 30 + b"\r\n")
                self.assertNotIn(b"VERSION", wire.rest())
            with server.connect() as wire:
                wire.send(frame("noop"))
                self.assertEqual(len(wire.read(24)), 24)


class Process(unittest.TestCase):
    def test_signals_that_stop(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            with Server() as server, server.connect() as idle:
                idle.ask("mn")
                self.assertEqual(server.stop(how), 0, how)

    def test_shutdown_needs_its_option(self):
        with Server() as server, server.connect() as wire:
            self.assertEqual(wire.ask("shutdown"), b"ERROR: shutdown not enabled\r\n")
        for command in (b"shutdown\r\n", b"shutdown graceful\r\n"):
            with Server("-A") as server:
                with server.connect() as wire:
                    wire.send(b"shutdown nonsense\r\n")
                    self.assertEqual(wire.line(), b"CLIENT_ERROR invalid shutdown mode\r\n")
                    wire.send(command)
                    self.assertEqual(wire.rest(), b"")
                self.assertEqual(server.process.wait(PATIENCE_S), 0)

    def test_pidfile(self):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o777)
            path = os.path.join(directory, "pid")
            with Server("-P", path) as server:
                # It is written after the port is open.
                self.assertTrue(wait_for(lambda: os.path.exists(path) and os.path.getsize(path)))
                with open(path) as file:
                    self.assertEqual(int(file.read()), server.process.pid)
            if not IS_MEMCACHED:  # it leaves the file
                self.assertFalse(os.path.exists(path))

    def test_daemon(self):
        with tempfile.TemporaryDirectory() as directory:
            path, port, pid = os.path.join(directory, "pid"), free_port(), None
            try:
                code, text = run_once(*AS_USER, "-d", "-P", path, "-l", "127.0.0.1", "-p", port)
                self.assertEqual(code, 0, text)
                self.assertTrue(wait_for(lambda: os.path.exists(path) and os.path.getsize(path)))
                with open(path) as file:
                    pid = int(file.read())
                self.assertTrue(wait_for(lambda: accepts(("127.0.0.1", port))))
                os.kill(pid, signal.SIGTERM)
                self.assertTrue(wait_for(lambda: not os.path.exists(f"/proc/{pid}")
                                         or "Z" in open(f"/proc/{pid}/stat").read().split()[2]))
                pid = None
            finally:
                if pid:
                    os.kill(pid, signal.SIGKILL)

    @unittest.skipIf(IS_MEMCACHED, "its lines differ")
    def test_verbosity_3_logs_the_states_of_connections(self):
        for option, states in (("-vvv", True), ("-vv", False)):
            with Server(option) as server:
                with server.connect() as wire:
                    wire.send(b"quit\r\n")
                    self.assertEqual(wire.rest(), b"")
                self.assertTrue(wait_for(lambda: "connection closed" in server.stderr()))
                self.assertEqual("from conn_read to conn_closing" in server.stderr(), states)

    @unittest.skipIf(IS_MEMCACHED, "its caller exits before it knows")
    def test_a_daemon_that_cannot_start_exits_with_an_error_and_says_why(self):
        where = ("-l", "127.0.0.1", "-p", free_port())
        cases = [(*where, "-P", "/no/such/directory/pid"), (*where, "--slabs", "65536", "-m", "64"),
                 (*where, "-I", "2000m")]
        if os.geteuid() == 0:
            cases.append((*where, "-u", "no-such-user"))
        with Server() as server:
            cases.append(("-l", "127.0.0.1", "-p", server.port))
            for arguments in cases:
                with self.subTest(arguments=arguments):
                    user = () if "-u" in arguments else AS_USER
                    code, text = run_once("-d", *user, *arguments)
                    self.assertEqual(code, 1, text)
                    self.assertEqual(len(text.strip().splitlines()), 1, text)
            server.check_alive()

    @unittest.skipIf(IS_MEMCACHED or os.geteuid() != 0, "kbfcached's own, and setrlimit needs root")
    def test_a_daemon_that_may_not_lock_memory_exits_with_an_error(self):
        command = f"ulimit -l 64; exec setpriv --bounding-set=-sys_resource {BINARY} -d -k -u root " \
                  f"-l 127.0.0.1 -p {free_port()}"
        code, text = run_once("-c", command, binary="/bin/bash")
        self.assertEqual(code, 1, text)
        self.assertIn("-k needs", text)

    @unittest.skipIf(IS_MEMCACHED, "kbfcached's own")
    def test_a_daemon_serves_when_its_caller_has_exited_and_prints_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            # The socket's path is relative and the daemon changes to /; it is removed all the same.
            before = os.getcwd()
            os.chdir(directory)
            try:
                code, text = run_once("-d", *AS_USER, "-P", os.path.join(directory, "pid"),
                                      "-s", "socket")
            finally:
                os.chdir(before)
            self.assertEqual((code, text), (0, ""))
            with open(os.path.join(directory, "pid")) as file:
                pid = int(file.read())
            try:
                self.assertTrue(accepts(os.path.join(directory, "socket")))
            finally:
                os.kill(pid, signal.SIGTERM)
            self.assertTrue(wait_for(lambda: os.listdir(directory) == []), os.listdir(directory))

    @unittest.skipIf(IS_MEMCACHED, "kbfcached's own")
    def test_no_privileges_are_left_without_systemd(self):
        users = ("root", "nobody") if os.geteuid() == 0 else (None,)
        for user in users:
            with Server(*(("-u", user) if user else ()), listen="tcp") as server:
                with open(f"/proc/{server.process.pid}/status") as file:
                    status = dict(line.split(":\t", 1) for line in file.read().splitlines())
                self.assertEqual(status["NoNewPrivs"], "1")
                names = ["CapInh", "CapPrm", "CapEff", "CapAmb"] + ["CapBnd"] * bool(user)
                self.assertEqual({status[name] for name in names}, {"0" * 16})
                # Workers are threads, which have capabilities of their own.
                for task in os.listdir(f"/proc/{server.process.pid}/task"):
                    with open(f"/proc/{server.process.pid}/task/{task}/status") as file:
                        self.assertIn("CapEff:\t" + "0" * 16, file.read())
                server.check_alive()

    @unittest.skipIf(IS_MEMCACHED or os.geteuid() != 0, "kbfcached's own, as root")
    def test_a_pidfile_that_the_user_may_not_remove_is_no_error(self):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o777)
            path = os.path.join(directory, "pid")
            with Server("-P", path, "-u", "nobody") as server:
                self.assertTrue(wait_for(lambda: os.path.exists(path)))
                os.chmod(directory, 0o755)
                self.assertEqual(server.stop(), 0)
                # The log is written by a thread of its own, so lines of the start may come late.
                said = [line.split(" ", 1)[1] for line in server.stderr().splitlines()]
                self.assertEqual(said[-1], "notice signal 15: stopping")
                self.assertFalse([line for line in said if not line.startswith("notice ")])
            self.assertTrue(os.path.exists(path))

    @unittest.skipUnless(os.geteuid() == 0, "not root")
    def test_root_must_name_a_user(self):
        code, text = run_once("-l", "127.0.0.1", "-p", free_port())
        self.assertNotEqual(code, 0)
        self.assertIn("root", text)
        code, text = run_once("-u", "no-such-user", "-l", "127.0.0.1", "-p", free_port())
        self.assertNotEqual(code, 0)
        self.assertIn("no-such-user", text)

    @unittest.skipUnless(os.geteuid() == 0, "not root")
    def test_root_becomes_the_user(self):
        with Server("-u", "nobody") as server:
            with open(f"/proc/{server.process.pid}/status") as file:
                uids = [line for line in file if line.startswith("Uid:")][0].split()[1:]
            self.assertNotIn("0", uids)
            server.check_alive()

    def test_help_version_licence(self):
        for option in ("-h", "--help"):
            code, text = run_once(option)
            self.assertEqual(code, 0)
            for name in ("--port", "--listen", "--memory-limit", "--conn-limit", "--threads"):
                self.assertIn(name, text)
        for option in ("-V", "--version"):
            code, text = run_once(option)
            self.assertEqual(code, 0)
            self.assertRegex(text, r"memcached 1\.6\.18$")
        code, text = run_once("-i")
        self.assertEqual(code, 0)
        self.assertIn("Copyright", text)

    def test_invalid_values_are_refused(self):
        for arguments in (("--no-such-option",), ("-t", "0"), ("-I", "100"), ("-I", "2000m"),
                          ("-R", "0"), ("-c", "-1"), ("-o", "no_such_option"), ("-B", "nonsense")):
            with self.subTest(arguments=arguments):
                if arguments == ("--no-such-option",) and IS_MEMCACHED:
                    continue  # memcached goes on without saying so in its exit code
                code, text = run_once(*AS_USER, "-l", "127.0.0.1", "-p", free_port(), *arguments)
                self.assertNotEqual(code, 0)
                self.assertTrue(text.strip())


class Effects(unittest.TestCase):
    def test_tuning_options_of_memcached_are_accepted(self):
        with Server("-o", TUNING, "-f", "1.5", "-n", "100", "-b", "100") as server:
            server.check_alive()

    def test_numbers_show_in_the_settings(self):
        numbers = "-m 100 -c 500 -t 2 -R 7 -b 33 -I 2m".split()
        with Server(*numbers) as server:
            settings = server.stats("settings")
        expected = {"maxbytes": str(100 << 20), "maxconns": "500", "num_threads": "2",
                    "reqs_per_event": "7", "tcp_backlog": "33", "item_size_max": str(2 << 20),
                    "evictions": "on", "cas_enabled": "yes", "flush_enabled": "yes"}
        self.assertEqual({k: settings.get(k) for k in expected}, expected)

    def test_forms_of_options(self):
        with Server("-m100", "--conn-limit=500", "-vvt2") as server:
            settings = server.stats("settings")
        self.assertEqual(settings["maxbytes"], str(100 << 20))
        self.assertEqual(settings["maxconns"], "500")
        self.assertEqual(settings["num_threads"], "2")
        self.assertEqual(settings["verbosity"], "2")

    def test_item_size(self):
        for option, fits, does_not in (("2m", 1500000, 2200000), ("512k", 400000, 600000)):
            with Server("-I", option) as server, server.connect() as wire:
                self.assertEqual(wire.ask(f"set k 0 0 {fits}\r\n" + "v" * fits), b"STORED\r\n")
                self.assertEqual(wire.ask(f"set k 0 0 {does_not}\r\n" + "v" * does_not),
                                 b"SERVER_ERROR object too large for cache\r\n")
                self.assertEqual(wire.ask("get k"), b"END\r\n")

    def test_without_cas_numbers_are_0(self):
        with Server("-C") as server, server.connect() as wire:
            self.assertEqual(wire.ask("set k 0 0 1\r\nx"), b"STORED\r\n")
            self.assertEqual(wire.ask("gets k", b"END\r\n"), b"VALUE k 0 1 0\r\nx\r\nEND\r\n")
            self.assertEqual(read_stats(wire, "settings")["cas_enabled"], "no")

    def test_without_evictions_a_full_cache_refuses_writes_and_keeps_its_items(self):
        with Server("-M", "-m", "16") as server, server.connect() as wire:
            stored, answer = 0, b"STORED\r\n"
            value = lambda i: (b"%08d" % i) * 1000  # each its own, so that nothing is shared
            while answer == b"STORED\r\n" and stored < 10000:
                wire.send(b"set k%d 0 0 8000\r\n%s\r\n" % (stored, value(stored)))
                answer = wire.line()
                stored += answer == b"STORED\r\n"
            self.assertEqual(answer, b"SERVER_ERROR out of memory storing object\r\n")
            self.assertGreater(stored, 100)
            for i in range(stored):
                self.assertEqual(wire.ask(f"get k{i}", b"END\r\n"),
                                 b"VALUE k%d 0 8000\r\n%s\r\nEND\r\n" % (i, value(i)))
            stats = read_stats(wire)
            self.assertEqual(stats["evictions"], "0")
            self.assertEqual(stats["curr_items"], str(stored))


@unittest.skipIf(IS_MEMCACHED, "kbfcached's own")
class Ours(unittest.TestCase):
    def refused(self, *arguments):
        code, text = run_once(*AS_USER, "-l", "127.0.0.1", "-p", free_port(), *arguments)
        self.assertNotEqual(code, 0, arguments)
        self.assertEqual(len(text.strip().splitlines()), 1, text)
        return text

    def test_what_is_not_supported_is_refused_by_name(self):
        for arguments, word in ((("-o", "ext_path=/tmp/x:1g"), "ext_path"),
                                (("-e", "/nowhere/file"), "--snapshot: cannot write to /nowhere"),
                                (("-o", "proxy_config=x"), "proxy")):
            with self.subTest(arguments=arguments):
                self.assertRegex(self.refused(*arguments), word)
        for port in ("0", "11211"):
            with Server("-U", port) as server:
                server.check_alive()

    def test_cve_2021_37519_config_file_in_the_form_of_memcached_conf(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            # Comments, a word that is no option, and no line end at the end (CVE-2021-37519).
            file.write("# comment\n\n-m 100\n-c 500\nlogfile /var/log/x\n  -t 2\n"
                       "--max-item-size=2m\n-R 7")
            file.flush()
            with Server("--config", file.name, "-c", "600") as server:
                settings = server.stats("settings")
            self.assertEqual(settings["maxbytes"], str(100 << 20))
            self.assertEqual(settings["num_threads"], "2")
            self.assertEqual(settings["item_size_max"], str(2 << 20))
            self.assertEqual(settings["reqs_per_event"], "7")
            self.assertEqual(settings["maxconns"], "600", "the command line wins")
        self.refused("--config", "/no/such/file")

    def test_debian_s_own_config_file(self):
        if not os.path.exists("/etc/memcached.conf"):
            self.skipTest("no /etc/memcached.conf")
        server = Server("--config", "/etc/memcached.conf", "-p", free_port(), "-P",
                        os.path.join(tempfile.gettempdir(), f"kbf-e2e-{os.getpid()}.pid"),
                        listen=None)
        server.address = ("127.0.0.1", int(server.arguments[3]))
        with server:
            server.check_alive()

    def test_numbers_of_the_approximate_store_are_checked(self):
        for arguments in (("--false-negative", "2"), ("--false-positive", "-1"), ("--engine", "x"),
                          ("--front-share", "7"), ("--slabs", "3")):
            with self.subTest(arguments=arguments):
                self.refused(*arguments)

    @unittest.skipIf(SANITIZER, "bounds on memory are not tested")
    def test_too_many_slabs_are_refused_before_they_take_memory(self):
        # A limit of address space stands for the peak: 65536 slabs took 3.4 GB.
        command = f"ulimit -v {1 << 20}; exec {BINARY} {' '.join(AS_USER)} -p {free_port()} --slabs 65536 -m 64"
        code, text = run_once("-c", command, binary="/bin/bash")
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"^kbfcached: 65536 slabs take \d+ MB .* use \d+ slabs or fewer")

    def test_items_that_the_buffers_would_refuse_are_refused_at_the_start(self):
        self.assertIn("read_buf_mem_limit=400", self.refused("-I", "200m", "-m", "1024"))
        with Server("-m", "1024", "-I", "32m") as server, server.connect() as wire:
            self.assertEqual(server.stats("settings")["read_buf_mem_limit"], str(64 << 20))
            value = "v" * (32 * 1000 * 1000)
            self.assertEqual(wire.ask(f"set k 0 0 {len(value)}\r\n" + value), b"STORED\r\n")

    def test_keys_of_an_exact_prefix_stay_in_front(self):
        with Server("--exact-prefix", "exact:") as server, server.connect() as wire:
            self.assertEqual(wire.ask("set exact:k 0 0 1\r\nx"), b"STORED\r\n")
            self.assertEqual(read_stats(wire, "kbf")["exact_prefixes"], "1")


if __name__ == "__main__":
    print(f"testing {BINARY}")
    unittest.main()
