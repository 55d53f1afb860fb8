// The formulas of the membership filters: counting Bloom filters whose counters are partitioned
// into words ([MPCBF], eq. 1-11), and Bloom filters with a replica that may be out of date
// ([Replicas], eq. 1-17). Pure functions; filters, sizing, tests and figures call these.
//
// Notation:  n keys (`keys`), k hash functions (`num_hashes`), m bits or counters (`bits`); l words
//            (`words`) of w bits (`word_bits`), of which a key uses g (`num_accesses`); b positions
//            (`positions`) in a word that hash functions choose from: w/4 counters in a PCBF, b_1
//            bits of the first level in an MPCBF.
// Accuracy:  [MPCBF] eq. 2-5, 8 and 9 put the mean share of occupied positions to the power k/g.
//            The mean of that power is larger (2 to 4 % for k/g = 3 or 4, 13 % for 6, and about 8 %
//            where g does not divide k), and WordFalsePositive gives it. Both take the g words of a
//            key to be different, which they are but for 1/l. Measured within 5 sigma
//            (tests/storage/membership/).
#pragma once

#include <cstdint>
#include <span>

namespace kbf {

// ---- [MPCBF]: false positives ----

// Eq. 1, the form before the approximation: (1 - (1 - 1/m)^(kn))^k.
double BloomFalsePositive(double keys, double bits, unsigned num_hashes);

// How the hash functions of a key are spread over words.
struct WordShape {
  uint64_t words = 1;
  unsigned positions = 1;
  unsigned num_hashes = 1;
  unsigned num_accesses = 1;

  // Hash functions that fall in the i-th word of a key: k/g, one more in the first k mod g words.
  // [MPCBF] §III.C has ceil(k/g) in each but the last, which would leave no hash function for the
  // last word with k = 4, g = 3; the two rules agree for every k and g that the paper measures.
  unsigned HashesIn(unsigned access) const {
    return num_hashes / num_accesses + (access < num_hashes % num_accesses ? 1 : 0);
  }
};

// Eq. 3 and 8 as printed; with g = 1 they are eq. 2 and 4, with b_1 = FirstLevelBits eq. 5 and 9,
// and with g = k (a CBF) they are eq. 1.
double PaperWordFalsePositive(uint64_t keys, const WordShape& shape);
// The average rate of [MPCBF] §III.B and C: eq. 8 with b_1 = w - kn/l, which is no whole number.
double PaperAverageFalsePositive(uint64_t keys, double words, unsigned word_bits,
                                 unsigned num_hashes, unsigned num_accesses);
// Ours: the same without the approximation.
double WordFalsePositive(uint64_t keys, const WordShape& shape);
// Ours: the chance that `asked` random positions of one word are all occupied.
double WordAnswersAll(uint64_t keys, const WordShape& shape, unsigned asked);

// ---- [MPCBF]: sizing ----

// b_max of eq. 5 and 9: w - ceil(k/g n_max), the largest first level that leaves room for n_max
// keys in a word. 0 where none is left.
unsigned FirstLevelBits(unsigned word_bits, unsigned num_hashes, unsigned num_accesses,
                        unsigned keys_per_word_max);
// Eq. 11: n_max, the smallest number whose Poisson distribution function reaches 1 - 1/l, at mean
// gn/l. Printed as PoissInv(1/l, n/l), which would be 0 for most sizes; 1 - 1/l gives the n_max
// of 7 to 9 that the paper's b_1 show.
unsigned KeysPerWordMax(double keys, double words, unsigned num_accesses);
// Eq. 6 and 10: bounds of the chance that a word (of each of g words) holds n_max keys or more:
// first (n choose n_max)/l^n_max, then the looser (en/(n_max l))^n_max; both to the power g.
double OverflowBound(double keys, double words, unsigned num_accesses, unsigned keys_per_word_max);
double OverflowLooseBound(double keys, double words, unsigned num_accesses,
                          unsigned keys_per_word_max);
// Ours: the chance that a given word gets more increments than its hierarchy has bits for.
double OverflowChance(uint64_t keys, const WordShape& shape, unsigned hierarchy_bits);
// Eq. 7: m/n must be larger than w/n_max - k.
double BitsPerKeyBound(unsigned word_bits, unsigned num_hashes, unsigned keys_per_word_max);
// The brute force search of [MPCBF] §IV.C: the k with the lowest false positive rate, at eq. 11.
unsigned BestNumHashes(uint64_t keys, uint64_t words, unsigned word_bits, unsigned num_accesses);

// ---- [Replicas]: a Bloom filter B and its replica B' ----

// Eq. 2, P_0(n) = e^(-kn/m). One bits are P_1 = 1 - P_0; eq. 3 and 4 are P_1^k.
double BloomZeroShare(double keys, double bits, unsigned num_hashes);
// Eq. 5: the rate at the best k, 0.6185^(m/n).
double BloomBestFalsePositive(double bits_per_key);

// What is known of a replica. δ1: share of bits that are 1 in B and 0 in B'; δ0: the other way.
struct ReplicaState {
  double one_share = 0;  // P_1(n) of B, by eq. 2 from n; or counted
  double delta1 = 0;
  double delta0 = 0;
  unsigned num_hashes = 1;
};
// Eq. 6: the keys n' in the replica.
double ReplicaKeys(double keys, double bits, unsigned num_hashes, double delta1, double delta0);
// Eq. 7-9: the share of one bits in B', P_1(n') = P_1(n) + δ0 - δ1.
double ReplicaOneShare(const ReplicaState& state);
// Eq. 10: the chance that a random key tests positive in B and negative in B'.
double ReplicaFalseNegative(const ReplicaState& state);
// Eq. 11, 12: the chance that B' calls a random key present although B's set does not hold it.
// `share_of_universe` is n/|U|, which the paper drops.
double ReplicaFalsePositive(const ReplicaState& state, double share_of_universe = 0);
// Eq. 13 with weights 1, eq. 17 with others.
double ReplicaFalseRate(const ReplicaState& state, double weight_positive = 1,
                        double weight_negative = 1);
// Ours: the share of *stored* keys that the replica denies, when `new_share` of them came since it
// was sent and no bit of the others was cleared: new_share (1 - P_1(n')^k). Eq. 10 is about random
// keys; a client that looks for what it has stored sees this one.
double ReplicaStoredDenied(const ReplicaState& state, double new_share);

// Eq. 14, 15 and 16: a host with one filter of its own and replicas of others.
double HostFalsePositive(double own_false_positive, std::span<const double> replica_positives);
double HostFalseNegative(std::span<const double> replica_negatives);
double HostFalseRate(double host_false_positive, double host_false_negative);

}  // namespace kbf
