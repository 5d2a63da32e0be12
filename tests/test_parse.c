/* The text of definitions: what is read, and for everything that is not, the place and what was expected there. */
#include "tests/test.h"

#include "base/status.h"
#include "kernels/parse.h"

static dlk_status parse(dlk_arena *arena, const char *text, dlk_parsed *out)
{
    return dlk_parse(arena, NULL, text, strlen(text), out);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text, *message;
} errors[] = {
    {"f", "line 1, column 2: found the end of the text, expected '(' and the parameters"},
    {"f(x)", "line 1, column 5: found the end of the text, expected '=' or '{' and the formula"},
    {"f(x) = ", "line 1, column 8: found the end of the text, expected a value"},
    {"f(x) = x +", "line 1, column 11: found the end of the text, expected a value"},
    {"f(x) = (x", "line 1, column 10: found the end of the text, expected ',' or ')'"},
    {"f(x) = ()", "line 1, column 8: found '()', expected a value between the parentheses"},
    {"\n  f(x) = x @ 2", "line 2, column 12: found '@', expected a name, a number or an operator"},
    {"f(x) = x \xc3\xa9", "line 1, column 10: found the byte 0xc3, expected a name, a number or an operator"},
    {"f(x) = 1x", "line 1, column 8: found the number '1x', expected a number as 12, 1.5e-3, 0xff or 0x1.8p3"},
    {"f(x) = 1.5.2", "line 1, column 8: found the number '1.5.2', expected a number as 12, 1.5e-3, 0xff or 0x1.8p3"},
    {"f(x) = 1e", "line 1, column 8: found the number '1e', expected a number as 12, 1.5e-3, 0xff or 0x1.8p3"},
    {"f(x) = 0x", "line 1, column 8: found the number '0x', expected a number as 12, 1.5e-3, 0xff or 0x1.8p3"},
    {"f(x) = 0x1.8",
     "line 1, column 8: found the number '0x1.8', expected an exponent as in 0x1.8p3 behind a hexadecimal point"},
    {"f(x) = 1e5000", "line 1, column 8: the number '1e5000' is out of range"},
    {"f(x) = a < b < c", "line 1, column 14: found '<', expected no second comparison: write a < b && b < c"},
    {"f(x, x) = x", "line 1, column 6: there are two parameters called 'x'"},
    {"f(x: what) = x",
     "line 1, column 6: found 'what', expected a class (bool, int, uint, integer, float, real, complex, "
     "number, any), an exact type as f32, or a type variable"},
    {"f(s: scalar, x) = x", "line 1, column 14: 'x' stands behind a scalar parameter; scalars come last"},
    {"f(x = 1) = x", "line 1, column 5: found '=', expected ',' or ')': only a scalar parameter has a default"},
    {"f(x, s: scalar = y) = x", "line 1, column 18: found 'y', expected the default, a number"},
    {"f(pi) = 1", "line 1, column 3: found the reserved word 'pi', expected the name of a parameter"},
    {"f(x) = { y = x; }",
     "line 1, column 17: found '}', expected the value of the block: its last expression, without ';'"},
    {"f(x) = { y = x y }", "line 1, column 16: found 'y', expected ';' behind the binding"},
    {"f(x) = { x; }", "line 1, column 11: found ';', expected '}': the value of a block has no ';'"},
    {"f(x) = { 3 = x; x }", "line 1, column 10: only a name or a tuple of names can stand before '='"},
    {"f(x) = if x else 2", "line 1, column 11: found 'x', expected 'rare': if rare(condition) value else value"},
    {"f(x) = if rare(x) 1", "line 1, column 20: found the end of the text, expected 'else'"},
    {"f(x) = repeat x (s = 1) { s }", "line 1, column 15: found 'x', expected how often to repeat at most, a number"},
    {"f(x) = repeat 70000 (s = 1) { s }", "line 1, column 15: found '70000', expected an integer up to 65536"},
    {"f(x) = repeat 2.5 (s = 1) { s }", "line 1, column 15: found '2.5', expected an integer up to 65536"},
    {"f(x) = repeat 3 { x }", "line 1, column 17: found '{', expected '(' before the states"},
    {"f(x) = t[1", "line 1, column 11: found the end of the text, expected ']' behind the index"},
    {"table t: f16[1] = {1}",
     "line 1, column 10: found 'f16', expected the type of the elements: f32, f64, or an integer "
     "type as i64"},
    {"table t: f64[3] = {1, 2}", "line 1, column 14: table 't' is declared with 3 elements, but 2 are given"},
    {"table t: f64[0] = {}", "line 1, column 14: table 't' is declared with 0 elements, but 0 are given"},
    {"table t: f64[1] = {x}", "line 1, column 20: found 'x', expected an element of the table, a number"},
    {"reducer r(x) { merge(a, b): a }", "line 1, column 31: found '}', expected a clause 'first: ...' (or 'leaf: "
                                        "...'): the state of one element (or leaf)"},
    {"reducer r(x) { first: x }",
     "line 1, column 25: found '}', expected a clause 'merge(a, b): ...': how two states join"},
    {"reducer r(x) { first: x leaf: x }",
     "line 1, column 25: there is a second 'leaf' (a reducer has either first or leaf)"},
    {"reducer r(x) { start: x }",
     "line 1, column 16: found 'start', expected a clause of a reducer: first, leaf, merge, "
     "identity, empty, finish or unordered"},
    {"f[T, U(x: T) = x", "line 1, column 7: found '(', expected ',' or ']'"},
    {"= 3", "line 1, column 1: found '=', expected a definition: name(parameters) = formula"},
};

