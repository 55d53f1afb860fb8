/* The map in C: a country per user. cc -std=c99 example.c $(pkg-config --cflags-only-I --libs kbf)
 */
#include <kbf/kbf.h>
#include <stdio.h>
#include <string.h>

static kbf_status put(kbf_map* map, const char* user, const char* country) {
  return kbf_map_put(map, user, strlen(user), country, strlen(country));
}

static int show(const kbf_map* map, const char* user) {
  const char* country;
  size_t bytes;
  const kbf_status status = kbf_map_get(map, user, strlen(user), &country, &bytes);
  if (status != KBF_OK) {
    printf("%s: %s\n", user, kbf_status_message(status));
    return 0;
  }
  printf("%s: %.*s\n", user, (int)bytes, country);
  return 1;
}

int main(void) {
  const kbf_map_options options = {.capacity = 1000, .distinct_values = 200};
  char error[200];
  kbf_map* map;
  if (kbf_map_create(&options, &map, error, sizeof error) != KBF_OK) {
    fprintf(stderr, "cannot make a map: %s\n", error);
    return 1;
  }
  int good = put(map, "alice", "CH") == KBF_OK && put(map, "bob", "KE") == KBF_OK;
  good = good && show(map, "alice");
  good = good && kbf_map_delete(map, "bob", 3) == KBF_OK && !show(map, "bob");
  kbf_map_free(map);
  return good ? 0 : 1;
}
