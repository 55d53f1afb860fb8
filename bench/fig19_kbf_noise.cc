// [kBF] Fig. 19: does what a kBF returns differ from the data more than the data from themselves:
// Hu's seven moments of patches of an image whose pixels are read from a kBF.
//
// Claim:   246,539 flows with their TCP flags as an image of 496 × 496, patches of 8 × 8: distances
//          between the feature vectors of accurate and queried patches have sporadic peaks at
//          p = 0.01, fewer at 0.001 and none at 0.0001.
// Last:    365 patches of 3,844 differ at p = 0.01, 27 at 0.001, 2 at 0.0001; 236 with our default,
// which
//          allows 2e-3 false negatives, 1 with a plan for 1e-6.
// Runs:    2 s, 70 MB, quick or not. Output: bench/results/fig19_kbf_noise.tsv
//
// The image is generated, the paper's trace is not public: the flag bytes that a flow may end with,
// drawn with the shares below. x: patch, in raster order; ours: Euclidean distance of the seven
// moments. A pixel whose key is not
// decodable is 0. Patches without a difference are left out but for the first and the last.
// "peaks" are patches with any distance; theory: patches times 64 times StoredNotDecodable.
#include <array>

#include "bench/kbf_figures.h"

namespace {

constexpr uint64_t kSide = 496;
constexpr uint64_t kPatch = 8;
constexpr uint64_t kPatchesPerSide = kSide / kPatch;
using Moments = std::array<double, 7>;

// FIN+ACK, ACK, SYN, PSH+ACK, RST, RST+ACK, SYN+ACK, FIN+PSH+ACK in 1,000.
struct Flag {
  uint32_t flags;
  uint32_t share;
};
constexpr Flag kFlags[] = {{0x11, 380}, {0x10, 330}, {0x02, 90}, {0x18, 120},
                           {0x04, 30},  {0x14, 25},  {0x12, 15}, {0x19, 10}};

uint32_t FlagOf(uint64_t flow) {
  auto draw = static_cast<uint32_t>(kbf::ScaleTo(kbf::Mix64(flow ^ 1234567), 1000));
  for (const auto& [flags, share] : kFlags) {
    if (draw < share) return flags;
    draw -= share;
  }
  return 0x10;
}

double Power(double x, int n) { return n == 0 ? 1 : x * Power(x, n - 1); }

// Hu's invariants of a patch from its normalised central moments.
Moments HuMoments(const std::array<double, kPatch * kPatch>& pixels) {
  const auto raw = [&](int p, int q) {
    double sum = 0;
    for (uint64_t y = 0; y < kPatch; ++y) {
      for (uint64_t x = 0; x < kPatch; ++x) {
        sum += Power(static_cast<double>(x), p) * Power(static_cast<double>(y), q) *
               pixels[y * kPatch + x];
      }
    }
    return sum;
  };
  const double mass = raw(0, 0);
  if (mass == 0) return {};
  const double cx = raw(1, 0) / mass, cy = raw(0, 1) / mass;
  const auto eta = [&](int p, int q) {
    double sum = 0;
    for (uint64_t y = 0; y < kPatch; ++y) {
      for (uint64_t x = 0; x < kPatch; ++x) {
        sum += Power(static_cast<double>(x) - cx, p) * Power(static_cast<double>(y) - cy, q) *
               pixels[y * kPatch + x];
      }
    }
    return sum / std::pow(mass, 1 + (p + q) / 2.0);
  };
  const double n20 = eta(2, 0), n02 = eta(0, 2), n11 = eta(1, 1);
  const double n30 = eta(3, 0), n03 = eta(0, 3), n21 = eta(2, 1), n12 = eta(1, 2);
  const double a = n30 + n12, b = n21 + n03, c = n30 - 3 * n12, d = 3 * n21 - n03;
  return {n20 + n02,
          (n20 - n02) * (n20 - n02) + 4 * n11 * n11,
          c * c + d * d,
          a * a + b * b,
          c * a * (a * a - 3 * b * b) + d * b * (3 * a * a - b * b),
          (n20 - n02) * (a * a - b * b) + 4 * n11 * a * b,
          d * a * (a * a - 3 * b * b) - c * b * (3 * a * a - b * b)};
}

Moments MomentsOf(const std::vector<uint32_t>& image, uint64_t patch) {
  std::array<double, kPatch * kPatch> pixels;
  const uint64_t top = patch / kPatchesPerSide * kPatch, left = patch % kPatchesPerSide * kPatch;
  for (uint64_t y = 0; y < kPatch; ++y) {
    for (uint64_t x = 0; x < kPatch; ++x) {
      pixels[y * kPatch + x] = image[(top + y) * kSide + left + x];
    }
  }
  return HuMoments(pixels);
}

void Compare(const std::string& series, const std::vector<uint32_t>& accurate,
             const std::vector<uint32_t>& queried, double expected_pixels) {
  constexpr uint64_t kPatches = kPatchesPerSide * kPatchesPerSide;
  double peaks = 0, wrong_pixels = 0, largest = 0;
  for (uint64_t i = 0; i < accurate.size(); ++i) wrong_pixels += accurate[i] != queried[i];
  for (uint64_t patch = 0; patch < kPatches; ++patch) {
    const Moments a = MomentsOf(accurate, patch), b = MomentsOf(queried, patch);
    double squares = 0;
    for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
    const double distance = std::sqrt(squares);
    peaks += distance > 0;
    largest = std::max(largest, distance);
    if (distance > 0 || patch == 0 || patch == kPatches - 1) {
      bench::PrintFigureRow("[kBF] Fig. 19",
                            {.series = series, .x = static_cast<double>(patch), .ours = distance});
    }
  }
  bench::PrintFigureRow("[kBF] Fig. 19, peaks", {.series = series, .ours = peaks});
  bench::PrintFigureRow("[kBF] Fig. 19, largest distance", {.series = series, .ours = largest});
  bench::PrintFigureRow("[kBF] Fig. 19, pixels that differ",
                        {.series = series,
                         .theory = expected_pixels,
                         .ours = wrong_pixels,
                         .deviation = std::sqrt(expected_pixels)});
}

// Its values stand for the flags: what it returns right is the flag, anything else is not.
void FromOurs(const std::string& series, bench::DefaultFilter filter,
              const std::vector<uint32_t>& accurate) {
  for (uint64_t i = 0; i < accurate.size(); ++i) filter.Insert(i);
  std::vector<uint32_t> queried(accurate.size());
  for (uint64_t i = 0; i < accurate.size(); ++i) {
    const bench::Found answer = filter.Query(bench::PairKey(i));
    queried[i] = answer.found && answer.value == bench::PairValue(i) ? accurate[i] : 0;
  }
  Compare(series, accurate, queried,
          filter.Predicted().false_negative * static_cast<double>(accurate.size()));
}

}  // namespace