TEST(errors_name_place_and_expectation)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        dlk_arena arena = {0};
        dlk_parsed parsed;
        CHECK_INT(parse(&arena, errors[i].text, &parsed), DLK_ERR_SYNTAX);
        CHECK_STR(dlk_last_error(), errors[i].message);
        dlk_arena_free(&arena);
    }
}

/* ---- Caps --------------------------------------------------------------------------------------------------------------------- */

static char *repeated(const char *before, const char *each, int n, const char *after)
{
    char *text = calloc(1, strlen(before) + strlen(each) * (size_t)n + strlen(after) + 1);
    strcpy(text, before);
    char *at = text + strlen(before);
    for (int i = 0; i < n; i++, at += strlen(each))
        memcpy(at, each, strlen(each));
    strcpy(at, after);
    return text;
}

static void check_hostile(char *text, const char *part_of_message)
{
    dlk_arena arena = {0};
    dlk_parsed parsed;
    const dlk_status status = parse(&arena, text, &parsed);
    CHECK_INT(status, part_of_message ? DLK_ERR_SYNTAX : DLK_OK);
    if (part_of_message)
        CHECK_MSG(strstr(dlk_last_error(), part_of_message), "%s", dlk_last_error());
    dlk_arena_free(&arena);
    free(text);
}

TEST(hostile_texts_are_errors)
{
    check_hostile(repeated("f(x) = ", "(", 60000, "x"), "nested deeper than 64");
    check_hostile(repeated("f(x) = ", "-", 60000, "x"), "nested deeper than 64");
    check_hostile(repeated("f(x) = ", "{ a = ", 9000, "x"), "nested deeper than 64");
    check_hostile(repeated("f(x) = ", "g(", 20000, "x"), "nested deeper than 64");
    check_hostile(repeated("f(x) = { ", "(", 60000, "x"), "nested deeper than 64");
    check_hostile(repeated("f(x) = x", " + x", 30000, ""), "the text has 120008 bytes, expected at most 65536");
    check_hostile(repeated("f(x) = x", "+x", 30000, ""), NULL);
    check_hostile(repeated("f(x) = 1", "0", 60000, ""), "out of range");
    check_hostile(repeated("f(x) = 1e", "9", 60000, ""), "out of range");
    check_hostile(repeated("f(x) = (x", ",x", 100, ")"), "more than 64 values");
    check_hostile(repeated("f(x", ",x", 100, ") = x"), "two parameters");
    check_hostile(repeated("f(x) = { (x", ",x", 100, ") = x; x }"), "more than 64");
    check_hostile(repeated("f(x) = if rare(x) 1 else ", "if rare(x) 1 else ", 3000, "2"), "nested deeper than 64");
    check_hostile(repeated("table t: f64[5000] = {", "1,", 5000, "}"), "more than 4096 elements");
    check_hostile(repeated("# ", "x", 60000, ""), NULL);
}

