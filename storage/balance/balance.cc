#include "storage/balance/balance.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <optional>

namespace kbf {

namespace {

// A gain below this share of the mean load squared is rounding.
constexpr double kNoGain = 1e-12;

class Balancer {
 public:
  Balancer(std::span<const double> loads, std::span<const uint32_t> server_of, uint32_t num_servers)
      : loads_(loads),
        server_of_(server_of.begin(), server_of.end()),
        server_loads_(ServerLoads(loads, server_of, num_servers)) {
    const double total = std::accumulate(server_loads_.begin(), server_loads_.end(), 0.0);
    least_gain_ = kNoGain * std::pow(total / num_servers, 2);
  }

  double imbalance() const { return Imbalance(server_loads_); }
  std::vector<uint32_t> TakeServers() { return std::move(server_of_); }

  // Lines 7 and 8 of Algorithm 8.
  std::optional<Exchange> Printed() const {
    const auto [least, most] = std::minmax_element(server_loads_.begin(), server_loads_.end());
    Exchange exchange;
    exchange.server_of_a = static_cast<uint32_t>(most - server_loads_.begin());
    exchange.server_of_b = static_cast<uint32_t>(least - server_loads_.begin());
    if (exchange.server_of_a == exchange.server_of_b) return std::nullopt;
    for (uint32_t slab = 0; slab < loads_.size(); ++slab) {
      const uint32_t server = server_of_[slab];
      if (server == exchange.server_of_a &&
          (exchange.a == Exchange::kNoSlab || loads_[slab] > loads_[exchange.a])) {
        exchange.a = slab;
      }
      if (server == exchange.server_of_b &&
          (exchange.b == Exchange::kNoSlab || loads_[slab] < loads_[exchange.b])) {
        exchange.b = slab;
      }
    }
    if (exchange.a == Exchange::kNoSlab || exchange.b == Exchange::kNoSlab) return std::nullopt;
    return exchange;
  }

  // The exchange that lowers the sum of squared server loads most, and with it ρ, as the mean
  // stays.
  std::optional<Exchange> Best(bool moves_too) const {
    Exchange best;
    double best_gain = least_gain_;
    const auto consider = [&](uint32_t a, uint32_t b, uint32_t from, uint32_t to) {
      const double gain = Gain(from, to, loads_[a] - (b == Exchange::kNoSlab ? 0 : loads_[b]));
      if (gain <= best_gain) return;
      best_gain = gain;
      best = {a, b, from, to, 0};
    };
    for (uint32_t a = 0; a < loads_.size(); ++a) {
      const uint32_t from = server_of_[a];
      for (uint32_t b = 0; b < a; ++b) {
        if (server_of_[b] != from) consider(a, b, from, server_of_[b]);
      }
      for (uint32_t to = 0; moves_too && to < server_loads_.size(); ++to) {
        if (to != from) consider(a, Exchange::kNoSlab, from, to);
      }
    }
    if (best.a == Exchange::kNoSlab) return std::nullopt;
    return best;
  }

  void Apply(Exchange* exchange) {
    const double moved =
        loads_[exchange->a] - (exchange->b == Exchange::kNoSlab ? 0 : loads_[exchange->b]);
    server_loads_[exchange->server_of_a] -= moved;
    server_loads_[exchange->server_of_b] += moved;
    server_of_[exchange->a] = exchange->server_of_b;
    if (exchange->b != Exchange::kNoSlab) server_of_[exchange->b] = exchange->server_of_a;
    exchange->imbalance_after = imbalance();
  }
  double ImbalanceAfter(const Exchange& exchange) const {
    std::vector<double> after = server_loads_;
    const double moved = loads_[exchange.a] - loads_[exchange.b];
    after[exchange.server_of_a] -= moved;
    after[exchange.server_of_b] += moved;
    return Imbalance(after);
  }

 private:
  // What the sum of squares falls by when so much load goes from one server to another.
  double Gain(uint32_t from, uint32_t to, double load) const {
    return 2 * load * (server_loads_[from] - server_loads_[to] - load);
  }

  std::span<const double> loads_;
  std::vector<uint32_t> server_of_;
  std::vector<double> server_loads_;
  double least_gain_;
};

void RunPrinted(Balancer* balancer, unsigned counter_max, BalanceResult* result) {
  for (unsigned counter = 1;; ++counter) {
    auto exchange = balancer->Printed();
    if (!exchange || balancer->ImbalanceAfter(*exchange) > balancer->imbalance()) return;
    if (counter >= counter_max) return;
    balancer->Apply(&*exchange);
    result->exchanges.push_back(*exchange);
  }
}

void RunBest(Balancer* balancer, const BalanceConfig& config, BalanceResult* result) {
  while (result->exchanges.size() < config.exchanges_max) {
    auto exchange = balancer->Best(config.rule == BalanceRule::kSwapOrMove);
    if (!exchange) return;
    balancer->Apply(&*exchange);
    result->exchanges.push_back(*exchange);
  }
}

}  // namespace

std::vector<double> ServerLoads(std::span<const double> loads, std::span<const uint32_t> server_of,
                                uint32_t num_servers) {
  assert(loads.size() == server_of.size());
  std::vector<double> server_loads(num_servers, 0.0);
  for (size_t slab = 0; slab < loads.size(); ++slab) {
    assert(server_of[slab] < num_servers);
    server_loads[server_of[slab]] += loads[slab];
  }
  return server_loads;
}

double Imbalance(std::span<const double> server_loads) {
  const auto count = static_cast<double>(server_loads.size());
  const double mean = std::accumulate(server_loads.begin(), server_loads.end(), 0.0) / count;
  if (!(mean > 0)) return 0;
  double squares = 0;
  for (const double load : server_loads) squares += (load - mean) * (load - mean);
  return std::sqrt(squares / count) / mean;
}

BalanceResult Balance(std::span<const double> loads, std::span<const uint32_t> server_of,
                      uint32_t num_servers, const BalanceConfig& config) {
  assert(num_servers > 0);
  Balancer balancer(loads, server_of, num_servers);
  BalanceResult result;
  result.imbalance_before = balancer.imbalance();
  if (config.rule == BalanceRule::kPrinted) {
    RunPrinted(&balancer, config.exchanges_max, &result);
  } else {
    RunBest(&balancer, config, &result);
  }
  result.imbalance_after = balancer.imbalance();
  result.server_of = balancer.TakeServers();
  return result;
}

}  // namespace kbf
