#include "src/process/clock.h"

#include <doctest/doctest.h>
#include <time.h>

#include <cstdint>
#include <thread>
#include <vector>

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

  TEST_CASE("a system clock that goes back does not make the uptime 4294880899") {
    server::ManualTime time{100'000, 1'700'000'000};
    const server::Clock clock(&time);
    CHECK(clock.Now() == server::Clock::kStart);
    CHECK(clock.UnixTime(clock.Now()) == 1'700'000'000);
    time.monotonic_s = 100'000 - 86'399;
    CHECK(clock.Now() == server::Clock::kStart);
    time.monotonic_s = 100'050;
    CHECK(clock.Now() == server::Clock::kStart + 50);
    for (const int64_t back : {int64_t{100'049}, int64_t{0}, int64_t{-1'000'000'000'000}}) {
      time.monotonic_s = back;
      CHECK(clock.Now() == server::Clock::kStart + 50);
    }
    time.monotonic_s = 100'051;
    CHECK(clock.Now() == server::Clock::kStart + 51);
    time.monotonic_s = int64_t{1} << 40;
    CHECK(clock.Now() == UINT32_MAX);
  }

  // Each thread moves the time ahead and back itself before it reads, so the test does not depend
  // on when the threads run. Without a maximum in Clock::Now every seventh reading falls.
  TEST_CASE("time never goes back for any of several threads") {
    server::ManualTime time{1000, 0};
    const server::Clock clock(&time);
    std::atomic<uint64_t> fell{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        uint32_t last = 0;
        for (int64_t n = 0; n < 300'000; ++n) {
          time.monotonic_s = 1000 + n - (n % 7) * 3;
          const uint32_t now = clock.Now();
          fell += now < last;
          last = now;
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
    CHECK(fell.load() == 0);
    CHECK(clock.Now() > 200'000);
  }
}
