"""Ten cases, dlk beside NumPy and PyTorch and beside the machine's own bandwidth, interleaved in one run.

    ./run bench [--quick] [--threads N] [--json FILE]

Every case checks dlk's result against NumPy's before it is timed. Times are medians over interleaved rounds, so that a
noisy moment hits everybody alike; what counts are the ratios.
"""
import argparse
import json
import platform
import statistics
import time

import numpy as np

import dlk

try:
    import torch
except ImportError:  # a peer is missing: its column says so
    torch = None


class Case:
    """One thing to time: `runs` maps a peer's name to a function without arguments; bytes are read and written once."""

    def __init__(self, name, moved_bytes, check, **runs):
        self.name, self.moved_bytes, self.check = name, moved_bytes, check
        self.runs = {peer: run for peer, run in runs.items() if run is not None}


def contiguous(a):
    return torch.from_numpy(a) if torch else None


def case_of(name, moved, dlk_run, numpy_run, torch_run, rtol=1e-5):
    def check():
        np.testing.assert_allclose(np.asarray(dlk_run(), dtype=np.float64), np.asarray(numpy_run(), dtype=np.float64), rtol=rtol,
                                   atol=1e-6)

    return Case(name, moved, check, dlk=dlk_run, numpy=numpy_run, torch=torch_run if torch else None)


def make_cases(side):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((side, side), dtype=np.float32)
    y = rng.standard_normal((side, side), dtype=np.float32)
    out, tout = np.empty_like(x), None
    small = rng.standard_normal(65536, dtype=np.float32)
    small_out = np.empty_like(small)
    tiny, tiny2 = np.ones(16, np.float32), np.ones(16, np.float32)
    tiny_out = np.empty_like(tiny)
    tx = ty = tsmall = tsmall_out = ttiny = ttiny2 = ttiny_out = None
    if torch:
        tx, ty, tsmall = torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(small)
        tout, tsmall_out = torch.empty_like(tx), torch.empty_like(tsmall)
        ttiny, ttiny2, ttiny_out = torch.from_numpy(tiny), torch.from_numpy(tiny2), torch.empty(16)
    n = x.nbytes
    fused = dlk.kernel("bench_fused(x, y) = (x * y + 1) * x - y * 0.5")
    yield case_of("add", 3 * n, lambda: dlk.add(x, y, out=out), lambda: np.add(x, y, out=out), lambda: torch.add(tx, ty, out=tout))
    yield case_of("x + x.T", 3 * n, lambda: dlk.add(x, x.T, out=out), lambda: np.add(x, x.T, out=out), lambda: torch.add(tx, tx.T, out=tout))
    yield case_of("sum over axis 0", n, lambda: dlk.sum(x, axis=0), lambda: np.sum(x, axis=0), lambda: torch.sum(tx, 0), 1e-3)
    yield case_of("sum over axis 1", n, lambda: dlk.sum(x, axis=1), lambda: np.sum(x, axis=1), lambda: torch.sum(tx, 1), 1e-3)
    yield case_of("exp, in cache", 2 * small.nbytes, lambda: dlk.exp(small, out=small_out), lambda: np.exp(small, out=small_out),
                  lambda: torch.exp(tsmall, out=tsmall_out))
    yield case_of("tanh, in cache", 2 * small.nbytes, lambda: dlk.tanh(small, out=small_out), lambda: np.tanh(small, out=small_out),
                  lambda: torch.tanh(tsmall, out=tsmall_out))

    def numpy_softmax():
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    yield case_of("softmax", 2 * n, lambda: dlk.softmax(x, axis=1, out=out), numpy_softmax, lambda: torch.softmax(tx, 1, out=tout))
    if torch:
        bx, by = tx.bfloat16(), ty.bfloat16()
        bout = torch.empty_like(bx)

        def check_bf16():
            assert torch.equal(dlk.add(bx, by), bx + by)

        yield Case("bfloat16 add", 3 * n // 2, check_bf16, dlk=lambda: dlk.add(bx, by, out=bout), torch=lambda: torch.add(bx, by, out=bout))
    yield case_of("add of 16 elements", 192, lambda: dlk.add(tiny, tiny2, out=tiny_out), lambda: np.add(tiny, tiny2, out=tiny_out),
                  lambda: torch.add(ttiny, ttiny2, out=ttiny_out))
    yield case_of("(x*y + 1)*x - y*0.5", 3 * n, lambda: fused(x, y, out=out), lambda: (x * y + 1) * x - y * np.float32(0.5),
                  lambda: (tx * ty + 1) * tx - ty * 0.5, 1e-4)


def once(run, repeat):
    start = time.perf_counter_ns()
    for _ in range(repeat):
        run()
    return (time.perf_counter_ns() - start) / repeat


def measure(runs, rounds, budget_ns):
    repeat = {peer: max(1, int(budget_ns / max(1, once(run, 2)))) for peer, run in runs.items()}
    times = {peer: [] for peer in runs}
    for _ in range(rounds):
        for peer, run in runs.items():
            times[peer].append(once(run, repeat[peer]))
    return {peer: statistics.median(t) for peer, t in times.items()}


def bandwidth_probe(nbytes, rounds):
    """Bytes a second that dlk.copy of a large array reads and writes: the machine's limit for one pass."""
    source, target = np.ones(nbytes // 4, np.float32), np.empty(nbytes // 4, np.float32)
    ns = measure({"copy": lambda: dlk.copy(source, out=target)}, rounds, 2e7)["copy"]
    return 2 * nbytes / ns * 1e9


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.processor())
    return {"cpu": model, "python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__ if torch else None,
            "dlk": dlk.__version__, "date": time.strftime("%Y-%m-%d")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller arrays, fewer rounds")
    parser.add_argument("--threads", type=int, default=1, help="threads for dlk and PyTorch (default 1; NumPy has one)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers")
    arguments = parser.parse_args()
    dlk.set_option("num_threads", str(arguments.threads))
    if torch:
        torch.set_num_threads(arguments.threads)
    side, rounds = (1024, 5) if arguments.quick else (4096, 11)
    limit = bandwidth_probe(side * side * 4, rounds)
    about = machine()
    print(f"{about['cpu']}; NumPy {about['numpy']}, PyTorch {about['torch'] or 'not installed'}, {arguments.threads} thread(s); "
          f"copy moves {limit / 1e9:.1f} GB/s")
    print(f"{'case':<22}{'dlk us':>10}{'of copy':>9}{'numpy us':>11}{'torch us':>11}{'best peer / dlk':>17}")
    rows = []
    for case in make_cases(side):
        case.check()
        ns = measure(case.runs, rounds, 1e7)
        peers = [t for peer, t in ns.items() if peer != "dlk"]
        share = case.moved_bytes / ns["dlk"] * 1e9 / limit
        cell = {peer: f"{ns[peer] / 1e3:.2f}" if peer in ns else "-" for peer in ("numpy", "torch")}
        print(f"{case.name:<22}{ns['dlk'] / 1e3:>10.2f}{share:>9.2f}{cell['numpy']:>11}{cell['torch']:>11}{min(peers) / ns['dlk']:>17.2f}", flush=True)
        rows.append({"case": case.name, "ns": ns, "share_of_copy": share, "best_peer_over_dlk": min(peers) / ns["dlk"]})
    if arguments.json:
        with open(arguments.json, "w") as f:
            json.dump({"machine": about, "threads": arguments.threads, "copy_bytes_per_s": limit, "cases": rows}, f, indent=1)


if __name__ == "__main__":
    main()
