// What kbfload itself can do: its engine against a server that does next to nothing.
//
// Claim:   one thread of kbfload asks for and checks at least 1.5 million pipelined operations a
//          second, so it is not the bottleneck of what it measures.
// Runs:    about half a minute, two cores.
// Result:  bench/results/kbfload_bench.tsv
//
// The sink is a thread in this process that listens on loopback. It finds the ends of requests and
// copies a ready reply for each: a get is a hit (all keys have the same value), a set is stored.
// Every answer is checked as usual. CPU per operation includes the kernel's work for the socket.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string_view>
#include <thread>

#include "bench/bench.h"
#include "protocol/client.h"
#include "tools/kbfload/engine.h"

namespace {

using protocol::Wire;

constexpr uint64_t kSeed = 20261118;
constexpr uint32_t kValueBytes = 32;
constexpr uint64_t kKeys = 1000000;
constexpr double kSeconds = 1;
constexpr int kRepeats = 5;

struct Case {
  const char* name;
  double get, set, zipf;
  unsigned connections, pipeline, multiget;
  Wire wire;
};
constexpr Case kCases[] = {
    {"text_get", 1, 0, 0, 4, 100, 1, Wire::kText},
    {"text_get_zipf", 1, 0, 0.99, 4, 100, 1, Wire::kText},
    {"text_multiget", 1, 0, 0, 4, 1, 100, Wire::kText},
    {"binary_get", 1, 0, 0, 4, 100, 1, Wire::kBinary},
    {"meta_get", 1, 0, 0, 4, 100, 1, Wire::kMeta},
    {"text_set", 0, 1, 0, 4, 100, 1, Wire::kText},
    {"binary_set", 0, 1, 0, 4, 100, 1, Wire::kBinary},
};

// ---- the sink ----

// Answers whole requests at the front of `in`, and drops them.
class Answerer {
 public:
  Answerer(Wire wire, std::string value) : wire_(wire), value_(std::move(value)) {
    tail_ = " 0 " + std::to_string(value_.size()) + "\r\n" + value_ + "\r\n";
    meta_ = "VA " + std::to_string(value_.size()) + " f0\r\n" + value_ + "\r\n";
  }

  size_t Answer(std::string_view in, std::string* out) const {
    size_t done = 0;
    for (size_t used = 1; used > 0; done += used) {
      used = wire_ == Wire::kBinary ? Packet(in.substr(done), out) : Line(in.substr(done), out);
    }
    return done;
  }

 private:
  size_t Line(std::string_view in, std::string* out) const {
    const size_t end = in.find('\n');
    if (end == std::string_view::npos) return 0;
    if (in[0] == 's') {
      if (in.size() < end + 1 + value_.size() + 2) return 0;
      *out += "STORED\r\n";
      return end + 1 + value_.size() + 2;
    }
    if (in[0] == 'm') {
      *out += meta_;
      return end + 1;
    }
    std::string_view keys = in.substr(4, end - 5);
    while (!keys.empty()) {
      const std::string_view key = keys.substr(0, keys.find(' '));
      ((*out += "VALUE ") += key) += tail_;
      keys.remove_prefix(std::min(keys.size(), key.size() + 1));
    }
    *out += "END\r\n";
    return end + 1;
  }

  size_t Packet(std::string_view in, std::string* out) const {
    if (in.size() < 24) return 0;
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(in[at]); };
    const size_t key_bytes = size_t{byte(2)} * 256 + byte(3);
    const size_t size = 24 + size_t{byte(10)} * 256 + byte(11);
    if (in.size() < size) return 0;
    const bool get = byte(1) != 0x01;
    const size_t body = get ? 4 + key_bytes + value_.size() : 0;
    char head[28] = {'\x81', in[1]};
    head[3] = get ? in[3] : '\0';
    head[4] = get ? 4 : 0;
    head[10] = static_cast<char>(body >> 8);
    head[11] = static_cast<char>(body);
    std::memcpy(head + 12, in.data() + 12, 4);
    out->append(head, get ? 28 : 24);
    if (get) (*out += in.substr(24, key_bytes)) += value_;
    return size;
  }

  Wire wire_;
  std::string value_;
  std::string tail_;
  std::string meta_;
};

