"""What the programs share that measure servers on this machine: start one, load it with kbfload, say what was run."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(binary, megabytes, threads, *options):
    """Runs a server and gives its address; stops it in any case."""
    port = free_port()
    words = [binary, "-l", "127.0.0.1", "-p", str(port), "-m", str(megabytes), "-t", str(threads), "-c", "2000", *options]
    if os.geteuid() == 0:
        words += ["-u", "root"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        else:
            sys.exit(f"{binary} does not answer")
        yield f"127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def kbfload(build, command, *words):
    """What kbfload measures, as a dictionary."""
    with tempfile.NamedTemporaryFile(suffix=".json") as result:
        words = [os.path.join(build, "kbfload"), command, *words, "-q", "--no-histogram", "--json", result.name]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}\n{done.stdout}")
        return json.load(result)


def print_head(what, command, quick):
    """The head of a table that bench/evaluate reads, like PrintHead of bench/bench.h."""
    if quick:
        print("# quick run")
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        cpu = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")
    version = subprocess.run(["memcached", "-V"], capture_output=True, text=True).stdout.strip()
    print(f"# {what}\n# command: {command}{' --quick' if quick else ''}\n# commit: {os.environ.get('KBF_COMMIT', 'unknown')}\n"
          f"# cpu: {cpu}, {os.cpu_count()} cores\n# beside: {version}")
    print("figure\tseries\tx\ttheory\tours\tdeviation\tpaper_theory\tpaper\tbits_per_key", flush=True)
