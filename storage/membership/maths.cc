#include "storage/membership/maths.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kbf {

namespace {

constexpr double kNegligible = 1e-20;

// P(E = j) for j = 0, 1, … of a binomial variable with `trials` and chance 1/words, as long as it
// matters. A chance of 1 is the one word that gets everything.
std::vector<double> BinomialOverWords(uint64_t trials, double words) {
  const auto count = static_cast<double>(trials);
  if (words <= 1) {
    std::vector<double> all(trials + 1, 0.0);
    all.back() = 1;
    return all;
  }
  const double mean = count / words;
  std::vector<double> chances;
  double log_chance = count * std::log1p(-1 / words);
  for (uint64_t j = 0; j <= trials; ++j) {
    const double chance = std::exp(log_chance);
    const auto events = static_cast<double>(j);
    if (events > mean && chance < kNegligible) break;
    chances.push_back(chance);
    log_chance += std::log((count - events) / (events + 1)) - std::log(words - 1);
  }
  return chances;
}

// P(increments of a word = t): keys that use it as one of their first k mod g words bring one
// hash function more than the others.
std::vector<double> IncrementsOfWord(uint64_t keys, const WordShape& shape) {
  const unsigned low = shape.num_hashes / shape.num_accesses;
  const unsigned with_one_more = shape.num_hashes % shape.num_accesses;
  const auto words = static_cast<double>(shape.words);
  const auto a = BinomialOverWords(keys * with_one_more, words);
  const auto b = BinomialOverWords(keys * (shape.num_accesses - with_one_more), words);
  std::vector<double> sum((a.size() - 1) * (low + 1) + (b.size() - 1) * low + 1, 0.0);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) sum[i * (low + 1) + j * low] += a[i] * b[j];
  }
  return sum;
}

double LogChoose(double n, double r) {
  return std::lgamma(n + 1) - std::lgamma(r + 1) - std::lgamma(n - r + 1);
}

double PaperFalsePositive(uint64_t keys, double words, double positions, double k, unsigned g) {
  double rate = 0;
  const auto chances = BinomialOverWords(keys * g, words);
  for (size_t j = 0; j < chances.size(); ++j) {
    const double occupied =
        1 - std::pow(1 - 1 / positions, static_cast<double>(j) * k / static_cast<double>(g));
    rate += chances[j] * std::pow(occupied, k / g);
  }
  return std::pow(rate, g);
}

}  // namespace

double BloomFalsePositive(double keys, double bits, unsigned num_hashes) {
  return std::pow(-std::expm1(keys * num_hashes * std::log1p(-1 / bits)), num_hashes);
}

double PaperWordFalsePositive(uint64_t keys, const WordShape& shape) {
  return PaperFalsePositive(keys, static_cast<double>(shape.words), shape.positions,
                            shape.num_hashes, shape.num_accesses);
}

double PaperAverageFalsePositive(uint64_t keys, double words, unsigned word_bits,
                                 unsigned num_hashes, unsigned num_accesses) {
  const double positions = word_bits - num_hashes * static_cast<double>(keys) / words;
  return positions <= 1 ? 1 : PaperFalsePositive(keys, words, positions, num_hashes, num_accesses);
}

double WordAnswersAll(uint64_t keys, const WordShape& shape, unsigned asked) {
  const auto increments = IncrementsOfWord(keys, shape);
  // P(x occupied positions) after so many increments, increment by increment.
  std::vector<double> occupied(shape.positions + 1, 0.0);
  occupied[0] = 1;
  const double b = shape.positions;
  double rate = 0;
  for (const double chance : increments) {
    double all = 0;
    for (unsigned x = 1; x <= shape.positions; ++x) all += occupied[x] * std::pow(x / b, asked);
    rate += chance * (asked == 0 ? 1 : all);
    for (unsigned x = shape.positions; x > 0; --x) {
      occupied[x] = occupied[x] * x / b + occupied[x - 1] * (b - x + 1) / b;
    }
    occupied[0] = 0;
  }
  return rate;
}

double WordFalsePositive(uint64_t keys, const WordShape& shape) {
  double rate = 1;
  for (unsigned i = 0; i < shape.num_accesses; ++i) {
    rate *= WordAnswersAll(keys, shape, shape.HashesIn(i));
  }
  return rate;
}

unsigned FirstLevelBits(unsigned word_bits, unsigned num_hashes, unsigned num_accesses,
                        unsigned keys_per_word_max) {
  const unsigned hierarchy = (num_hashes * keys_per_word_max + num_accesses - 1) / num_accesses;
  return hierarchy < word_bits ? word_bits - hierarchy : 0;
}

