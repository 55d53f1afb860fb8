#!/usr/bin/env python3
"""[kBF] Fig. 15 and 16: time and memory of a kBF beside memcached.

    bench/fig15_kbf_memcached.py BUILD [--quick]

Claim:  almost 10 times faster than memcached; 30.33 % less memory on average at 64 to 1,024 MB, where memcached stores
        pairs until it is full (-M) and the kBF then stores as many.
Runs:   10 min, 2.5 GB; --quick: 1 min, 0.3 GB. Output: bench/results/fig15_kbf_memcached.tsv

Fig. 15, x pairs in millions, ours seconds. "in process" (bench/kbf_speed.cc): CPU time of a kBF that is called as a
library. "over the network": Debian's memcached and kbfcached on loopback, one thread each, with the same client
(kbfload: 4 connections, 50 requests sent at once, or one connection and one at a time; meta protocol), CPU time of the
server. memcached cannot be called in
process, so only servers compare like with like.

Fig. 16, x MB given to memcached, ours MB (10^6 bytes). Keys of ETC's sizes and 3,000 values of ETC's sizes below 15
bytes, as in [kBF] section 6.1. The kBF in paper mode at p: main kBF, secondary kBF and mapping. kbfcached: resident memory
with the -m that kbfplan names for as many pairs; its share of pairs held has rows of its own.
"""
import math
import os
import re
import subprocess
import sys

from servers import kbfload, print_head, server

PAIRS = "--values 3000 --value-size tiny --protocol meta".split()
WORK = [*PAIRS, *"-c 4 --pipeline 50".split()]
ONE_AT_A_TIME = [*PAIRS, *"-c 1 --pipeline 1".split()]
P_AND_K = [(10.0 ** -e, round(e / math.log10(2))) for e in (3, 4, 5, 6)]
VALUES = 3000
VALUE_BYTES = 8  # on average, with its entry in the mapping 16


def row(figure, series, x, ours, paper=None, bits=None):
    cells = [f"{value:.6g}" if value is not None else "-" for value in (x, None, ours, None, None, paper, bits)]
    print("\t".join([figure, series, *cells]), flush=True)


def speed(build, quick):
    slopes, alone = {}, {}
    sizes = [50_000, 200_000] if quick else [1_000_000, 2_500_000, 5_000_000]
    for binary in ("memcached", os.path.join(build, "kbfcached")):
        name = os.path.basename(binary)
        for keys in sizes:
            with server(binary, 2048, 1) as address:
                common = [address, "--keys", str(keys), *WORK]
                seconds = {}
                for operation, words in (("insert", ["fill", *common]),
                                         ("query", ["run", *common, "--mix", "1:0:0", "--ops", str(keys)]),
                                         ("delete", ["run", *common, "--mix", "0:0:1", "--ops", str(keys)])):
                    result = kbfload(build, *words)
                    seconds[operation] = result["server_cpu_us_per_op"] * keys / 1e6
                    row("[kBF] Fig. 15", f"over the network, {name}, {operation}", keys / 1e6, seconds[operation])
                slopes[name] = {operation: value / keys * 1e6 for operation, value in seconds.items()}
        alone[name] = one_at_a_time(binary, build, sizes[0])
    for operation in ("insert", "query", "delete"):
        for name, slope in slopes.items():
            row("[kBF] Fig. 15, CPU microseconds per operation", f"over the network, {name}, {operation}", None, slope[operation])
        row("[kBF] Fig. 15, times memcached's CPU time over ours", f"over the network, kbfcached, {operation}", None,
            slopes["memcached"][operation] / slopes["kbfcached"][operation])
    for name, costs in alone.items():
        for operation, cost in costs.items():
            row("[kBF] Fig. 15, CPU microseconds per operation", f"over the network, one at a time, {name}, {operation}", None, cost)
    for operation in alone["memcached"]:
        row("[kBF] Fig. 15, times memcached's CPU time over ours", f"over the network, one at a time, kbfcached, {operation}", None,
            alone["memcached"][operation] / alone["kbfcached"][operation])
    return slopes["memcached"], alone["memcached"]


