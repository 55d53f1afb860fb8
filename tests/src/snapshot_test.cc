#include <doctest/doctest.h>

#include "src/snapshot/moment.h"

namespace server {
namespace {

std::array<std::byte, 16> Boot(int name) {
  std::array<std::byte, 16> boot{};
  boot.fill(static_cast<std::byte>(name));
  return boot;
}

kbf::ImageMoment Moment(int64_t unix_ms, int64_t boot_ms, int boot, uint32_t store_s = 0) {
  return {store_s, unix_ms, boot_ms, Boot(boot)};
}

constexpr uint32_t kSaved = 5000;

}  // namespace

TEST_SUITE("snapshot") {
  TEST_CASE("snapshot: the clock goes on by what has passed, and never by less") {
    const kbf::ImageMoment saved = Moment(1000000, 300000, 1, kSaved);
    // Ten seconds later, by one clock or both.
    CHECK(StoreTimeAt(Moment(1010000, 310000, 1), saved) == kSaved + 11);
    // A fraction counts as a second.
    CHECK(StoreTimeAt(Moment(1010001, 310001, 1), saved) == kSaved + 12);
    CHECK(StoreTimeAt(saved, saved) == kSaved + 1);
  }

  TEST_CASE("snapshot: without a restart of the machine its wall clock does not count") {
    const kbf::ImageMoment saved = Moment(1000000, 300000, 1, kSaved);
    CHECK(StoreTimeAt(Moment(10, 310000, 1), saved) == kSaved + 11);
    CHECK(StoreTimeAt(Moment(999999999, 310000, 1), saved) == kSaved + 11);
    // The clock since the boot cannot go back.
    CHECK(!StoreTimeAt(Moment(1010000, 299999, 1), saved));
  }

  TEST_CASE("snapshot: after a restart of the machine the wall clock counts, unless it went back") {
    const kbf::ImageMoment saved = Moment(1000000, 300000, 1, kSaved);
    CHECK(StoreTimeAt(Moment(1100000, 50000, 2), saved) == kSaved + 101);
    // What the new boot's clock shows says nothing.
    CHECK(StoreTimeAt(Moment(1100000, 900000, 2), saved) == kSaved + 101);
    CHECK(!StoreTimeAt(Moment(999999, 50000, 2), saved));
  }

  TEST_CASE("snapshot: where boots cannot be told apart, the larger of both clocks counts") {
    const kbf::ImageMoment saved = Moment(1000000, 300000, 0, kSaved);
    CHECK(StoreTimeAt(Moment(1100000, 50000, 0), saved) == kSaved + 101);
    CHECK(StoreTimeAt(Moment(1010000, 400000, 0), saved) == kSaved + 101);
    CHECK(StoreTimeAt(Moment(1010000, 400000, 3), saved) == kSaved + 101);
    CHECK(!StoreTimeAt(Moment(999999, 400000, 0), saved));
  }

  TEST_CASE("snapshot: times that no clock shows are no times") {
    CHECK(!StoreTimeAt(Moment(int64_t{1} << 60, 0, 2), Moment(0, 0, 1)));
    CHECK(!StoreTimeAt(Moment(0, 0, 2), Moment(INT64_MAX, 0, 1)));
    CHECK(!StoreTimeAt(Moment(0, 0, 2), Moment(INT64_MIN, 0, 1)));
    CHECK(!StoreTimeAt(Moment(0, 0, 1), Moment(0, INT64_MIN, 1)));
  }

  TEST_CASE("snapshot: the present is one moment of one boot") {
    const kbf::ImageMoment first = MomentNow(7);
    const kbf::ImageMoment second = MomentNow(7);
    CHECK(first.store_s == 7);
    CHECK(first.boot == second.boot);
    CHECK(first.boot_ms > 0);
    CHECK(second.boot_ms >= first.boot_ms);
  }
}

}  // namespace server
