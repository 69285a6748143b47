/* Sixteen numbers that are computed together, and how functions are built for several processors. */
#ifndef CORESIFT_LANES_H
#define CORESIFT_LANES_H

#include <stddef.h>
#include <stdint.h>

#ifdef PLAIN
#define FAST
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FAST
#endif
#define INLINE static inline __attribute__((always_inline))

/* MOST_LISTED is the most centers on a list, and the most candidates for a seed. */
enum { LANES = 16, MOST_LISTED = 16 };

typedef ptrdiff_t size;

/* The compiler uses whatever registers the processor has. */
typedef float lanes __attribute__((vector_size(64)));
typedef float loose __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t whole __attribute__((vector_size(64)));
typedef int32_t loosewhole __attribute__((vector_size(64), aligned(4), may_alias));

INLINE lanes load(const float *from)
{
    return *(const loose *)from;
}

#endif
