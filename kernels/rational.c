/* Natural numbers as arrays of 32-bit limbs, and fractions of them. Numbers are small (a few limbs) and few, so the plain
 * schoolbook ways do. */
#include "kernels/rational.h"

#define LIMB_BITS     32
#define EXPONENT_MAX  4000 /* decimal or binary, of a literal */
#define QUOTIENT_BITS 64

/* ---- Natural numbers --------------------------------------------------------------------------------------------- */

static dlk_natural trimmed(const uint32_t *limb, int n)
{
    while (n > 0 && limb[n - 1] == 0)
        n--;
    return (dlk_natural){limb, n};
}

static dlk_natural natural(dlk_arena *arena, uint64_t value)
{
    uint32_t *limb = DLK_NEW_ARRAY(arena, uint32_t, 2);
    limb[0] = (uint32_t)value;
    limb[1] = (uint32_t)(value >> LIMB_BITS);
    return trimmed(limb, 2);
}

static int bit_length(dlk_natural a)
{
    return a.n == 0 ? 0 : a.n * LIMB_BITS - __builtin_clz(a.limb[a.n - 1]);
}

static int compare(dlk_natural a, dlk_natural b)
{
    if (a.n != b.n)
        return a.n < b.n ? -1 : 1;
    for (int i = a.n - 1; i >= 0; i--)
        if (a.limb[i] != b.limb[i])
            return a.limb[i] < b.limb[i] ? -1 : 1;
    return 0;
}

static dlk_natural add(dlk_arena *arena, dlk_natural a, dlk_natural b)
{
    const int n = (a.n > b.n ? a.n : b.n) + 1;
    uint32_t *limb = DLK_NEW_ARRAY(arena, uint32_t, n);
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
        carry += (uint64_t)(i < a.n ? a.limb[i] : 0) + (i < b.n ? b.limb[i] : 0);
        limb[i] = (uint32_t)carry;
        carry >>= LIMB_BITS;
    }
    return trimmed(limb, n);
}

/* a - b, a not below b. */
static dlk_natural subtract(dlk_arena *arena, dlk_natural a, dlk_natural b)
{
    uint32_t *limb = DLK_NEW_ARRAY(arena, uint32_t, a.n);
    int64_t borrow = 0;
    for (int i = 0; i < a.n; i++) {
        borrow += (int64_t)a.limb[i] - (i < b.n ? b.limb[i] : 0);
        limb[i] = (uint32_t)borrow;
        borrow >>= LIMB_BITS;
    }
    return trimmed(limb, a.n);
}

static dlk_natural multiply(dlk_arena *arena, dlk_natural a, dlk_natural b)
{
    uint32_t *limb = DLK_NEW_ARRAY(arena, uint32_t, a.n + b.n);
    for (int i = 0; i < a.n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b.n; j++) {
            carry += (uint64_t)a.limb[i] * b.limb[j] + limb[i + j];
            limb[i + j] = (uint32_t)carry;
            carry >>= LIMB_BITS;
        }
        limb[i + b.n] = (uint32_t)carry;
    }
    return trimmed(limb, a.n + b.n);
}

static dlk_natural shift_left(dlk_arena *arena, dlk_natural a, int bits)
{
    const int limbs = bits / LIMB_BITS, rest = bits % LIMB_BITS, n = a.n + limbs + 1;
    uint32_t *limb = DLK_NEW_ARRAY(arena, uint32_t, n);
    for (int i = 0; i < a.n; i++) {
        const uint64_t moved = (uint64_t)a.limb[i] << rest;
        limb[i + limbs] |= (uint32_t)moved;
        limb[i + limbs + 1] = (uint32_t)(moved >> LIMB_BITS);
    }
    return trimmed(limb, n);
}

/* Takes b << i from *rest where it fits, bit by bit from the top: the quotient below 2^64, the remainder in *rest. */
static uint64_t divide(dlk_arena *arena, dlk_natural *rest, dlk_natural b)
{
    uint64_t quotient = 0;
    for (int i = QUOTIENT_BITS - 1; i >= 0; i--) {
        if (bit_length(*rest) < bit_length(b) + i)
            continue;
        const dlk_natural taken = shift_left(arena, b, i);
        if (compare(*rest, taken) < 0)
            continue;
        *rest = subtract(arena, *rest, taken);
        quotient |= 1ull << i;
    }
    return quotient;
}

static dlk_natural power(dlk_arena *arena, uint32_t base, int exponent)
{
    dlk_natural result = natural(arena, 1), square = natural(arena, base);
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            result = multiply(arena, result, square);
        if (exponent > 1)
            square = multiply(arena, square, square);
    }
    return result;
}

/* ---- Rounding ---------------------------------------------------------------------------------------------------- */

typedef struct float_format {
    int precision;    /* bits of the significand, the hidden one too */
    int lowest;       /* exponent of the smallest subnormal */
    int exponent_max; /* the field of infinity */
} float_format;

