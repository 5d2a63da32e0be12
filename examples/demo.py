"""What dlk does, on real arrays: `./run demo`."""
import time

import numpy as np

import dlk

try:
    import torch
except ImportError:
    torch = None


def timed(run, repeat=7):
    run()
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def row(what, **peers):
    times = {name: timed(run) for name, run in peers.items() if run}
    print(f"  {what:<46}" + "".join(f"{name} {ms:9.3f} ms   " for name, ms in times.items()))


def title(text):
    print(f"\n{text}\n{'-' * len(text)}")


def main():
    rng = np.random.default_rng(7)
    x, y = (rng.standard_normal((2048, 2048), dtype=np.float32) for _ in range(2))
    out = np.empty_like(x)
    tx, ty = (torch.from_numpy(x), torch.from_numpy(y)) if torch else (None, None)

    title("Devices")
    for device in dlk.devices():
        print(f"  {device['backend']}:{device['id']}  {device['name']}  {device['target']}  {device['description']}")

    title("One formula, one pass over memory (2048 x 2048 float32)")
    fused = dlk.kernel("demo_fused(x, y) = x / (1 + abs(x)) * sigmoid(y) + 0.5")
    reference = x / (1 + np.abs(x)) * (1 / (1 + np.exp(-y))) + np.float32(0.5)
    assert np.allclose(fused(x, y), reference, rtol=1e-5, atol=1e-6)
    print(f"  {fused.source}")
    row("the formula", dlk=lambda: fused(x, y, out=out), numpy=lambda: x / (1 + np.abs(x)) * (1 / (1 + np.exp(-y))) + np.float32(0.5),
        torch=torch and (lambda: tx / (1 + tx.abs()) * torch.sigmoid(ty) + 0.5))

    title("Any layout, without copies")
    assert np.array_equal(dlk.add(x, x.T), x + x.T)
    row("x + x.T", dlk=lambda: dlk.add(x, x.T, out=out), numpy=lambda: np.add(x, x.T, out=out), torch=torch and (lambda: tx + tx.T))
    assert np.array_equal(dlk.multiply(x[::2, ::-1], y[1::2]), x[::2, ::-1] * y[1::2])
    half = np.empty((1024, 2048), np.float32)
    row("x[::2, ::-1] * y[1::2]", dlk=lambda: dlk.multiply(x[::2, ::-1], y[1::2], out=half), numpy=lambda: np.multiply(x[::2, ::-1], y[1::2], out=half))

    title("Reductions that keep every digit")
    ones = np.ones((2**25, 2), np.float32)
    print(f"  sum of 2^25 float32 ones down a column: dlk {dlk.sum(ones, axis=0)[0]:.0f}, numpy {ones.sum(axis=0)[0]:.0f}")
    for axis in (0, 1):
        row(f"sum over axis {axis}", dlk=lambda: dlk.sum(x, axis=axis), numpy=lambda: x.sum(axis=axis), torch=torch and (lambda: tx.sum(axis)))
    row("softmax over axis 1", dlk=lambda: dlk.softmax(x, axis=1, out=out), torch=torch and (lambda: torch.softmax(tx, 1)))

    if torch:
        title("The result is the caller's own kind of array")
        z = dlk.add(tx, x)
        print(f"  dlk.add(torch tensor, numpy array) -> {type(z).__module__}.{type(z).__name__}, equal to torch's: {torch.equal(z, tx + tx)}")
        b = tx.bfloat16()
        assert torch.equal(dlk.add(b, b), b + b)
        print(f"  dlk.add on bfloat16 -> {dlk.add(b, b).dtype}")

    title("A thousand shapes share a handful of kernels")
    before = dlk.counters()
    for _ in range(1000):
        m, n = rng.integers(1, 64, 2)
        dlk.subtract(np.ones((m, n), np.float32), np.ones((m, n), np.float32))
    after = dlk.counters()
    print(f"  1000 launches of random shapes compiled {after['compiles'] - before['compiles']} kernels; so far: {after['compiles']} compiles "
          f"in {after['compile_ns'] / 1e6:.1f} ms, {after['launches']} launches, {after['plan_hits']} of them with a ready plan")

    title("The code of one kernel: x + y on float32[1024]")
    vector = np.ones(1024, np.float32)
    for stage in ("ir", "asm"):
        text = dlk.dump(dlk.add, (vector, vector), stage)
        lines = text.splitlines()
        print("\n".join("  " + line for line in lines[:24]))
        if len(lines) > 24:
            print(f"  ... {len(lines) - 24} more lines: dlk show add 'f32[1024]' 'f32[1024]'")


if __name__ == "__main__":
    main()
