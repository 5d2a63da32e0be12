/* Every storage format both ways, against a reference that knows a format only as the list of its values: what is stored is
 * the nearest of them, the even one of two that are equally near. */
#include "tests/test.h"

#include "codegen/dtype.h"
#include "tests/prog_eval.h"

/* ---- The reference ----------------------------------------------------------------------------------------------------------- */

/* The value of a code of a small format, by its definition. */
static double value_of(int dtype, uint32_t code)
{
    const dlk_dtype_info *info = &dlk_dtypes[dtype];
    const int e = info->exponent_bits, m = info->mantissa_bits, bias = (1 << (e - 1)) - 1;
    const uint32_t exponent = code >> m & ((1u << e) - 1), mantissa = code & ((1u << m) - 1);
    const double sign = code >> (e + m) & 1 ? -1 : 1;
    const bool is_full = exponent == (1u << e) - 1;
    if (is_full && info->special == DLK_SPECIAL_IEEE)
        return mantissa ? NAN : sign * INFINITY;
    if (is_full && mantissa == (1u << m) - 1)
        return NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - m);
    return sign * ldexp((double)(mantissa + (1u << m)), (int)exponent - bias - m);
}

/* Codes from 0 to this one (exclusive) are the finite magnitudes, in order. */
static uint32_t finite_codes(int dtype)
{
    const dlk_dtype_info *info = &dlk_dtypes[dtype];
    const uint32_t all = (1u << (info->exponent_bits + info->mantissa_bits));
    return info->special == DLK_SPECIAL_IEEE ? all - (1u << info->mantissa_bits) : all - 1;
}

/* Code of the magnitude nearest to x >= 0; values of long double hold f64, int64 and uint64 exactly. */
static uint32_t nearest_code(int dtype, long double x, bool saturate)
{
    const uint32_t end = finite_codes(dtype);
    uint32_t low = 0, high = end; /* the greatest code whose value is not above x lies in [low, high) */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (value_of(dtype, middle) <= x)
            low = middle;
        else
            high = middle;
    }
    /* Above the largest there is a virtual next value, where the format would go on. */
    const long double below = value_of(dtype, low);
    const long double step = below - (low ? value_of(dtype, low - 1) : -value_of(dtype, 1));
    const long double above = low + 1 < end ? value_of(dtype, low + 1) : below + step;
    const long double half = below + (above - below) / 2;
    const uint32_t code = x > half || (x == half && (low & 1)) ? low + 1 : low;
    return code == end && saturate ? end - 1 : code > end ? end : code;
}

static bool is_nan_code(int dtype, uint32_t code)
{
    return isnan(value_of(dtype, code));
}

/* ---- Conversions as programs --------------------------------------------------------------------------------------------------- */

typedef struct conversion {
    dlk_arena arena;
    dlk_prog *prog;
    prog_eval eval;
    uint64_t word;
} conversion;

static uint64_t load_word(void *context, int operand, int part, int64_t element)
{
    (void)operand;
    (void)part;
    (void)element;
    return ((conversion *)context)->word;
}

static void begin(conversion *c, int from, int to, bool saturate)
{
    memset(c, 0, sizeof *c);
    c->prog = dlk_prog_create(&c->arena);
    const dlk_ref word = dlk_prog_input(c->prog, 0, 0, dlk_dtypes[from].storage);
    const dlk_ref value = dlk_prog_decode(c->prog, from, word);
    const bool is_unsigned = dlk_dtypes[from].class_ == DLK_CLASS_UINT || dlk_dtypes[from].class_ == DLK_CLASS_BOOL;
    c->prog->outputs[0].part[0] = dlk_prog_encode(c->prog, to, value, is_unsigned, saturate);
    prog_eval_begin(&c->eval, c->prog, load_word, c, 1);
}

static uint64_t convert(conversion *c, uint64_t word)
{
    c->word = word;
    return prog_eval_output(&c->eval, 0, 0, 0);
}

static void end(conversion *c)
{
    prog_eval_end(&c->eval);
    dlk_arena_free(&c->arena);
}