TEST(every_prefix_of_a_text_is_an_error_or_not)
{
    static const char text[] =
        "## doc\nreducer m[T: real](x: T, s: scalar = -1.5e3) {\n first: (x, index())\n merge((a, i), (b, j)): "
        "select(a > b, (a, i), (b, j))\n identity: (-inf, 0x7f) finish((v, i)): i unordered }\ntable t: "
        "f32[2] = { 1, 0x1.8p-3 }\nf(x: f32 | int) { (a, b) = repeat 3 (s = x, n = 0) until n > 2 { s * 2, "
        "n + 1 }; if rare(a > t[b]) -a else ~!b % 3 }";
    for (size_t n = 0; n < sizeof text; n++) {
        dlk_arena arena = {0};
        dlk_parsed parsed;
        const dlk_status status = dlk_parse(&arena, NULL, text, n, &parsed);
        CHECK(status == DLK_OK || status == DLK_ERR_SYNTAX);
        dlk_arena_free(&arena);
    }
}

/* ---- What is read -------------------------------------------------------------------------------------------------------------- */

TEST(definitions_keep_their_texts)
{
    dlk_arena arena = {0};
    dlk_parsed parsed;
    CHECK_INT(
        parse(
            &arena,
            "## Half of x.\n##   Really.\nhalf(x:   float,\n  s: scalar = 2) = x / s # what\n\n## Lost.\n\ng(x) { x }",
            &parsed),
        DLK_OK);
    CHECK_INT(parsed.n, 2);
    CHECK_STR(parsed.defs[0]->name, "half");
    CHECK_STR(parsed.defs[0]->documentation, "Half of x.\nReally.");
    CHECK_STR(parsed.defs[0]->signature, "half(x: float, s: scalar = 2)");
    CHECK_INT(parsed.defs[0]->line, 3);
    CHECK_INT(parsed.defs[0]->text_bytes, strlen("half(x:   float,\n  s: scalar = 2) = x / s"));
    CHECK_STR(parsed.defs[1]->documentation, "");
    dlk_arena_free(&arena);
}

static void show(const dlk_expr *e, char *out)
{
    if (e->kind == DLK_EXPR_NAME) {
        strcat(out, e->name);
        return;
    }
    strcat(out, "(");
    if (e->kind == DLK_EXPR_UNARY)
        strcat(out, dlk_sign_text(e->sign));
    for (int i = 0; i < e->n; i++) {
        if (i)
            strcat(out, dlk_sign_text(e->sign));
        show(e->args[i], out);
    }
    strcat(out, ")");
}