int main(int argc, char** argv) {
  constexpr uint64_t kPixels = kSide * kSide;
  std::vector<uint32_t> accurate(kPixels);
  for (uint64_t i = 0; i < kPixels; ++i) accurate[i] = FlagOf(i);
  bench::PrintHead(argc, argv, "[kBF] Fig. 19: Hu's moments of accurate and queried patches",
                   bench::kKbfSeed);
  std::printf("# size: %llu generated flows\n", static_cast<unsigned long long>(kPixels));
  bench::PrintFigureColumns();
  const auto& set = *bench::PaperEncodings();
  for (const double p : {1e-2, 1e-3, 1e-4}) {
    const auto setting = kbf::PaperPlan(p).value();
    auto filter = kbf::PaperKbf::Create(static_cast<size_t>(static_cast<double>(kPixels) *
                                                            setting.num_hashes / setting.load),
                                        setting.num_hashes, bench::PaperEncodings())
                      .value();
    // Flag bytes are small numbers, so each is the index of its own encoding.
    for (uint64_t i = 0; i < kPixels; ++i) {
      if (filter.Insert(bench::PairKey(i), set.encodings()[accurate[i]]) != kbf::PaperStatus::kOk)
        std::abort();
    }
    for (const auto& [name, choices] : {std::pair{"decode22", kbf::PaperChoices::kFirst},
                                        {"decode22, else decode23", kbf::PaperChoices::kBoth}}) {
      std::vector<uint32_t> queried(kPixels);
      for (uint64_t i = 0; i < kPixels; ++i) {
        const auto answer = filter.Query(bench::PairKey(i), choices);
        if (answer.outcome != kbf::PaperOutcome::kFound) continue;
        queried[i] = static_cast<uint32_t>(std::ranges::find(set.encodings(), answer.encoding) -
                                           set.encodings().begin());
      }
      Compare("paper mode, " + bench::RateName(p) + ", " + name, accurate, queried, bench::kNone);
    }
  }
  FromOurs("our default", bench::DefaultFilter(kPixels), accurate);
  FromOurs("ours, planned for 1e-6 false negatives",
           bench::DefaultFilter::With({.false_negative = 1e-6}, kPixels), accurate);
}
