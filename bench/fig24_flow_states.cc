// [kBF] Fig. 24, 25 ([kBF-conf] Fig. 14, 15): errors of an approximate concurrent state machine
// that follows TCP flows, with a kBF and with a stateful Bloom filter (sBF).
//
// Claim:   908,522 flows of a CAIDA trace, p = 0.1 ... 1e-5: the kBF's false negatives fall
//          dramatically with p, the sBF's stay almost constant. 900 flows have the flag FIN at the
//          end, 1,658 RST.
// Last:    kBF in paper mode 2.6e-3 (p = 0.1), 5.7e-5, 5e-6 (1e-3), 0; sBF 3.5e-3, 7.7e-5, 3e-6, 0;
//          an sBF that gives null for a shared cell 0.55 to 0.93. 900 and 1,658 flows at p = 1e-3.
// Runs:    1 minute of CPU time, 250 MB; --quick, with a tenth of the flows, 5 s.
//
// The trace is generated (storage/flow/flow_trace.h): 68 % of the flows are still there at the end.
// x: -log10 p. Rates are over look-ups, one for each packet: "false negatives" of look-ups of flows
// with a state, "total" of all look-ups. At the end the state of every flow is asked for once.
// Filters are sized for all flows at p; "kBF, our plan" is the store's filter planned for p false
// positives and p false negatives.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/figures.h"
#include "storage/flow/flow_states.h"
#include "storage/flow/flow_trace.h"
#include "storage/maths.h"
#include "storage/paper/greedy_encodings.h"
#include "storage/paper/paper_kbf.h"
#include "storage/planner.h"

namespace {

using kbf::FlowAnswer;
using kbf::FlowOutcome;
using kbf::FlowState;

constexpr uint64_t kSeed = 20261119;

// [kBF] in paper mode as the memory of the flows' states.
class PaperFlows : public kbf::FlowStates {
 public:
  PaperFlows(uint64_t flows, double p)
      : set_(kbf::EncodingSet::Create(
            kbf::GreedyEncodings(kbf::kNumFlowStates, kbf::EncodingSet::kBitsMax))),
        filter_(Make(flows, kbf::PaperPlan(p).value(), set_)) {}

  FlowAnswer Find(const kbf::KeyHash& flow) const override {
    const kbf::PaperAnswer answer = filter_.Query(flow);
    if (answer.outcome == kbf::PaperOutcome::kAbsent) return {};
    if (answer.outcome == kbf::PaperOutcome::kNotDecodable) return {FlowOutcome::kUnknown};
    const auto encodings = set_->encodings();
    const auto place = std::ranges::lower_bound(encodings, answer.encoding) - encodings.begin();
    return {FlowOutcome::kFound, static_cast<FlowState>(place), answer.encoding};
  }
  void Add(const kbf::KeyHash& flow, FlowState state) override {
    const uint32_t encoding = set_->encodings()[static_cast<size_t>(state)];
    if (filter_.Insert(flow, encoding) != kbf::PaperStatus::kOk) std::abort();
    ++size_;
  }
  bool Change(const kbf::KeyHash& flow, const FlowAnswer& found, FlowState state) override {
    if (!Remove(flow, found)) return false;
    Add(flow, state);
    return true;
  }
  bool Remove(const kbf::KeyHash& flow, const FlowAnswer& found) override {
    if (filter_.Delete(flow, found.token) != kbf::PaperStatus::kOk) return false;
    --size_;
    return true;
  }
  uint64_t size() const override { return size_; }
  uint64_t memory_bytes() const override { return sizeof(kbf::PaperCell) * filter_.num_cells(); }

 private:
  static kbf::PaperKbf Make(uint64_t flows, const kbf::PaperSetting& setting,
                            const std::shared_ptr<const kbf::EncodingSet>& set) {
    const double cells = static_cast<double>(flows) * setting.num_hashes / setting.load;
    return kbf::PaperKbf::Create(static_cast<size_t>(cells), setting.num_hashes, set).value();
  }

  std::shared_ptr<const kbf::EncodingSet> set_;
  kbf::PaperKbf filter_;
  uint64_t size_ = 0;
};

// An engine and how often it was wrong.
struct Candidate {
  std::string name;
  std::unique_ptr<kbf::FlowStates> flows;
  double absent = 0, false_positive = 0;
  double stored = 0, null = 0, wrong = 0;
  double end_errors = 0, fin = 0, reset = 0;  // of the states at the end

