/* The inner loops of clustering that matrix products cannot do: compare a row with a few centers of its own, add rows to
 * the sums of their centers, and place seeds. numpy spends most of its time here on moving temporary arrays through memory.
 * `compiled.py` calls these functions, and `plain.py` has the same in numpy.
 *
 * Matrices are float32 with unit stride within a row; `stride` is the distance between rows in numbers. Sums run in 16
 * lanes in a fixed order, and products and sums are rounded one by one (-ffp-contract=off), so results depend neither on
 * threads nor on the processor. Nothing is allocated, and numbers of rows and centers must be valid.
 */
#include <math.h>

#include "lanes.h"

enum { TILE = 64, AHEAD = 12, LINE = 64 };
/* Squares below this have lost some or all of their digits in single precision. */
static const float TINY = 1e-30f;

typedef float quarter __attribute__((vector_size(16)));

INLINE lanes lower(lanes a, lanes b)
{
    whole mask = a < b;
    return (lanes)(((whole)a & mask) | ((whole)b & ~mask));
}

INLINE float sum_lanes(lanes all)
{
    quarter part[4];
    __builtin_memcpy(part, &all, sizeof part);
    quarter sum = (part[0] + part[1]) + (part[2] + part[3]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

INLINE float dot(const float *a, const float *b, size d)
{
    lanes even = {0}, odd = {0};
    float rest = 0;
    size i = 0;
    for (; i + 2 * LANES <= d; i += 2 * LANES) {
        even += load(a + i) * load(b + i);
        odd += load(a + i + LANES) * load(b + i + LANES);
    }
    for (; i + LANES <= d; i += LANES)
        even += load(a + i) * load(b + i);
    for (; i < d; i++)
        rest += a[i] * b[i];
    return sum_lanes(even + odd) + rest;
}

INLINE float squared_distance(const float *a, const float *b, size d)
{
    lanes even = {0}, odd = {0};
    float rest = 0;
    size i = 0;
    for (; i + 2 * LANES <= d; i += 2 * LANES) {
        lanes first = load(a + i) - load(b + i), second = load(a + i + LANES) - load(b + i + LANES);
        even += first * first;
        odd += second * second;
    }
    for (; i + LANES <= d; i += LANES) {
        lanes gap = load(a + i) - load(b + i);
        even += gap * gap;
    }
    for (; i < d; i++) {
        float gap = a[i] - b[i];
        rest += gap * gap;
    }
    return sum_lanes(even + odd) + rest;
}

INLINE float distance(const float *a, const float *b, size d)
{
    float squared = squared_distance(a, b, d);
    if (!(squared < TINY))
        return sqrtf(squared);
    double exact = 0;
    for (size i = 0; i < d; i++) {
        double gap = (double)a[i] - (double)b[i];
        exact += gap * gap;
    }
    return (float)sqrt(exact);
}

/* Rows by number are spread over memory, so a row is asked for while some before it are compared. */
INLINE void ask_for(const float *row, size d)
{
    for (size i = 0; i < d; i += LINE / (size)sizeof *row)
        __builtin_prefetch(row + i);
    __builtin_prefetch(row + d - 1);
}

/* The nearest of `count` centers for each row, the first one on a tie, and its distance. */
FAST size nearest_of(const float *rows, size stride, size n, size d, const float *centers, const int32_t *options,
                     size count, int32_t *labels, float *distances)
{
    for (size i = 0; i < n; i++) {
        const float *row = rows + i * stride;
        const int32_t *own = options + i * count;
        int32_t best = own[0];
        float least = distance(row, centers + best * d, d);
        for (size c = 1; c < count; c++) {
            float away = distance(row, centers + own[c] * d, d);
            if (away < least) {
                least = away;
                best = own[c];
            }
        }
        labels[i] = best;
        distances[i] = least;
    }
    return 0;
}

/* Products of rows, given by number, with the lines of the table that their own lists name. */
FAST size score_listed(const float *rows, size stride, size n, size d, const int64_t *ids, const float *table,
                       const int32_t *lists, size count, float *scores)
{
    for (size i = 0; i < n; i++) {
        const float *row = rows + ids[i] * stride;
        ask_for(rows + ids[i + AHEAD < n ? i + AHEAD : n - 1] * stride, d);
        for (size c = 0; c < count; c++)
            scores[i * count + c] = dot(row, table + (size)lists[i * count + c] * d, d);
    }
    return 0;
}

/* The two best centers on the lists of some rows.
 *
 * Everything but `ids` has one entry per row of the sample (`scores` has two). */
FAST size follow_lists(const float *rows, size stride, size d, const float *norms, const int64_t *ids, size n,
                       const float *table, const int32_t *lists, size count, const float *drift, int32_t *labels,
                       int32_t *second, float *scores, float *margins, float *since)
{
    for (size i = 0; i < n; i++) {
        size id = ids[i], later = ids[i + AHEAD < n ? i + AHEAD : n - 1];
        const float *row = rows + id * stride;
        const int32_t *list = lists + id * count;
        ask_for(rows + later * stride, d);
        __builtin_prefetch(lists + later * count);
        __builtin_prefetch(lists + later * count + count - 1);
        __builtin_prefetch(norms + later);
        __builtin_prefetch(labels + later, 1);
        __builtin_prefetch(second + later, 1);
        __builtin_prefetch(scores + 2 * later, 1);
        __builtin_prefetch(margins + later, 1);
        __builtin_prefetch(since + later, 1);
        int32_t best = list[0], next = list[0];
        float high = -INFINITY, low = -INFINITY;
        for (size c = 0; c < count; c++) {
            float score = dot(row, table + (size)list[c] * d, d);
            if (score > high) {
                low = high;
                next = best;
                high = score;
                best = list[c];
            } else if (score > low) {
                low = score;
                next = list[c];
            }
        }
        float near = norms[id] - 2 * high, far = norms[id] - 2 * low;
        labels[id] = best;
        second[id] = next;
        scores[2 * id] = high;
        scores[2 * id + 1] = low;
        margins[id] = sqrtf(far > 0 ? far : 0) - sqrtf(near > 0 ? near : 0);
        since[id] = drift[best];
    }
    return 0;
}

/* Add rows, given by number or all in order, times their weights to the sums of their labels, in this order; `width` is
 * the distance between two lines of sums. */
FAST size add_rows(const float *rows, size stride, size n, size d, const int64_t *ids, const int32_t *labels,
                   const double *weights, double *sums, size width)
{
    for (size i = 0; i < n; i++) {
        const float *row = rows + (ids ? ids[i] : i) * stride;
        if (ids)
            ask_for(rows + ids[i + AHEAD < n ? i + AHEAD : n - 1] * stride, d);
        double *own = sums + (size)labels[i] * width, weight = weights[i];
        for (size j = 0; j < d; j++)
            own[j] += weight * row[j];
    }
    return 0;
}

INLINE double weighted(const float *squared, size i, double half, const double *weights)
{
    double power = half == 1 ? (double)squared[i] : pow((double)squared[i], half);
    return weights ? weights[i] * power : power;
}

/* Σ weight·D^z, in four sums at a time. */
INLINE double cost_of(const float *squared, size n, double half, const double *weights)
{
    double sum[4] = {0};
    size i = 0;
    for (; i + 4 <= n; i += 4)
        for (int part = 0; part < 4; part++)
            sum[part] += weighted(squared, i + part, half, weights);
    for (; i < n; i++)
        sum[0] += weighted(squared, i, half, weights);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The first place where the sums exceed a mark, or the last place. */
INLINE size place_of(const double *cumulative, size n, double mark)
{
    size low = 0, high = n - 1;
    while (low < high) {
        size middle = (low + high) / 2;
        if (cumulative[middle] > mark)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Squared distances to the nearest seed if this candidate becomes one, for a number of tiles. */
INLINE void add_candidate(const float *tiles, size count, size d, size candidate, const float *closest, float *option)
{
    const float *own = tiles + candidate / TILE * TILE * d + candidate % TILE;
    for (size tile = 0; tile < count; tile++, closest += TILE, option += TILE) {
        const float *column = tiles + tile * TILE * d;
        lanes sum[TILE / LANES] = {{0}};
        for (size j = 0; j < d; j++, column += TILE)
            for (int part = 0; part < TILE / LANES; part++) {
                lanes gap = load(column + part * LANES) - own[j * TILE];
                sum[part] += gap * gap;
            }
        for (int part = 0; part < TILE / LANES; part++)
            *(loose *)(option + part * LANES) = lower(load(closest + part * LANES), sum[part]);
    }
}

/* Greedy D^z sampling: each seed is the best of `tries` candidates. Returns how many seeds there are.
 *
 * `tiles` have 64 rows each, transposed; the last one ends with zeros. `draws` has `tries` uniform numbers per
 * seed after the first, `half` is z/2, and `weights` may be NULL. `closest` and each of `tries` `options` have room for
 * whole tiles, `cumulative` for n numbers. */
FAST size place_seeds(const float *tiles, size n, size d, size k, size tries, double half, const double *weights,
                      const double *draws, int64_t *chosen, float *closest, float *options, double *cumulative)
{
    size count = (n + TILE - 1) / TILE, width = count * TILE;
    for (size i = 0; i < width; i++)
        closest[i] = INFINITY;
    add_candidate(tiles, count, d, chosen[0], closest, closest);
    for (size seed = 1; seed < k; seed++) {
        double total = 0, least = INFINITY;
        size best = 0, candidates[MOST_LISTED];
        for (size i = 0; i < n; i++)
            cumulative[i] = total += weighted(closest, i, half, weights);
        if (!(total > 0))
            return seed;
        for (size c = 0; c < tries; c++) {
            candidates[c] = place_of(cumulative, n, draws[(seed - 1) * tries + c] * total);
            add_candidate(tiles, count, d, candidates[c], closest, options + c * width);
            double cost = cost_of(options + c * width, n, half, weights);
            if (cost < least) {
                least = cost;
                best = c;
            }
        }
        chosen[seed] = candidates[best];
        __builtin_memcpy(closest, options + best * width, width * sizeof *closest);
    }
    return k;
}