/* The significand at weight 2^weight, from quotient * 2^-scale and whether something more is left. */
static uint64_t round_quotient(uint64_t quotient, int dropped, bool has_rest)
{
    if (dropped > QUOTIENT_BITS)
        return 0;
    const uint64_t kept = dropped == QUOTIENT_BITS ? 0 : quotient >> dropped;
    const uint64_t half = 1ull << (dropped - 1), low = quotient & (half | (half - 1));
    const bool is_up = low > half || (low == half && (has_rest || (kept & 1)));
    return kept + is_up;
}

static uint64_t low_word(dlk_natural a)
{
    return (a.n > 0 ? a.limb[0] : 0) | (a.n > 1 ? (uint64_t)a.limb[1] << LIMB_BITS : 0);
}

/* The exponent of a power of two, or -1. */
static int log2_exact(dlk_natural a)
{
    for (int i = 0; i < a.n - 1; i++)
        if (a.limb[i])
            return -1;
    return a.n && (a.limb[a.n - 1] & (a.limb[a.n - 1] - 1)) == 0 ? bit_length(a) - 1 : -1;
}

/* numerator * 2^scale / denominator, and whether the division leaves something. Most literals are hexadecimal floats or
 * integers: a short numerator over a power of two, which is shifted. */
static uint64_t scaled_quotient(dlk_arena *arena, dlk_rational a, int scale, bool *has_rest)
{
    const int log2 = log2_exact(a.denominator);
    if (log2 >= 0 && a.numerator.n <= 2) {
        const uint64_t word = low_word(a.numerator);
        const int shift = scale - log2; /* the quotient has at most 56 bits, so that neither way overflows */
        *has_rest = shift < 0 && word << (64 + shift) != 0;
        return shift >= 0 ? word << shift : word >> -shift;
    }
    dlk_natural rest = scale > 0 ? shift_left(arena, a.numerator, scale) : a.numerator;
    const dlk_natural divisor = scale < 0 ? shift_left(arena, a.denominator, -scale) : a.denominator;
    const uint64_t quotient = divide(arena, &rest, divisor);
    *has_rest = rest.n != 0;
    return quotient;
}

/* Bits without the sign. */
static uint64_t round_magnitude(dlk_arena *arena, dlk_rational a, const float_format *format)
{
    if (a.numerator.n == 0)
        return 0;
    /* A quotient of two or three bits more than the significand. */
    const int scale = format->precision + 2 - (bit_length(a.numerator) - bit_length(a.denominator));
    bool has_rest;
    const uint64_t quotient = scaled_quotient(arena, a, scale, &has_rest);
    const int top = 63 - __builtin_clzll(quotient) - scale; /* exponent of the first bit */
    int weight = top - (format->precision - 1);
    if (weight < format->lowest)
        weight = format->lowest;
    const uint64_t significand = round_quotient(quotient, weight + scale, has_rest);
    const uint64_t hidden = 1ull << (format->precision - 1);
    if (significand < hidden)
        return significand; /* a subnormal: weight is the lowest */
    const int field = weight - format->lowest + 1 + (significand == hidden * 2);
    if (field >= format->exponent_max)
        return (uint64_t)format->exponent_max << (format->precision - 1);
    return ((uint64_t)field << (format->precision - 1)) | (significand == hidden * 2 ? 0 : significand - hidden);
}

/* ---- Parsing ------------------------------------------------------------------------------------------------------- */

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* text[*at...] as a signed exponent; far ones stop at a bound that is out of range anyway. */
static int parse_exponent(const char *text, size_t length, size_t at)
{
    const bool is_negative = at < length && text[at] == '-';
    int value = 0;
    if (at < length && (text[at] == '-' || text[at] == '+'))
        at++;
    for (; at < length; at++)
        if (value <= EXPONENT_MAX)
            value = value * 10 + digit_value(text[at]);
    return is_negative ? -value : value;
}

typedef struct digits {
    dlk_natural value;
    int after_point; /* digits */
    size_t end;      /* where the exponent letter stands, or the length */
} digits;

static bool parse_digits(dlk_arena *arena, const char *text, size_t length, uint32_t base, digits *out)
{
    const int most = length / 8 + 1 < DLK_RATIONAL_LIMBS_MAX ? (int)(length / 8 + 1) : DLK_RATIONAL_LIMBS_MAX;
    uint32_t *limb = DLK_NEW_ARRAY(arena, uint32_t, most); /* a digit has four bits at most */
    bool is_fraction = false;
    int n = 0;
    size_t at = 0;
    out->after_point = 0;
    for (; at < length; at++) {
        if (text[at] == '.') {
            is_fraction = true;
            continue;
        }
        if ((base == 10 && (text[at] | 0x20) == 'e') || (base == 16 && (text[at] | 0x20) == 'p'))
            break;
        uint64_t carry = (uint64_t)digit_value(text[at]);
        for (int i = 0; i < n; i++) {
            carry += (uint64_t)limb[i] * base;
            limb[i] = (uint32_t)carry;
            carry >>= LIMB_BITS;
        }
        if (carry && n == most)
            return false;
        if (carry)
            limb[n++] = (uint32_t)carry;
        out->after_point += is_fraction;
    }
    out->value = trimmed(limb, n);
    out->end = at;
    return true;
}