  void Count(const FlowAnswer& truth, const FlowAnswer& answer) {
    const bool found = answer.outcome == FlowOutcome::kFound;
    if (truth.outcome == FlowOutcome::kAbsent) {
      ++absent;
      false_positive += answer.outcome != FlowOutcome::kAbsent;
      return;
    }
    ++stored;
    null += !found;
    wrong += found && answer.state != truth.state;
  }
};

std::vector<Candidate> Candidates(uint64_t flows, double p) {
  using Sharing = kbf::StateBloom::Sharing;
  std::vector<Candidate> all;
  all.push_back({"kBF, paper mode", std::make_unique<PaperFlows>(flows, p)});
  all.push_back({"sBF", kbf::SbfFlows::Create(flows, p)});
  all.push_back({"sBF, null if shared", kbf::SbfFlows::Create(flows, p, Sharing::kNullIfShared)});
  all.push_back({"kBF, our plan", kbf::KbfFlows::Create({flows, p, p})});
  for (const Candidate& candidate : all) {
    if (candidate.flows == nullptr) std::abort();
  }
  return all;
}

kbf::KeyHash Flow(uint64_t number) { return bench::FigureKey(kSeed, number); }

void Follow(const kbf::FlowTraceShape& shape, kbf::ExactFlows* exact,
            std::vector<Candidate>* candidates) {
  kbf::FlowTrace trace(shape);
  while (const auto sent = trace.Next()) {
    const kbf::FlowPacket packet{!sent->from_caller, sent->data_bytes > 0, sent->flags};
    const kbf::KeyHash flow = Flow(sent->flow);
    constexpr auto kKind = kbf::FlowKind::kConnection;
    const FlowAnswer truth = kbf::FollowFlow(exact, flow, packet, kKind).before;
    for (Candidate& candidate : *candidates) {
      candidate.Count(truth, kbf::FollowFlow(candidate.flows.get(), flow, packet, kKind).before);
    }
  }
  for (uint64_t i = 0; i < shape.flows; ++i) {
    const FlowAnswer truth = exact->Find(Flow(i));
    for (Candidate& candidate : *candidates) {
      const FlowAnswer answer = candidate.flows->Find(Flow(i));
      const bool found = answer.outcome == FlowOutcome::kFound;
      candidate.end_errors +=
          answer.outcome != truth.outcome || (found && answer.state != truth.state);
      candidate.fin += found && kbf::IsClosing(answer.state);
      candidate.reset += found && answer.state == FlowState::kReset;
    }
  }
}

void Print(const Candidate& candidate, uint64_t flows, double x) {
  const double n = static_cast<double>(flows);
  const double bits = 8 * static_cast<double>(candidate.flows->memory_bytes()) / n;
  const double all = candidate.absent + candidate.stored;
  const auto row = [&](const char* figure, double rate, double asked) {
    bench::PrintFigureRow(std::string("[kBF] Fig. ") + figure,
                          {.series = candidate.name,
                           .x = x,
                           .ours = rate,
                           .deviation = bench::RateDeviation(rate, asked),
                           .bits_per_key = bits});
  };
  row("24", candidate.null / candidate.stored, candidate.stored);
  row("25", (candidate.false_positive + candidate.null + candidate.wrong) / all, all);
  row("25, false positives", candidate.false_positive / candidate.absent, candidate.absent);
  row("25, wrong states", candidate.wrong / candidate.stored, candidate.stored);
  row("25, states at the end that are wrong", candidate.end_errors / n, n);
  bench::PrintFigureRow("[kBF] §7, bytes per flow",
                        {.series = candidate.name, .x = x, .ours = bits / 8});
  bench::PrintFigureRow("[kBF] §7, flows with FIN",
                        {.series = candidate.name, .x = x, .ours = candidate.fin});
  bench::PrintFigureRow("[kBF] §7, flows with RST",
                        {.series = candidate.name, .x = x, .ours = candidate.reset});
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = bench::QuickRun(argc, argv);
  kbf::FlowTraceShape shape;  // the paper's
  shape.seed = kSeed;
  if (quick) shape.flows /= 10;
  bench::PrintHead(argc, argv, "[kBF] Fig. 24, 25: errors of states of TCP flows", kSeed);
  std::printf("# size: %llu generated flows\n", static_cast<unsigned long long>(shape.flows));
  bench::PrintFigureColumns();
  for (const double x : {1, 2, 3, 4, 5}) {
    kbf::ExactFlows exact;
    std::vector<Candidate> candidates = Candidates(shape.flows, std::pow(10, -x));
    Follow(shape, &exact, &candidates);
    for (const Candidate& candidate : candidates) Print(candidate, shape.flows, x);
    if (x == 1) {
      bench::PrintFigureRow("[kBF] §7, flows that are there at the end",
                            {.series = "exact", .ours = static_cast<double>(exact.size())});
    }
  }
}