static uint64_t bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t bits_of_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float f32_from(uint64_t word)
{
    const uint32_t bits = (uint32_t)word;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static const int narrow[] = {DLK_DTYPE_F16, DLK_DTYPE_BF16, DLK_DTYPE_F8E4M3FN};

TEST(every_code_decodes_to_its_value)
{
    for (size_t i = 0; i < 3; i++) {
        conversion c;
        begin(&c, narrow[i], DLK_DTYPE_F32, false);
        for (uint32_t code = 0; code < 1u << dlk_dtypes[narrow[i]].bits; code++) {
            const float found = f32_from(convert(&c, code));
            const double expected = value_of(narrow[i], code);
            CHECK_MSG(isnan(expected) ? isnan(found) : found == expected && !signbit(found) == !signbit(expected),
                      "%s 0x%x is %g, expected %g", dlk_dtypes[narrow[i]].name, code, found, expected);
        }
        end(&c);
    }
}

TEST(copying_keeps_every_bit)
{
    for (size_t i = 0; i < 3; i++) {
        conversion c;
        begin(&c, narrow[i], narrow[i], false);
        const dlk_prog_output *output = &c.prog->outputs[0];
        CHECK_INT(c.prog->nodes[output->part[0]].op, DLK_PROG_INPUT);
        end(&c);
    }
}

/* A value that was computed is encoded: f32 holds every narrow value, so that it must come back. */
TEST(every_value_encodes_to_its_code)
{
    for (size_t i = 0; i < 3; i++) {
        conversion c;
        begin(&c, DLK_DTYPE_F32, narrow[i], false);
        for (uint32_t code = 0; code < 1u << dlk_dtypes[narrow[i]].bits; code++) {
            const double value = value_of(narrow[i], code);
            const uint64_t found = convert(&c, bits_of_f32((float)value));
            CHECK_MSG(isnan(value) ? is_nan_code(narrow[i], (uint32_t)found) : found == code,
                      "%s %g is 0x%x, expected 0x%x", dlk_dtypes[narrow[i]].name, value, (unsigned)found, code);
        }
        end(&c);
    }
}

static void check_magnitude(conversion *c, int from, int to, double x, bool saturate)
{
    const uint32_t sign = 1u << (dlk_dtypes[to].bits - 1);
    for (int negative = 0; negative < 2; negative++) {
        const double signed_x = negative ? -x : x;
        const uint64_t word = from == DLK_DTYPE_F32 ? bits_of_f32((float)signed_x) : bits_of_f64(signed_x);
        const uint32_t found = (uint32_t)convert(c, word);
        const uint32_t expected = nearest_code(to, x, saturate) | (negative ? sign : 0);
        CHECK_MSG(found == expected, "%s %.20g to %s: 0x%x, expected 0x%x", dlk_dtypes[from].name, signed_x,
                  dlk_dtypes[to].name, found, expected);
    }
}

/* Each value, the middle to the next one, and the nearest numbers of the source type on both sides of either. */
static void check_around_codes(int from, int to, bool saturate)
{
    conversion c;
    begin(&c, from, to, saturate);
    const uint32_t end_code = finite_codes(to);
    const bool is_f32 = from == DLK_DTYPE_F32;
    const uint32_t stride = dlk_dtypes[to].bits == 8 ? 1 : 7;
    for (uint32_t code = 0; code < end_code; code += code + 40 < end_code && code > 40 ? stride : 1) {
        const double value = value_of(to, code);
        const double step = value - (code ? value_of(to, code - 1) : -value_of(to, 1));
        const double next = code + 1 < end_code ? value_of(to, code + 1) : value + step;
        const double at[2] = {value, value + (next - value) / 2};
        for (int k = 0; k < 2; k++) {
            check_magnitude(&c, from, to, at[k], saturate);
            check_magnitude(&c, from, to,
                            is_f32 ? (double)nextafterf((float)at[k], INFINITY) : nextafter(at[k], INFINITY), saturate);
            if (at[k] > 0)
                check_magnitude(&c, from, to, is_f32 ? (double)nextafterf((float)at[k], 0) : nextafter(at[k], 0),
                                saturate);
        }
    }
    end(&c);
}

TEST(f32_rounds_to_the_nearest_once)
{
    for (size_t i = 0; i < 3; i++)
        check_around_codes(DLK_DTYPE_F32, narrow[i], false);
}

TEST(f64_rounds_to_the_nearest_once)
{
    for (size_t i = 0; i < 3; i++)
        check_around_codes(DLK_DTYPE_F64, narrow[i], false);
}

TEST(fp8_saturates_when_asked)
{
    check_around_codes(DLK_DTYPE_F32, DLK_DTYPE_F8E4M3FN, true);
    check_around_codes(DLK_DTYPE_F64, DLK_DTYPE_F8E4M3FN, true);
}

TEST(fp8_overflows_to_nan_as_published)
{
    static const float values[] = {448, 464, 464.00003f, 480, 1e9f, -1e9f, INFINITY, NAN};
    static const uint8_t plain[] = {0x7e, 0x7e, 0x7f, 0x7f, 0x7f, 0xff, 0x7f, 0x7f};
    static const uint8_t saturated[] = {0x7e, 0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x7e, 0x7f};
    for (int saturate = 0; saturate < 2; saturate++) {
        conversion c;
        begin(&c, DLK_DTYPE_F32, DLK_DTYPE_F8E4M3FN, saturate);
        for (int i = 0; i < 8; i++)
            CHECK_INT(convert(&c, bits_of_f32(values[i])), saturate ? saturated[i] : plain[i]);
        end(&c);
    }
}

TEST(nan_stays_nan_with_its_sign)
{
    static const uint32_t nans[] = {0x7f800001, 0x7fffffff, 0xff80ffff, 0x7fc00000, 0xffc00000};
    for (size_t i = 0; i < 3; i++) {
        conversion c;
        begin(&c, DLK_DTYPE_F32, narrow[i], false);
        for (int k = 0; k < 5; k++) {
            const uint32_t code = (uint32_t)convert(&c, nans[k]);
            CHECK_MSG(is_nan_code(narrow[i], code), "%s of 0x%x is 0x%x", dlk_dtypes[narrow[i]].name, nans[k], code);
            if (narrow[i] != DLK_DTYPE_F16) /* the primitive may drop it there */
                CHECK_INT(code >> (dlk_dtypes[narrow[i]].bits - 1), nans[k] >> 31);
        }
        end(&c);
    }
}

static void check_integer(conversion *c, int from, int to, uint64_t word)
{
    const int bits = dlk_dtypes[from].bits;
    const bool is_signed = dlk_dtypes[from].class_ == DLK_CLASS_INT;
    const uint64_t low = bits == 64 ? word : word & ((1ull << bits) - 1);
    const bool negative = is_signed && low >> (bits - 1);
    const uint64_t magnitude = negative ? (0 - low) & (bits == 64 ? ~0ull : (1ull << bits) - 1) : low;
    const uint32_t sign = 1u << (dlk_dtypes[to].bits - 1);
    const uint32_t found = (uint32_t)convert(c, low);
    const uint32_t expected = nearest_code(to, (long double)magnitude, false) | (negative ? sign : 0);
    CHECK_MSG(found == expected, "%s 0x%llx to %s: 0x%x, expected 0x%x", dlk_dtypes[from].name, (unsigned long long)low,
              dlk_dtypes[to].name, found, expected);
}

/* Integers around every tie between neighbours: from int64 through f32 they would round twice. */
TEST(integers_round_once)
{
    static const int from[] = {DLK_DTYPE_I8, DLK_DTYPE_I16, DLK_DTYPE_I32, DLK_DTYPE_I64,
                               DLK_DTYPE_U8, DLK_DTYPE_U16, DLK_DTYPE_U32, DLK_DTYPE_U64};
    for (size_t i = 0; i < 3; i++)
        for (size_t f = 0; f < 8; f++) {
            conversion c;
            begin(&c, from[f], narrow[i], false);
            for (int bit = 0; bit < 64; bit++)
                for (uint64_t top = 128; top < 256; top += 5) {
                    const uint64_t tie = bit < 56 ? (2 * top + 1) << bit : ~0ull << (bit - 8);
                    for (int64_t d = -2; d <= 2; d++) {
                        check_integer(&c, from[f], narrow[i], tie + (uint64_t)d);
                        check_integer(&c, from[f], narrow[i], 0 - (tie + (uint64_t)d));
                    }
                }
            check_integer(&c, from[f], narrow[i], 1ull << 63);
            check_integer(&c, from[f], narrow[i], 0);
            end(&c);
        }
}

TEST(floats_become_integers)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 3e9f, -1.5f, 300, 1e20f, -1e20f, 255.9f, -0.9f};
    static const int64_t i8[] = {0, 127, -128, 127, -1, 127, 127, -128, 127, 0};
    static const int64_t u8[] = {0, 255, 0, 255, 0, 255, 255, 0, 255, 0};
    static const int64_t i32[] = {0, INT32_MAX, INT32_MIN, INT32_MAX, -1, 300, INT32_MAX, INT32_MIN, 255, 0};
    static const uint64_t u64[] = {0, UINT64_MAX, 0, 3000000000, 0, 300, UINT64_MAX, 0, 255, 0};
    static const struct {
        int dtype;
        const void *expected;
    } rows[] = {{DLK_DTYPE_I8, i8}, {DLK_DTYPE_U8, u8}, {DLK_DTYPE_I32, i32}, {DLK_DTYPE_U64, u64}};
    for (size_t r = 0; r < 4; r++)
        for (int wide = 0; wide < 2; wide++) {
            conversion c;
            begin(&c, wide ? DLK_DTYPE_F64 : DLK_DTYPE_F32, rows[r].dtype, false);
            const int bits = dlk_dtypes[rows[r].dtype].bits;
            const uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
            for (int i = 0; i < 10; i++) {
                const uint64_t word = wide ? bits_of_f64((double)values[i]) : bits_of_f32(values[i]);
                CHECK_INT(convert(&c, word), ((const uint64_t *)rows[r].expected)[i] & mask);
            }
            end(&c);
        }
}

