#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/flow/flow_trace.h"
#include "tools/kbfflow/monitor.h"
#include "tools/kbfflow/verifier.h"

namespace flow {
namespace {

using kbf::FlowAlarm;

constexpr uint64_t kSecond = 1'000'000;
constexpr uint8_t kSyn = kbf::kTcpSyn, kAck = kbf::kTcpAck, kFin = kbf::kTcpFin,
                  kRst = kbf::kTcpRst;

Endpoint At(unsigned host, uint16_t port) {
  Endpoint endpoint;
  endpoint.address.bytes[12] = 10;
  endpoint.address.bytes[14] = static_cast<uint8_t>(host >> 8);
  endpoint.address.bytes[15] = static_cast<uint8_t>(host);
  endpoint.port = port;
  return endpoint;
}

// An exact monitor and what it has reported.
class World {
 public:
  explicit World(const MonitorSettings& settings)
      : settings_(settings),
        monitor_(settings, kbf::FlowGenerations([] { return std::make_unique<kbf::ExactFlows>(); }),
                 [this](const Report& report) { reports.push_back(report); }) {}

  void Send(uint64_t second, const Endpoint& from, const Endpoint& to, uint8_t flags,
            bool has_data = false) {
    static const kbf::HashSecret secret = kbf::HashSecret::FromSeed(3);
    const TcpPacket packet{from.address, to.address, from.port, to.port, flags, has_data};
    monitor_.See(KeyOf(packet, second * kSecond, settings_.kind, secret));
  }
  void Open(uint64_t second, const Endpoint& from, const Endpoint& to) {
    Send(second, from, to, kSyn);
    Send(second, to, from, kSyn | kAck);
    Send(second, from, to, kAck);
  }
  Monitor& monitor() { return monitor_; }

  std::vector<Report> reports;

