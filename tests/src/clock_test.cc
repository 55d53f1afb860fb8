#include "src/clock.h"

#include <doctest/doctest.h>
#include <time.h>

#include <cstdint>

#include "storage/slab.h"

TEST_SUITE("src") {
  TEST_CASE("expiry times follow memcached's rule: 0 never, 30 days relative, then Unix time") {
    const server::Clock clock;
    const uint32_t now = clock.Now();
    CHECK(now >= server::Clock::kStart);
    CHECK(clock.Expiry(0, now) == 0);
    CHECK(clock.Expiry(-1, now) == kbf::kExpiredAlways);
    CHECK(clock.Expiry(INT64_MIN, now) == kbf::kExpiredAlways);
    CHECK(clock.Expiry(1, now) == now + 1);
    const int64_t month = 60 * 60 * 24 * 30;
    CHECK(clock.Expiry(month, now) == now + month);
    // One second more is a moment of 1970.
    CHECK(clock.Expiry(month + 1, now) == kbf::kExpiredAlways);
    CHECK(clock.Expiry(INT64_MAX, now) == UINT32_MAX);
  }

  TEST_CASE("an absolute expiry time is that many seconds ahead of the time of day") {
    const server::Clock clock;
    const uint32_t now = clock.Now();
    const int64_t unix_now = clock.UnixTime(now);
    CHECK(unix_now >= time(nullptr) - 1);
    CHECK(unix_now <= time(nullptr) + 1);
    CHECK(clock.Expiry(unix_now + 100, now) == now + 100);
    CHECK(clock.Expiry(unix_now - 100, now) == kbf::kExpiredAlways);
  }
}