TEST(bool_bytes_are_normalised)
{
    conversion c;
    begin(&c, DLK_DTYPE_BOOL, DLK_DTYPE_BOOL, false);
    static const uint8_t bytes[] = {0, 1, 2, 128, 255};
    for (int i = 0; i < 5; i++)
        CHECK_INT(convert(&c, bytes[i]), bytes[i] != 0);
    end(&c);
    begin(&c, DLK_DTYPE_F64, DLK_DTYPE_BOOL, false);
    CHECK_INT(convert(&c, bits_of_f64(NAN)), 1);
    CHECK_INT(convert(&c, bits_of_f64(-0.0)), 0);
    CHECK_INT(convert(&c, bits_of_f64(5e-324)), 1);
    end(&c);
    begin(&c, DLK_DTYPE_BOOL, DLK_DTYPE_F16, false);
    CHECK_INT(convert(&c, 7), 0x3c00);
    end(&c);
}

TEST(integers_wrap_and_widen)
{
    conversion c;
    begin(&c, DLK_DTYPE_I64, DLK_DTYPE_I8, false);
    CHECK_INT(convert(&c, 300), 300 & 0xff);
    end(&c);
    begin(&c, DLK_DTYPE_I8, DLK_DTYPE_U64, false);
    CHECK_INT(convert(&c, 0xff), -1);
    end(&c);
    begin(&c, DLK_DTYPE_U8, DLK_DTYPE_I32, false);
    CHECK_INT(convert(&c, 0xff), 255);
    end(&c);
    begin(&c, DLK_DTYPE_U64, DLK_DTYPE_F32, false); /* through f64 this would be 2^63 */
    CHECK_INT(convert(&c, 0x8000008000000001ull), bits_of_f32(0x1.000002p63f));
    end(&c);
}