 private:
  MonitorSettings settings_;
  Monitor monitor_;
};

MonitorSettings Connections() {
  MonitorSettings settings;
  settings.kind = kbf::FlowKind::kConnection;
  settings.timeout_us = 30 * kSecond;
  return settings;
}

TEST_SUITE("tools") {
  TEST_CASE("kbfflow reports a handshake without an end after the timeout, with its caller") {
    World world(Connections());
    world.Send(100, At(9, 5000), At(2, 80), kSyn);  // the higher address calls
    world.Send(101, At(9, 5001), At(2, 80), kSyn);
    world.Send(102, At(2, 80), At(9, 5001), kSyn | kAck);
    world.Open(103, At(9, 5002), At(2, 80));
    world.Send(129, At(3, 1), At(4, 1), kAck);
    CHECK(world.reports.empty());
    world.Send(131, At(3, 1), At(4, 1), kAck);
    REQUIRE(world.reports.size() == 2);
    for (unsigned i = 0; i < 2; ++i) {
      CHECK(world.reports[i].alarm == FlowAlarm::kHalfOpen);
      CHECK(world.reports[i].from == At(9, static_cast<uint16_t>(5000 + i)));
      CHECK(world.reports[i].to == At(2, 80));
      CHECK(world.reports[i].waited_us == (31 - i) * kSecond);
    }
    CHECK(world.monitor().flows().size() == 1);  // those that were reported are forgotten
    CHECK(world.monitor().notes() == 1);
  }

  TEST_CASE("kbfflow reports a FIN that nothing follows, and not one that is answered") {
    World world(Connections());
    world.Open(10, At(1, 5000), At(2, 80));
    world.Open(10, At(1, 5001), At(2, 80));
    world.Send(11, At(2, 80), At(1, 5000), kFin | kAck);
    world.Send(11, At(1, 5001), At(2, 80), kFin | kAck);
    world.Send(12, At(2, 80), At(1, 5001), kFin | kAck);
    world.Send(12, At(1, 5001), At(2, 80), kAck);
    world.monitor().Advance(41 * kSecond - 1);
    CHECK(world.reports.empty());
    world.monitor().Advance(41 * kSecond);
    REQUIRE(world.reports.size() == 1);
    CHECK(world.reports[0].alarm == FlowAlarm::kHalfClosed);
    CHECK(world.reports[0].from == At(2, 80));
    CHECK(world.monitor().alarms(FlowAlarm::kHalfClosed) == 1);
    CHECK(world.monitor().flows().size() == 0);
  }

  TEST_CASE("kbfflow reports a reset at once, once, and forgets the flow later") {
    World world(Connections());
    world.Open(10, At(1, 5000), At(2, 80));
    world.Send(11, At(2, 80), At(1, 5000), kRst);
    world.Send(11, At(2, 80), At(1, 5000), kRst);
    REQUIRE(world.reports.size() == 1);
    CHECK(world.reports[0].alarm == FlowAlarm::kReset);
    CHECK(world.reports[0].from == At(2, 80));
    CHECK(world.monitor().flows().size() == 1);
    world.monitor().Finish();
    CHECK(world.reports.size() == 1);
    CHECK(world.monitor().flows().size() == 0);
  }

  TEST_CASE("kbfflow: a flow that begins again is not reported for its first SYN") {
    World world(Connections());
    world.Send(100, At(1, 5000), At(2, 80), kSyn);
    world.Send(101, At(2, 80), At(1, 5000), kRst | kAck);
    world.Send(129, At(1, 5000), At(2, 80), kSyn);
    world.monitor().Advance(131 * kSecond);
    CHECK(world.reports.size() == 1);  // the reset
    world.monitor().Advance(159 * kSecond);
    REQUIRE(world.reports.size() == 2);
    CHECK(world.reports[1].waited_us == 30 * kSecond);
  }

  TEST_CASE("kbfflow: with too many flows to wait for, the oldest is looked at early") {
    MonitorSettings settings = Connections();
    settings.notes_max = 10;
    World world(settings);
    for (unsigned i = 0; i < 25; ++i) world.Send(100 + i / 10, At(i, 5000), At(999, 80), kSyn);
    CHECK(world.monitor().notes() == 10);
    CHECK(world.reports.size() == 15);
    CHECK(world.reports.back().waited_us == 1 * kSecond);
  }

  TEST_CASE("kbfflow: a pair of hosts is one flow, whatever the ports; a connection is not") {
    for (const kbf::FlowKind kind : {kbf::FlowKind::kHostPair, kbf::FlowKind::kConnection}) {
      MonitorSettings settings = Connections();
      settings.kind = kind;
      World world(settings);
      for (uint16_t port = 1; port <= 5; ++port) world.Open(1, At(1, port), At(2, 80));
      CHECK(world.monitor().flows().size() == (kind == kbf::FlowKind::kHostPair ? 1 : 5));
    }
    // One host that talks to itself: the ports say who is who.
    World world(Connections());
    world.Open(1, At(1, 5000), At(1, 80));
    world.Open(1, At(1, 70), At(1, 80));
    CHECK(world.reports.empty());
    CHECK(world.monitor().flows().size() == 2);
  }

  TEST_CASE("kbfflow: time that goes back or leaps does no harm") {
    World world(Connections());
    world.Send(100, At(1, 5000), At(2, 80), kSyn);
    world.Send(5, At(1, 5001), At(2, 80), kSyn);
    world.monitor().Advance(0);
    CHECK(world.reports.empty());
    world.monitor().Advance(~uint64_t{0});
    CHECK(world.reports.size() == 2);
  }

  // Sample: 20,000 flows in filters for 20,000, one tight and one far too small.
  TEST_CASE("kbfflow: the verifier counts exactly where two monitors differ") {
    kbf::FlowTraceShape shape;
    shape.flows = 20'000;
    shape.fin = 300;
    shape.reset = 400;
    for (const bool tight : {true, false}) {
      const MonitorSettings settings = Connections();
      Verifier verifier(settings);
      std::map<FlowAlarm, uint64_t> reported;
      Monitor monitor(settings, kbf::FlowGenerations([tight]() -> std::unique_ptr<kbf::FlowStates> {
                        if (tight) return kbf::KbfFlows::Create({20'000, 1e-5, 1e-7});
                        return kbf::SbfFlows::Create(4'000, 0.1);
                      }),
                      [&](const Report& report) {
                        verifier.Raised(report);
                        ++reported[report.alarm];
                      });
      static const kbf::HashSecret secret = kbf::HashSecret::FromSeed(5);
      kbf::FlowTrace trace(shape);
      while (const auto sent = trace.Next()) {
        Endpoint caller = At(static_cast<unsigned>(sent->flow), 5000), server = At(65535, 80);
        if (!sent->from_caller) std::swap(caller, server);
        const TcpPacket packet{caller.address, server.address, caller.port,
                               server.port,    sent->flags,    sent->data_bytes > 0};
        const KeyedPacket keyed = KeyOf(packet, sent->time_us, settings.kind, secret);
        verifier.See(keyed, monitor.See(keyed));
      }
      monitor.Finish();
      verifier.Finish();
      const Monitor& exact = verifier.exact();
      CHECK(exact.alarms(FlowAlarm::kReset) == 400);
      CHECK(exact.alarms(FlowAlarm::kHalfClosed) == 300);
      CHECK(exact.alarms(FlowAlarm::kHalfOpen) == shape.half_open);
      CHECK(exact.alarms(FlowAlarm::kBadFlags) == shape.illegal);
      uint64_t all = 0, exact_all = 0;
      for (unsigned i = 1; i < kbf::kNumFlowAlarms; ++i) {
        const auto alarm = static_cast<FlowAlarm>(i);
        CHECK(reported[alarm] == monitor.alarms(alarm));
        all += monitor.alarms(alarm);
        exact_all += exact.alarms(alarm);
      }
      CHECK(all - verifier.false_alarms() == exact_all - verifier.missed());
      const LookUpErrors& errors = verifier.errors();
      CHECK(errors.absent >= shape.flows);
      if (tight) {
        CHECK(verifier.missed() + verifier.false_alarms() <= 2);
        CHECK(errors.false_positive + errors.wrong + errors.unknown <= 20);
      } else {
        CHECK(verifier.missed() > 0);
        CHECK(errors.false_positive > 0);
        CHECK(errors.unknown > 0);
      }
    }
  }
}

}  // namespace
}  // namespace flow