static bool is_within(dlk_rational a)
{
    return a.numerator.n <= DLK_RATIONAL_LIMBS_MAX && a.denominator.n <= DLK_RATIONAL_LIMBS_MAX;
}

/* ---- Exported ------------------------------------------------------------------------------------------------------- */

bool dlk_rational_add(dlk_arena *arena, dlk_rational a, dlk_rational b, dlk_rational *out)
{
    const dlk_natural left = multiply(arena, a.numerator, b.denominator);
    const dlk_natural right = multiply(arena, b.numerator, a.denominator);
    out->denominator = multiply(arena, a.denominator, b.denominator);
    const bool is_left_larger = compare(left, right) >= 0;
    if (a.is_negative == b.is_negative) {
        out->numerator = add(arena, left, right);
        out->is_negative = a.is_negative;
    } else {
        out->numerator = is_left_larger ? subtract(arena, left, right) : subtract(arena, right, left);
        out->is_negative = out->numerator.n && (is_left_larger ? a.is_negative : b.is_negative);
    }
    return is_within(*out);
}

bool dlk_rational_multiply(dlk_arena *arena, dlk_rational a, dlk_rational b, dlk_rational *out)
{
    out->is_negative = a.is_negative != b.is_negative;
    out->numerator = multiply(arena, a.numerator, b.numerator);
    out->denominator = multiply(arena, a.denominator, b.denominator);
    return is_within(*out);
}

bool dlk_rational_divide(dlk_arena *arena, dlk_rational a, dlk_rational b, dlk_rational *out)
{
    if (b.numerator.n == 0)
        return false;
    return dlk_rational_multiply(arena, a, (dlk_rational){b.is_negative, b.denominator, b.numerator}, out);
}

bool dlk_rational_parse(dlk_arena *arena, const char *text, size_t length, dlk_rational *out)
{
    const bool is_hex = length > 2 && text[0] == '0' && (text[1] | 0x20) == 'x';
    digits d;
    if (is_hex) {
        text += 2;
        length -= 2;
    }
    if (!parse_digits(arena, text, length, is_hex ? 16 : 10, &d))
        return false;
    int exponent = d.end < length ? parse_exponent(text, length, d.end + 1) : 0;
    exponent -= is_hex ? 4 * d.after_point : d.after_point;
    if (exponent > EXPONENT_MAX || exponent < -2 * EXPONENT_MAX)
        return false;
    const int magnitude = exponent < 0 ? -exponent : exponent;
    const dlk_natural one = natural(arena, 1);
    const dlk_natural scale = is_hex ? shift_left(arena, one, magnitude) : power(arena, 10, magnitude);
    out->is_negative = false;
    out->numerator = exponent > 0 ? multiply(arena, d.value, scale) : d.value;
    out->denominator = exponent < 0 ? scale : one;
    return is_within(*out);
}

dlk_rational dlk_rational_negate(dlk_rational a)
{
    a.is_negative = !a.is_negative;
    return a;
}

bool dlk_rational_is_zero(dlk_rational a)
{
    return a.numerator.n == 0;
}

int dlk_rational_compare(dlk_arena *arena, dlk_rational a, dlk_rational b)
{
    const dlk_natural left = multiply(arena, a.numerator, b.denominator);
    const dlk_natural right = multiply(arena, b.numerator, a.denominator);
    const int magnitudes = compare(left, right);
    if (left.n == 0 && right.n == 0)
        return 0;
    if (a.is_negative != b.is_negative)
        return a.is_negative ? -1 : 1;
    return a.is_negative ? -magnitudes : magnitudes;
}

bool dlk_rational_to_u64(dlk_arena *arena, dlk_rational a, uint64_t *out)
{
    if (a.numerator.n <= 2 && a.denominator.n == 1 && a.denominator.limb[0] == 1) {
        *out = low_word(a.numerator);
        return true;
    }
    if (bit_length(a.numerator) - bit_length(a.denominator) > QUOTIENT_BITS)
        return false;
    dlk_natural rest = a.numerator;
    *out = divide(arena, &rest, a.denominator);
    return rest.n == 0;
}

uint64_t dlk_rational_to_f64(dlk_arena *arena, dlk_rational a)
{
    static const float_format format = {53, -1074, 2047};
    return round_magnitude(arena, a, &format) | (uint64_t)a.is_negative << 63;
}

uint32_t dlk_rational_to_f32(dlk_arena *arena, dlk_rational a)
{
    static const float_format format = {24, -149, 255};
    return (uint32_t)round_magnitude(arena, a, &format) | (uint32_t)a.is_negative << 31;
}
