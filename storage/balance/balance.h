// Balance moves slabs between servers until their loads are alike: Algorithm 8 of [kBF] §5.2 and
// two stronger rules. It decides, and moves nothing itself.
//
// A load is whatever the caller adds up per slab: keys ("by keys", what the paper's evaluation
// does) or queries since the last round ("by queries", what its pseudocode does). The imbalance ρ
// is the standard deviation of the servers' loads over their mean.
//
//   rule            exchanges in each step
//   kPrinted        the most loaded slab of the most loaded server and the least loaded slab of the
//                   least loaded server, as printed; stops when that would raise ρ
//   kBestSwap       the two slabs of any two servers that lower ρ most
//   kSwapOrMove     the same, or gives one slab to another server, whichever lowers ρ more
//
// Mean improvement of ρ on 5 servers with 10 slabs each (tests/storage/balance/balance_test.cc):
//   loads                       kPrinted   kBestSwap   kSwapOrMove
//   uniform                        60.8 %      99.7 %        99.7 %   (the paper: 60.86 %)
//   Zipf 0.99 over the slabs       24 %        65 %          87 %
//
// Promises:  ρ after is not above ρ before. kBestSwap and kSwapOrMove stop when no exchange lowers
//            ρ. A slab that is counted as moved really has another server at the end of the step;
//            a slab may be moved more than once in a round.
// Requires:  nothing; pure. Loads are finite and not negative; every slab has a server.
// Costs:     per step s + n log n for s slabs on n servers with kPrinted, s² additions with the
//            others: 1.1 ms for 10 steps of 256 slabs. Allocates.
// Departs:   the printed counter starts at 1 and stops at C_max, so C_max = 10 makes at most 9
//            exchanges; `exchanges_max` is C_max, and kPrinted keeps to that. The other rules make
//            exchanges_max steps. The printed rule goes on when ρ stays the same; so do we, for
//            kPrinted. A server without slabs has nothing to swap, and kPrinted stops there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kbf {

enum class BalanceRule : uint8_t { kPrinted, kBestSwap, kSwapOrMove };

struct BalanceConfig {
  BalanceRule rule = BalanceRule::kSwapOrMove;
  unsigned exchanges_max = 10;  // C_max
};

// One step: slab `a` goes to where `b` was and, in a swap, `b` to where `a` was.
struct Exchange {
  static constexpr uint32_t kNoSlab = ~uint32_t{0};
  uint32_t a = kNoSlab;
  uint32_t b = kNoSlab;  // kNoSlab: a move
  uint32_t server_of_a = 0;
  uint32_t server_of_b = 0;    // where a goes
  double imbalance_after = 0;  // ρ
};

struct BalanceResult {
  double imbalance_before = 0;
  double imbalance_after = 0;
  std::vector<Exchange> exchanges;
  std::vector<uint32_t> server_of;  // by slab, after all exchanges
};

// REQUIRES: loads.size() == server_of.size(); every server_of[i] < num_servers; num_servers > 0
BalanceResult Balance(std::span<const double> loads, std::span<const uint32_t> server_of,
                      uint32_t num_servers, const BalanceConfig& config);

// ρ; 0 where there is no load.
double Imbalance(std::span<const double> server_loads);
std::vector<double> ServerLoads(std::span<const double> loads, std::span<const uint32_t> server_of,
                                uint32_t num_servers);

}  // namespace kbf
