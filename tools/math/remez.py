"""Minimax polynomials for kernels/math.dlk: `python3 tools/math/remez.py` prints every table of coefficients there.

Needs mpmath. Each row asks for the polynomial P of a degree that minimises the largest |w(x) (P(x) - f(x))| on an interval,
by Remez's exchange at 60 digits; coefficients are then rounded to the format from the lowest up, fitting the rest anew
after each, so that the rounding of one is made good by the next.
"""
import mpmath as mp

mp.mp.dps = 60


def solve(f, w, points, degree, fixed):
    """The free coefficients and the levelled error: w(x) (P(x) - f(x)) alternates over `points`."""
    free = [k for k in range(degree + 1) if k not in fixed]
    n = len(free) + 1
    A, b = mp.matrix(n, n), mp.matrix(n, 1)
    for i, x in enumerate(points[:n]):
        for j, k in enumerate(free):
            A[i, j] = w(x) * x**k
        A[i, n - 1] = (-1) ** i
        b[i] = w(x) * (f(x) - sum(c * x**k for k, c in fixed.items()))
    s = mp.lu_solve(A, b)
    return {k: s[j] for j, k in enumerate(free)}, abs(s[n - 1])


def extrema(error, a, b, n):
    """n alternating extrema of `error`, from a fine grid."""
    grid = [a + (b - a) * (1 - mp.cos(mp.pi * k / 400)) / 2 for k in range(401)]
    values = [error(x) for x in grid]
    peaks = []
    for k, v in enumerate(values):
        left, right = values[k - 1] if k else 0, values[k + 1] if k + 1 < len(values) else 0
        if (v > 0 and (k == 0 or v >= left) and (k + 1 == len(values) or v >= right)) or (v < 0 and (k == 0 or v <= left) and (k + 1 == len(values) or v <= right)):
            if peaks and peaks[-1][1] * v > 0:
                if abs(v) > abs(peaks[-1][1]):
                    peaks[-1] = (grid[k], v)
            else:
                peaks.append((grid[k], v))
    while len(peaks) > n:
        peaks.pop(0 if abs(peaks[0][1]) < abs(peaks[-1][1]) else -1)
    return [p[0] for p in peaks]


def remez(f, w, a, b, degree, fixed):
    n = degree + 2 - len(fixed)
    points = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    for _ in range(12):
        found, level = solve(f, w, points, degree, fixed)
        coefficients = {**fixed, **found}
        better = extrema(lambda x: w(x) * (sum(c * x**k for k, c in coefficients.items()) - f(x)), a, b, n)
        if len(better) < n:
            break
        points = better
    return coefficients, level


def round_to(value, bits):
    if value == 0:
        return mp.mpf(0)
    e = mp.floor(mp.log(abs(value), 2))
    return mp.nint(value * mp.mpf(2) ** (bits - 1 - e)) * mp.mpf(2) ** (e - bits + 1)


def fit(name, f, w, a, b, degree, bits, fixed=None):
    fixed = dict(fixed or {})
    if bits > 24:  # rounding to float64 is far below the error of any of these
        coefficients, _ = remez(f, w, a, b, degree, fixed)
        fixed = {k: round_to(c, bits) for k, c in coefficients.items()}
    for k in range(degree + 1):
        if k not in fixed:
            coefficients, level = remez(f, w, a, b, degree, fixed)
            fixed[k] = round_to(coefficients[k], bits)
    worst = max(abs(w(x) * (sum(c * x**k for k, c in fixed.items()) - f(x))) for x in [a + (b - a) * k / 1000 for k in range(1001)])
    print(f"{name}: degree {degree}, {bits} bits, error 2^{mp.nstr(mp.log(worst, 2), 5)}")
    for k in range(degree + 1):
        print(f"  c{k} = {float(fixed[k]).hex()}")


def about(value, g, series):
    """g(x), or its series where g would divide by zero."""
    return lambda x: series if abs(x) < mp.mpf(10) ** -25 else g(x)


def main():
    one, half_ln2 = mp.mpf(1), mp.log(2) / 2 * mp.mpf("1.002")
    # exp(r) = 1 + r + r^2 P(r), absolute error of the whole
    exp_rest = about(0, lambda r: (mp.exp(r) - 1 - r) / r**2, one / 2)
    fit("exp f32", exp_rest, lambda r: r**2 / mp.exp(r), -half_ln2, half_ln2, 4, 24)
    fit("exp f64", exp_rest, lambda r: r**2 / mp.exp(r), -half_ln2, half_ln2, 9, 53)
    fit("exp f64 in gelu", exp_rest, lambda r: r**2 / mp.exp(r), -half_ln2, half_ln2, 6, 53)
    # log(1 + f) = f - f^2 / 2 + f^3 P(f)
    lo, hi = mp.sqrt(one / 2) - 1, mp.sqrt(2) - 1
    log_rest = about(0, lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3, one / 3)
    fit("log f32", log_rest, lambda f: abs(f) ** 3 / max(abs(mp.log(1 + f)), mp.mpf("1e-30")), lo, hi, 8, 24)
    # log(1 + f) = 2 atanh(s), s = f / (2 + f): 2 s + s z P(z), z = s^2
    smax = hi / (2 + hi)
    atanh_rest = about(0, lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, 2 * one / 3)
    fit("log f64", atanh_rest, lambda z: z, mp.mpf(0), smax**2 * mp.mpf("1.01"), 7, 53)
    # sin(r) = r (1 + z P(z)), z = r^2, |r| < pi / 2, in float64 for a result in float32
    half_pi = (mp.pi / 2) ** 2 * mp.mpf("1.002")
    sin_rest = about(0, lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -one / 6)
    fit("sin f32", sin_rest, lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)) if z > mp.mpf("1e-20") else z, mp.mpf(0), half_pi, 4, 53)
    # tanh(x) = x + x z P(z), z = x^2, |x| < 0.55
    tanh_rest = about(0, lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -one / 3)
    fit("tanh f32", tanh_rest, lambda z: z, mp.mpf(0), mp.mpf("0.3030"), 4, 24)
    fit("tanh f64", tanh_rest, lambda z: z, mp.mpf(0), mp.mpf("0.3030"), 10, 53)
    # the normal tail: Phi(-t) exp(t^2 / 2) as a polynomial of u = (t - 4) / (t + 4), t in [0, 15]
    def tail(u):
        t = 4 * (1 + u) / (1 - u)
        return mp.erfc(t / mp.sqrt(2)) / 2 * mp.exp(t * t / 2)

    fit("gelu tail", tail, lambda u: 1 / tail(u), mp.mpf(-1), mp.mpf(11) / 19, 16, 53)


if __name__ == "__main__":
    main()