// A listener on loopback and a thread that answers whoever connects.
class Sink {
 public:
  explicit Sink(Answerer answerer) : answerer_(std::move(answerer)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof name;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&name), bytes) != 0 ||
        listen(fd, 128) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) {
      std::perror("kbfload_bench: cannot listen");
      std::exit(1);
    }
    address_ = load::ParseAddress("127.0.0.1:" + std::to_string(ntohs(name.sin_port)));
    polled_.push_back({fd, POLLIN, 0});
    kept_.emplace_back();
    thread_ = std::thread([this] { Serve(); });
  }
  ~Sink() {
    stop_ = true;
    thread_.join();
    for (const pollfd& one : polled_) close(one.fd);
  }
  const load::Address& address() const { return address_; }

 private:
  void Serve() {
    while (!stop_) {
      if (poll(polled_.data(), polled_.size(), 50) <= 0) continue;
      for (size_t i = polled_.size(); i-- > 1;) {
        if (polled_[i].revents == 0 || Talk(i)) continue;
        close(polled_[i].fd);
        polled_.erase(polled_.begin() + static_cast<ptrdiff_t>(i));
        kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(i));
      }
      if (polled_[0].revents != 0) {
        const int fd = accept(polled_[0].fd, nullptr, nullptr);
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        polled_.push_back({fd, POLLIN, 0});
        kept_.emplace_back();
      }
    }
  }

  bool Talk(size_t i) {
    const ssize_t got = recv(polled_[i].fd, buffer_.data(), buffer_.size(), 0);
    if (got <= 0) return false;
    std::string& kept = kept_[i];
    kept.append(buffer_.data(), static_cast<size_t>(got));
    out_.clear();
    kept.erase(0, answerer_.Answer(kept, &out_));
    return out_.empty() || send(polled_[i].fd, out_.data(), out_.size(), MSG_NOSIGNAL) > 0;
  }

  Answerer answerer_;
  load::Address address_;
  std::vector<pollfd> polled_;
  std::vector<std::string> kept_;  // the beginning of a request whose end has not come
  std::vector<char> buffer_ = std::vector<char>(1 << 20);
  std::string out_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

load::Workload WorkloadOf() {
  load::WorkloadOptions options;
  options.seed = kSeed;
  options.keys = kKeys;
  options.value_size = std::to_string(kValueBytes);
  options.values = 1;
  return load::Workload(options);
}

std::string TheValue(const load::Workload& workload) {
  std::string value(kValueBytes, '\0');
  workload.WriteValue(workload.ValueOf(0), value.data());
  return value;
}

// ---- rows ----

void PrintCase(const Case& one, const load::Workload& workload) {
  const Sink sink(Answerer(one.wire, TheValue(workload)));
  load::MixOptions mix;
  mix.mix.share = {one.get, one.set, 0, 0, 0};
  mix.zipf = one.zipf;
  load::ClientGroup clients;
  clients.server = sink.address();
  clients.wire = one.wire;
  clients.connections = one.connections;
  clients.pipeline = one.pipeline;
  clients.multiget = one.multiget;
  clients.workload = &workload;
  clients.sources = load::DrawKeys(workload, mix, one.connections);
  load::LoadOptions options;
  options.seconds = kSeconds;
  std::vector<double> rates, shares, costs;
  uint64_t bad = 0;
  for (int i = 0; i <= kRepeats; ++i) {
    const load::Outcome outcome = load::RunLoad({clients}, options, nullptr);
    if (!outcome.failure.empty()) std::fprintf(stderr, "%s\n", outcome.failure.c_str());
    const load::Tally tally = outcome.All();
    bad += tally.misses + tally.wrong + tally.AllErrors() + !outcome.failure.empty();
    if (i == 0) continue;  // warm-up
    const auto ops = static_cast<double>(tally.AllOps());
    rates.push_back(ops / outcome.seconds);
    shares.push_back(outcome.cpu_seconds / outcome.seconds);
    costs.push_back(1e9 * outcome.cpu_seconds / ops);
  }
  for (auto* const list : {&rates, &shares, &costs}) std::sort(list->begin(), list->end());
  std::printf("%s\t%u\t%u\t%u\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%llu\n", one.name, one.connections,
              one.pipeline, one.multiget, rates[kRepeats / 2], rates.front(), rates.back(),
              shares[kRepeats / 2], costs[kRepeats / 2], static_cast<unsigned long long>(bad));
  std::fflush(stdout);
}

// What drawing, writing and comparing cost without any socket.
void PrintMaking(const load::Workload& workload) {
  char buffer[512];
  constexpr uint64_t kCount = 1000000;
  const auto nanoseconds = [](auto&& work) {
    return bench::MeasureSeconds(kRepeats, work).median * 1e9 / kCount;
  };
  const double keys = nanoseconds([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      bench::Consume(workload.KeyBytes(2 * i));
      workload.WriteKey(2 * i, buffer);
      bench::Consume(static_cast<uint8_t>(buffer[0]));
    }
  });
  const double values = nanoseconds([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      workload.WriteValue(workload.ValueOf(2 * i), buffer);
      bench::Consume(static_cast<uint8_t>(buffer[0]));
    }
  });
  const std::string value = TheValue(workload);
  const double checks = nanoseconds([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      bench::Consume(workload.IsValue(workload.ValueOf(2 * i), value));
    }
  });
  std::printf("# in memory, ns: write a key %.0f, write a value of %u bytes %.0f, check it %.0f\n",
              keys, kValueBytes, values, checks);
}

}  // namespace

int main(int argc, char** argv) {
  bench::PrintHead(argc, argv, "kbfload against a sink, one thread each", kSeed);
  const load::Workload workload = WorkloadOf();
  PrintMaking(workload);
  std::printf(
      "case\tconnections\tpipeline\tmultiget\tops_per_second\tlow\thigh\tclient_cpu_share\t"
      "client_cpu_ns_per_op\tbad_answers\n");
  for (const Case& one : kCases) PrintCase(one, workload);
}
