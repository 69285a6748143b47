/* Products of rows and centers as whole numbers of 8 bits, and the centers with the highest of them.
 *
 * Centers stand in tiles of 96, the slots. For each row, each slot keeps the two highest keys it has seen: a key is the
 * score of a center (its product with the row plus its bias), shifted to the left, whose last bits are replaced by the
 * number of its tile, earlier tiles above later ones. So keeping the best takes few instructions per 16 scores. All numbers are whole, so
 * every processor finds the same keys: those with VNNI instructions by `compare_bytes`, all others by `add_scores`, from
 * a product of matrices in floating point that is exact for such numbers.
 */
#include "lanes.h"

enum { PARTS = 6, SLOTS = PARTS * LANES, KEPT = 2, ROWS = 4, ROWS_AT_ONCE = 256, RANKS = 256 };
/* About how many bytes of the table are used for all rows at once, so that they stay in the second-level cache. */
enum { CACHED = 400000 };

/* Two lines of keys for each 16 slots: the highest, and the second highest. */
INLINE void keep(whole *kept, whole key)
{
    whole first = kept[0], second = kept[1];
    whole lower = key < first;
    lower = (key & lower) | (first & ~lower);
    whole better = lower > second;
    kept[1] = (lower & better) | (second & ~better);
    better = key > first;
    kept[0] = (key & better) | (first & ~better);
}

/* Keep the best of a few tiles, given the products as floating-point numbers, one line of 96 per tile and row. */
FAST size add_scores(const float *products, size n, size tiles, const int32_t *bias, size first, size shift, size low,
                     int32_t *keys)
{
    for (size i = 0; i < n; i++) {
        loosewhole *kept = (loosewhole *)(keys + i * KEPT * SLOTS);
        for (size part = 0; part < PARTS; part++) {
            whole best[KEPT] = {kept[KEPT * part], kept[KEPT * part + 1]};
            for (size t = 0; t < tiles; t++) {
                size at = t * SLOTS + part * LANES;
                const float *from = products + i * tiles * SLOTS + at;
                int32_t scores[LANES];
                for (size lane = 0; lane < LANES; lane++)
                    scores[lane] = ((int32_t)from[lane] + bias[at + lane]) * (1 << shift);
                keep(best, (*(const loosewhole *)scores & ~(int32_t)low) | (int32_t)(low - first - t));
            }
            kept[KEPT * part] = best[0];
            kept[KEPT * part + 1] = best[1];
        }
    }
    return 0;
}

INLINE whole larger(whole a, whole b)
{
    whole mask = a > b;
    return (a & mask) | (b & ~mask);
}

typedef int32_t four __attribute__((vector_size(16)));
typedef int64_t pair __attribute__((vector_size(16)));

INLINE int any(whole mask)
{
    pair part[4];
    __builtin_memcpy(part, &mask, sizeof part);
    pair joined = (part[0] | part[1]) | (part[2] | part[3]);
    return (joined[0] | joined[1]) != 0;
}

INLINE four larger_four(four a, four b)
{
    four mask = a > b;
    return (a & mask) | (b & ~mask);
}

INLINE int32_t highest_lane(whole all)
{
    four part[4];
    __builtin_memcpy(part, &all, sizeof part);
    four top = larger_four(larger_four(part[0], part[1]), larger_four(part[2], part[3]));
    int32_t left = top[0] > top[1] ? top[0] : top[1], right = top[2] > top[3] ? top[2] : top[3];
    return left > right ? left : right;
}

/* A key that at least `count` keys of a row reach: of the highest keys of every 16th place, the `count`-th. */
INLINE int32_t reached(const loosewhole *keys, size count)
{
    whole top = keys[0], low = {0};
    low += INT32_MIN;
    for (size v = 1; v < KEPT * PARTS; v++)
        top = larger(top, keys[v]);
    int32_t bound = INT32_MIN;
    for (size c = 0; c < count; c++) {
        bound = highest_lane(top);
        whole below = top < bound;
        top = (top & below) | (low & ~below);
    }
    return bound;
}