def one_at_a_time(binary, build, keys):
    """CPU time of a server whose one client waits for every answer, per operation."""
    with server(binary, 2048, 1) as address:
        common = [address, "--keys", str(keys), *ONE_AT_A_TIME]
        return {operation: kbfload(build, *words)["server_cpu_us_per_op"] for operation, words in
                (("insert", ["fill", *common]), ("query", ["run", *common, "--mix", "1:0:0", "--ops", str(min(keys, 200_000))]))}


def in_process(build, quick, memcached, memcached_alone):
    words = [os.path.join(build, "bench", "kbf_speed")] + (["--quick"] if quick else [])
    table = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    slopes = {}
    for line in table.splitlines():
        if not line.startswith("#"):
            print(line)
            _, series, millions, _, seconds, *_ = line.split("\t")
            slopes[series] = float(seconds) / float(millions)  # the last one is the largest
    for series, slope in slopes.items():
        row("[kBF] Fig. 15, CPU microseconds per operation", series, None, slope)
        operation = series.rsplit(", ", 1)[1]
        row("[kBF] Fig. 15, times memcached's CPU time over ours", series, None, memcached[operation] / slope)
        if operation in memcached_alone:
            row("[kBF] Fig. 15, times memcached's CPU time one at a time over ours", series, None, memcached_alone[operation] / slope)


def planned_megabytes(build, keys):
    text = subprocess.run([os.path.join(build, "kbfplan"), "--keys", str(keys), "--values", str(VALUES), "--value-size",
                           str(VALUE_BYTES)], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"kbfcached -m (\d+)", text).group(1))


def memory(build, quick):
    savings = {}
    for megabytes in (64, 128) if quick else (64, 128, 256, 512, 1024):
        # More than it can hold: the rest is refused with "out of memory".
        with server("memcached", megabytes, 1, "-M") as address:
            held = kbfload(build, "fill", address, "--keys", str(megabytes * 12_000), *WORK)["items"]
        row("[kBF] Fig. 16, pairs", "memcached -M", megabytes, held)
        row("[kBF] Fig. 16", "memcached, -m", megabytes, megabytes * 1.048576)
        sizes = {}
        for p, hashes in P_AND_K:
            cells = hashes / math.log(2) * 4
            sizes[f"paper mode, p={p:g}"] = held * cells + VALUES * (cells + VALUE_BYTES + 8)
        planned = planned_megabytes(build, held)
        with server(os.path.join(build, "kbfcached"), planned, 1) as address:
            common = [address, "--keys", str(held), *WORK]
            kbfload(build, "fill", *common)
            result = kbfload(build, "verify", *common)
        sizes["our default: kbfcached, resident"] = result["rss_bytes"]
        row("[kBF] Fig. 16, share of the pairs that kbfcached holds", "our default", megabytes, result["hits"] / held)
        for series, size in sizes.items():
            row("[kBF] Fig. 16", series, megabytes, size / 1e6, bits=8 * size / held)
            saved = 1 - size / (megabytes * 1048576)
            savings.setdefault(series, []).append(saved)
            row("[kBF] Fig. 16, memory saved", series, megabytes, saved)
    for series, saved in savings.items():
        row("[kBF] Fig. 16, memory saved, mean", series, None, sum(saved) / len(saved),
            paper=0.3033 if series.endswith("p=0.0001") else None)


def main():
    build, quick = sys.argv[1], "--quick" in sys.argv
    print_head("[kBF] Fig. 15, 16: time and memory beside memcached", "bench/fig15_kbf_memcached.py", quick)
    in_process(build, quick, *speed(build, quick))
    memory(build, quick)


if __name__ == "__main__":
    main()