unsigned KeysPerWordMax(double keys, double words, unsigned num_accesses) {
  const double mean = num_accesses * keys / words;
  // The tail is added up from the far end, so that 1/l may be as small as it likes.
  auto above = static_cast<unsigned>(mean + 40 * std::sqrt(mean) + 60);
  double tail = 0;
  while (above > 0) {
    const double next =
        std::exp(above * std::log(mean) - mean - std::lgamma(static_cast<double>(above) + 1));
    if (tail + next > 1 / words) break;
    tail += next;
    --above;
  }
  return above;
}

double OverflowBound(double keys, double words, unsigned num_accesses, unsigned keys_per_word_max) {
  const double trials = num_accesses * keys;
  if (keys_per_word_max > trials) return 0;
  return std::exp(num_accesses *
                  (LogChoose(trials, keys_per_word_max) - keys_per_word_max * std::log(words)));
}

double OverflowLooseBound(double keys, double words, unsigned num_accesses,
                          unsigned keys_per_word_max) {
  // Eq. 10 has en/(n_max l) here where (gn choose n_max) is bounded by egn/n_max; g is put in.
  return std::pow(std::exp(1.0) * num_accesses * keys / (keys_per_word_max * words),
                  static_cast<double>(keys_per_word_max) * num_accesses);
}

double OverflowChance(uint64_t keys, const WordShape& shape, unsigned hierarchy_bits) {
  const auto increments = IncrementsOfWord(keys, shape);
  double chance = 0;
  for (size_t t = increments.size(); t-- > hierarchy_bits + size_t{1};) chance += increments[t];
  return chance;
}

double BitsPerKeyBound(unsigned word_bits, unsigned num_hashes, unsigned keys_per_word_max) {
  return static_cast<double>(word_bits) / keys_per_word_max - num_hashes;
}

unsigned BestNumHashes(uint64_t keys, uint64_t words, unsigned word_bits, unsigned num_accesses) {
  unsigned best = num_accesses;
  double lowest = std::numeric_limits<double>::infinity();
  const unsigned keys_max =
      KeysPerWordMax(static_cast<double>(keys), static_cast<double>(words), num_accesses);
  for (unsigned k = num_accesses; k <= 16; ++k) {
    const unsigned positions = FirstLevelBits(word_bits, k, num_accesses, keys_max);
    if (positions < 2) break;
    const double rate = PaperWordFalsePositive(keys, {words, positions, k, num_accesses});
    if (rate < lowest) {
      lowest = rate;
      best = k;
    }
  }
  return best;
}

double BloomZeroShare(double keys, double bits, unsigned num_hashes) {
  return std::exp(-static_cast<double>(num_hashes) * keys / bits);
}

double BloomBestFalsePositive(double bits_per_key) { return std::pow(0.6185, bits_per_key); }

double ReplicaKeys(double keys, double bits, unsigned num_hashes, double delta1, double delta0) {
  return -bits / num_hashes * std::log(BloomZeroShare(keys, bits, num_hashes) + delta1 - delta0);
}

double ReplicaOneShare(const ReplicaState& state) {
  return std::clamp(state.one_share + state.delta0 - state.delta1, 0.0, 1.0);
}

double ReplicaFalseNegative(const ReplicaState& state) {
  // δ1 counts bits, P_1(n) may be an expectation, so the difference may fall below 0.
  const double common = std::max(0.0, state.one_share - state.delta1);
  return std::pow(state.one_share, state.num_hashes) - std::pow(common, state.num_hashes);
}

double ReplicaFalsePositive(const ReplicaState& state, double share_of_universe) {
  const double common = std::max(0.0, state.one_share - state.delta1);
  return std::pow(ReplicaOneShare(state), state.num_hashes) -
         share_of_universe * std::pow(common, state.num_hashes);
}

double ReplicaFalseRate(const ReplicaState& state, double weight_positive, double weight_negative) {
  return weight_positive * ReplicaFalsePositive(state) +
         weight_negative * ReplicaFalseNegative(state);
}

double ReplicaStoredDenied(const ReplicaState& state, double new_share) {
  return new_share * (1 - std::pow(ReplicaOneShare(state), state.num_hashes));
}

double HostFalsePositive(double own_false_positive, std::span<const double> replica_positives) {
  double none = 1 - own_false_positive;
  for (const double rate : replica_positives) none *= 1 - rate;
  return 1 - none;
}

double HostFalseNegative(std::span<const double> replica_negatives) {
  double none = 1;
  for (const double rate : replica_negatives) none *= 1 - rate;
  return 1 - none;
}

double HostFalseRate(double host_false_positive, double host_false_negative) {
  return host_false_positive + host_false_negative - host_false_positive * host_false_negative;
}

}  // namespace kbf