/* The centers with the highest keys of each row, best first; of equal keys, the first in the line. */
FAST size pick_few(const int32_t *keys, size n, size low, size count, int32_t *places)
{
    for (size i = 0; i < n; i++, keys += KEPT * SLOTS, places += count) {
        /* A rank is a key with its slot, so that it is higher for a higher key, and on a tie for the first slot. There
         * are no branches that the processor could not predict. */
        int64_t hits[LANES], best[MOST_LISTED];
        int32_t bound = reached((const loosewhole *)keys, count);
        for (size c = 0; c < count; c++)
            best[c] = INT64_MIN;
        for (size start = 0; start < KEPT * SLOTS; start += LANES) {
            size found = 0;
            if (!any(*(const loosewhole *)(keys + start) >= bound))
                continue;
            for (size slot = start; slot < start + LANES; slot++) {
                hits[found] = (int64_t)keys[slot] * RANKS + (RANKS - 1 - slot);
                found += keys[slot] >= bound;
            }
            for (size h = 0; h < found; h++)
                for (size c = 0; c < count; c++) {
                    int64_t old = best[c], new = hits[h];
                    best[c] = old > new ? old : new;
                    hits[h] = old > new ? new : old;
                }
        }
        for (size c = 0; c < count; c++) {
            size slot = RANKS - 1 - (best[c] & (RANKS - 1)), tile = low - (keys[slot] & low);
            places[c] = (int32_t)(tile * SLOTS + slot / (KEPT * LANES) * LANES + slot % LANES);
        }
    }
    return 0;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(PLAIN)
#include <immintrin.h>
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

/* Keep the best of one tile for four rows, given its scores. */
VNNI static __attribute__((noinline)) void keep_four(const int32_t *scores, size tile, size shift, size low,
                                                     int32_t *keys)
{
    const __m128i left = _mm_cvtsi32_si128((int)shift);
    const __m512i rest = _mm512_set1_epi32(~(int32_t)low), number = _mm512_set1_epi32((int32_t)(low - tile));
    for (int part = 0; part < ROWS * PARTS; part++, scores += LANES, keys += KEPT * LANES) {
        __m512i score = _mm512_sll_epi32(_mm512_loadu_si512(scores), left);
        __m512i key = _mm512_or_si512(_mm512_and_si512(score, rest), number);
        __m512i best = _mm512_loadu_si512(keys), second = _mm512_loadu_si512(keys + LANES);
        _mm512_storeu_si512(keys + LANES, _mm512_max_epi32(second, _mm512_min_epi32(best, key)));
        _mm512_storeu_si512(keys, _mm512_max_epi32(best, key));
    }
}

/* Four rows and some tiles; `rows` are the codes plus 128, four columns of a center stand together in the table. The sums
 * take nearly all registers, so what happens to them afterwards is a function of its own. */
VNNI static void compare_four(const uint8_t *rows, size width, const int8_t *table, const int32_t *bias, size tiles,
                              size first, size shift, size low, int32_t *keys)
{
    for (size t = 0; t < tiles; t++, table += width * SLOTS, bias += SLOTS) {
        __m512i sums[ROWS][PARTS];
        int32_t scores[ROWS * SLOTS];
        for (int part = 0; part < PARTS; part++)
            for (int row = 0; row < ROWS; row++)
                sums[row][part] = _mm512_loadu_si512(bias + part * LANES);
        for (size column = 0; column < width; column += 4) {
            __m512i own[PARTS];
            for (int part = 0; part < PARTS; part++)
                own[part] = _mm512_loadu_si512(table + (column * PARTS + part * 4) * LANES);
            for (int row = 0; row < ROWS; row++) {
                int32_t group;
                __builtin_memcpy(&group, rows + row * width + column, sizeof group);
                __m512i broadcast = _mm512_set1_epi32(group);
                for (int part = 0; part < PARTS; part++)
                    sums[row][part] = _mm512_dpbusd_epi32(sums[row][part], broadcast, own[part]);
            }
        }
        for (int row = 0; row < ROWS; row++)
            for (int part = 0; part < PARTS; part++)
                _mm512_storeu_si512(scores + row * SLOTS + part * LANES, sums[row][part]);
        keep_four(scores, first + t, shift, low, keys);
    }
}

/* Keep the best of all tiles for n rows, a multiple of four, of `width` numbers, another one. */
size compare_bytes(const uint8_t *rows, size n, size width, const int8_t *table, const int32_t *bias, size tiles,
                   size shift, size low, int32_t *keys)
{
    size together = CACHED / (width * SLOTS) + 1;
    for (size start = 0; start < n; start += ROWS_AT_ONCE)
        for (size first = 0; first < tiles; first += together) {
            size few = tiles - first < together ? tiles - first : together;
            for (size i = start; i < n && i < start + ROWS_AT_ONCE; i += ROWS)
                compare_four(rows + i * width, width, table + first * width * SLOTS, bias + first * SLOTS, few, first, shift, low,
                             keys + i * KEPT * SLOTS);
        }
    return 0;
}

size has_bytes(void)
{
    return __builtin_cpu_supports("avx512vnni") != 0;
}
#else
size compare_bytes(const uint8_t *rows, size n, size width, const int8_t *table, const int32_t *bias, size tiles,
                   size shift, size low, int32_t *keys)
{
    return -1;
}

size has_bytes(void)
{
    return 0;
}
#endif