TEST(operators_bind)
{
    static const char *const rows[][2] = {{"a + b * c", "(a+(b*c))"},
                                          {"a - b - c", "((a-b)-c)"},
                                          {"-a * b", "((-a)*b)"},
                                          {"a & b == c", "((a&b)==c)"},
                                          {"a << b + c & d", "((a<<(b+c))&d)"},
                                          {"a | b ^ c & d", "(a|(b^(c&d)))"},
                                          {"a && b || c && d", "((a&&b)||(c&&d))"},
                                          {"!a && b < c", "((!a)&&(b<c))"},
                                          {"~a % b / c", "(((~a)%b)/c)"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dlk_arena arena = {0};
        dlk_parsed parsed;
        char text[128], found[256] = "";
        snprintf(text, sizeof text, "f(a, b, c, d) = %s", rows[i][0]);
        CHECK_INT(parse(&arena, text, &parsed), DLK_OK);
        show(parsed.defs[0]->body, found);
        CHECK_STR(found, rows[i][1]);
        dlk_arena_free(&arena);
    }
}

/* ---- Literals ------------------------------------------------------------------------------------------------------------------- */

static void check_literal(const char *text)
{
    dlk_arena arena = {0};
    dlk_rational value;
    CHECK(dlk_rational_parse(&arena, text, strlen(text), &value));
    const double d = strtod(text, NULL);
    const float f = strtof(text, NULL);
    uint64_t bits;
    uint32_t narrow;
    memcpy(&bits, &d, sizeof bits);
    memcpy(&narrow, &f, sizeof narrow);
    CHECK_MSG(dlk_rational_to_f64(&arena, value) == bits, "%s", text);
    CHECK_MSG(dlk_rational_to_f32(&arena, value) == narrow, "%s", text);
    dlk_arena_free(&arena);
}

/* glibc's strtod and strtof round correctly. */
TEST(literals_round_once)
{
    static const char *const texts[] = {"0",
                                        "1",
                                        "0.1",
                                        "0.3",
                                        "1e23",
                                        "9007199254740993",
                                        "9007199254740992.99999",
                                        "4.9406564584124654e-324",
                                        "2.4703282292062327e-324",
                                        "2.4703282292062328e-324",
                                        "2.2250738585072011e-308",
                                        "1.7976931348623158e308",
                                        "1.7976931348623159e308",
                                        "1e400",
                                        "1e-400",
                                        "3.4028235677973366e38",
                                        "1.401298464324817e-45",
                                        "7.006492321624085e-46",
                                        "7.0064923216240854e-46",
                                        "1.00000005960464477539",
                                        "1.000000059604644775390625",
                                        "1.0000000596046447753906250001",
                                        "0x1p-1074",
                                        "0x1.8p-1074",
                                        "0x.8p-1074",
                                        "0x1.fffffffffffff7fffp1023",
                                        "0x1.fffffffffffff8p1023",
                                        "0x1.000001p0",
                                        "0xffffffffffffffff",
                                        "123456789012345678901234567890",
                                        "1e22",
                                        "8.5e-308"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_literal(texts[i]);
    uint64_t seed = 88172645463325252ull;
    for (int i = 0; i < 2000; i++) {
        char text[64];
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        snprintf(text, sizeof text, "%llu.%llue%d", (unsigned long long)(seed >> 40),
                 (unsigned long long)(seed & 0xffffffff), (int)(seed >> 33 & 0xff) % 80 - 50);
        check_literal(text);
    }
}

TEST(rationals_are_exact)
{
    dlk_arena arena = {0};
    dlk_rational a, b = {0}, c, d = {0};
    uint64_t n;
    CHECK(dlk_rational_parse(&arena, "0.1", 3, &a) && dlk_rational_parse(&arena, "3", 1, &b));
    CHECK(dlk_rational_divide(&arena, a, b, &c) && dlk_rational_multiply(&arena, c, b, &d));
    CHECK_INT(dlk_rational_compare(&arena, d, a), 0);
    CHECK(dlk_rational_add(&arena, a, dlk_rational_negate(a), &d) && dlk_rational_is_zero(d) && !d.is_negative);
    CHECK(dlk_rational_parse(&arena, "18446744073709551615", 20, &a) && dlk_rational_to_u64(&arena, a, &n) &&
          n == UINT64_MAX);
    CHECK(dlk_rational_parse(&arena, "18446744073709551616", 20, &a) && !dlk_rational_to_u64(&arena, a, &n));
    CHECK(dlk_rational_parse(&arena, "1.5", 3, &a) && !dlk_rational_to_u64(&arena, a, &n));
    CHECK(!dlk_rational_divide(&arena, a, d, &c));
    dlk_arena_free(&arena);
}
