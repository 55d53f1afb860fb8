/* kbf_map in C: an approximate map from keys to values that stores no keys. What it may get wrong,
 * and with which probability, is described in <kbf/map.h>; this is the same map for C99 and for
 * languages that call C.
 *
 * Promises:  no call crashes on a null pointer or on an impossible size; such a call returns
 *            KBF_BAD_ARGUMENT (or 0 where it returns a number) and changes nothing. No exception
 *            leaves the library.
 * Requires:  `kbf_map_create (anything else)* kbf_map_free`; one thread that writes, or any number
 *            that read, at a time.
 * Stability: unstable until version 1.0: functions, numbers and structs may change with any
 *            release. Set a struct to zero before filling it in, so that new members have their
 *            defaults.
 */
#ifndef KBF_KBF_H
#define KBF_KBF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kbf_map kbf_map;

/* The numbers of kbf::Status. */
typedef enum kbf_status {
  KBF_OK = 0,
  KBF_NOT_FOUND = 1,
  KBF_UNDECODABLE = 2,
  KBF_EXISTS = 3,
  KBF_FULL = 4,
  KBF_TOO_MANY_VALUES = 5,
  KBF_TOO_LARGE = 6,
  KBF_BAD_ARGUMENT = 7,
  KBF_UNLIKE = 8,
  KBF_CANNOT_HALVE = 9,
  KBF_NO_MEMORY = 10,
  KBF_SYSTEM = 11
} kbf_status;

/* See MapOptions in <kbf/plan.h>. Any member but the capacity may be 0 for its default. */
typedef struct kbf_map_options {
  uint64_t capacity;
  uint64_t distinct_values;
  double false_negative;
  double false_positive;
  uint64_t seed;
} kbf_map_options;

typedef struct kbf_map_stats {
  uint64_t size;
  uint64_t capacity;
  uint64_t num_values;
  uint64_t num_overrides;
  uint64_t memory_bytes;
  double false_negative; /* predicted at the present size */
  double false_positive;
} kbf_map_stats;

/* A sentence without a full stop; never null, also for numbers that are no status. */
const char* kbf_status_message(kbf_status status);
/* "0.1.0" */
const char* kbf_version(void);

/* Makes an empty map in *map, or sets it to null. `error` may be null; otherwise a sentence is
 * written there that says what to change, cut off at error_bytes and always ended by a zero. */
kbf_status kbf_map_create(const kbf_map_options* options, kbf_map** map, char* error,
                          size_t error_bytes);
/* An empty map that can be joined with `like`. */
kbf_status kbf_map_create_like(const kbf_map* like, kbf_map** map);
/* Null is allowed. */
void kbf_map_free(kbf_map* map);

/* Keys and values are any bytes; a pointer may be null if its length is 0. */
kbf_status kbf_map_put(kbf_map* map, const char* key, size_t key_bytes, const char* value,
                       size_t value_bytes);
/* KBF_OK, KBF_NOT_FOUND or KBF_UNDECODABLE. *value is not ended by a zero, and stays valid until
 * this map and all maps made like it are freed. Without KBF_OK, *value is null, *value_bytes 0. */
kbf_status kbf_map_get(const kbf_map* map, const char* key, size_t key_bytes, const char** value,
                       size_t* value_bytes);
kbf_status kbf_map_delete(kbf_map* map, const char* key, size_t key_bytes);
/* Takes in what `other` holds; `other` stays as it is and must be freed as well. */
kbf_status kbf_map_join(kbf_map* map, const kbf_map* other);
kbf_status kbf_map_compress(kbf_map* map);
kbf_status kbf_map_get_stats(const kbf_map* map, kbf_map_stats* stats);

#ifdef __cplusplus
}
#endif

#endif
