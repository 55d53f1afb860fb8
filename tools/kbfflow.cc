// kbfflow: follows TCP flows in a capture file or on an interface with an approximate concurrent
// state machine ([kBF] §7) and reports suspicious ones. This file reads the command line and
// prints; tools/kbfflow/ has the rest.
//
// Exit codes: 0 all packets were read; 1 the command line is wrong or something could not be read
// (one line on stderr; what was read before has been reported).

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config.h"
#include "storage/flow/flow_generations.h"
#include "storage/flow/flow_states.h"
#include "tools/files.h"
#include "tools/kbfflow/capture.h"
#include "tools/kbfflow/monitor.h"
#include "tools/kbfflow/trace_writer.h"
#include "tools/kbfflow/verifier.h"
#include "tools/wrong_call.h"

namespace {

using Count = unsigned long long;
using kbf::FlowAlarm;

struct Settings {
  // read and listen
  std::vector<std::string> files;
  std::string interface;
  flow::CaptureSettings capture;
  std::string key = "pair";
  std::string engine = "kbf";
  kbf::KbfFlows::Size size = {1'000'000, 1e-3, 1e-5};
  double timeout_s = 30;
  uint64_t notes = uint64_t{1} << 18;
  uint64_t packets_max = 0;
  std::optional<uint64_t> seed;
  bool verify = false;
  bool quiet = false;
  bool json = false;
  // generate
  std::string out;
  kbf::FlowTraceShape shape;
};

// Set by a signal: the capture ends, and what was seen is reported.
std::atomic<flow::Capture*> g_listening = nullptr;
std::atomic<bool> g_stopped = false;

void StopListening(int) {
  g_stopped = true;
  if (flow::Capture* capture = g_listening) capture->Stop();
}

// ---- reports ----

const char* KindOf(FlowAlarm alarm) {
  switch (alarm) {
    case FlowAlarm::kReset:
      return "rst";
    case FlowAlarm::kHalfClosed:
      return "fin";
    case FlowAlarm::kHalfOpen:
      return "half-open";
    default:
      return "illegal";
  }
}

std::string Text(const flow::Endpoint& endpoint) {
  std::string address = flow::AddressText(endpoint.address);
  if (endpoint.port == 0) return address;
  const std::string port = std::to_string(endpoint.port);
  return endpoint.address.is_v4 ? address + ":" + port : "[" + address + "]:" + port;
}

void PrintReport(const flow::Report& report, bool json) {
  const std::string from = Text(report.from), to = Text(report.to);
  const auto seconds = static_cast<Count>(report.time_us / 1'000'000);
  const auto micros = static_cast<Count>(report.time_us % 1'000'000);
  const double waited = static_cast<double>(report.waited_us.value_or(0)) * 1e-6;
  const char* const format =
      json ? "{\"time\": %llu.%06llu, \"kind\": \"%s\", \"from\": \"%s\", \"to\": \"%s\", "
             "\"what\": \"%s\""
           : "%llu.%06llu\t%s\t%s\t%s\t%s";
  std::printf(format, seconds, micros, KindOf(report.alarm), from.c_str(), to.c_str(),
              kbf::FlowAlarmText(report.alarm));
  if (report.waited_us) std::printf(json ? ", \"waited\": %.1f" : " for %.1f s", waited);
  std::fputs(json ? "}\n" : "\n", stdout);
}

// ---- a run ----

struct Run {
  std::array<uint64_t, flow::kNumPacketKinds> packets{};  // by PacketKind
  uint64_t dropped = 0;
  std::string broken;  // why reading ended early; empty where it did not

  uint64_t all() const {
    uint64_t sum = 0;
    for (const uint64_t count : packets) sum += count;
    return sum;
  }
  uint64_t of(flow::PacketKind kind) const { return packets[static_cast<size_t>(kind)]; }
};

kbf::FlowGenerations MakeFlows(const Settings& settings) {
  return kbf::FlowGenerations([&settings]() -> std::unique_ptr<kbf::FlowStates> {
    if (settings.engine == "kbf") return kbf::KbfFlows::Create(settings.size);
    return kbf::SbfFlows::Create(settings.size.flows, settings.size.false_positive);
  });
}

class Watcher {
 public:
  explicit Watcher(const Settings& settings)
      : settings_(settings),
        monitor_settings_{
            settings.key == "pair" ? kbf::FlowKind::kHostPair : kbf::FlowKind::kConnection,
            static_cast<uint64_t>(std::llround(settings.timeout_s * 1e6)), settings.notes},
        secret_(settings.seed ? kbf::HashSecret::FromSeed(*settings.seed)
                              : kbf::HashSecret::Random()),
        monitor_(monitor_settings_, MakeFlows(settings),
                 [this](const flow::Report& report) { OnReport(report); }) {
    if (settings.verify) verifier_.emplace(monitor_settings_);
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Until its end, the limit of packets or a signal.
  void Read(flow::Capture* capture, bool is_live);
  void Finish();

  const Run& run() const { return run_; }
  const flow::Monitor& monitor() const { return monitor_; }
  const flow::Verifier* verifier() const { return verifier_ ? &*verifier_ : nullptr; }

 private:
  void See(const flow::Capture& capture, const flow::CapturedPacket& captured);
  void OnReport(const flow::Report& report);

  const Settings& settings_;
  flow::MonitorSettings monitor_settings_;
  kbf::HashSecret secret_;
  flow::Monitor monitor_;
  std::optional<flow::Verifier> verifier_;
  Run run_;
};

void Watcher::Read(flow::Capture* capture, bool is_live) {
  const auto is_over = [&] {
    // A reader that has gone away is noticed when its pipe is written to.
    return g_stopped || std::ferror(stdout) != 0 ||
           (settings_.packets_max > 0 && run_.all() >= settings_.packets_max);
  };
  flow::CapturedPacket captured;
  while (!is_over()) {
    const flow::Capture::Status status = capture->Next(&captured);
    if (status == flow::Capture::Status::kPacket) {
      See(*capture, captured);
      continue;
    }
    if (status == flow::Capture::Status::kBroken) run_.broken = capture->error();
    if (status != flow::Capture::Status::kNothing) break;
    // On an idle interface time passes as well.
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    monitor_.Advance(static_cast<uint64_t>(now.tv_sec) * 1'000'000 +
                     static_cast<uint64_t>(now.tv_nsec) / 1000);
  }
  if (is_live) run_.dropped += capture->Counts().dropped;
}

void Watcher::See(const flow::Capture& capture, const flow::CapturedPacket& captured) {
  flow::TcpPacket packet;
  const flow::PacketKind kind =
      flow::ParsePacket(capture.link_layer(), captured.bytes, captured.wire_bytes, &packet);
  ++run_.packets[static_cast<size_t>(kind)];
  if (kind != flow::PacketKind::kTcp) return;
  const flow::KeyedPacket keyed =
      flow::KeyOf(packet, captured.time_us, monitor_settings_.kind, secret_);
  const kbf::FlowAnswer answer = monitor_.See(keyed);
  if (verifier_) verifier_->See(keyed, answer);
  if (monitor_.flows().newer_size() < settings_.size.flows) return;
  monitor_.Rotate();
  if (verifier_) verifier_->Rotate();
}

void Watcher::Finish() {
  monitor_.Finish();
  if (verifier_) verifier_->Finish();
}

void Watcher::OnReport(const flow::Report& report) {
  if (verifier_) verifier_->Raised(report);
  if (!settings_.quiet) PrintReport(report, settings_.json);
}

// ---- the summary ----

// The alarms of one kind, as reports name them.
uint64_t CountKind(const flow::Monitor& monitor, const std::string& kind) {
  uint64_t sum = 0;
  for (unsigned i = 1; i < kbf::kNumFlowAlarms; ++i) {
    const auto alarm = static_cast<FlowAlarm>(i);
    if (kind == KindOf(alarm)) sum += monitor.alarms(alarm);
  }
  return sum;
}
constexpr const char* kKinds[] = {"rst", "fin", "half-open", "illegal"};

double Share(uint64_t part, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

void PrintText(const Settings& settings, const Watcher& watcher) {
  const Run& run = watcher.run();
  const flow::Monitor& monitor = watcher.monitor();
  using flow::PacketKind;
  std::printf(
      "# packets: %llu; TCP %llu, others %llu, later fragments %llu, cut too short %llu, "
      "broken %llu\n",
      static_cast<Count>(run.all()), static_cast<Count>(run.of(PacketKind::kTcp)),
      static_cast<Count>(run.of(PacketKind::kOther)),
      static_cast<Count>(run.of(PacketKind::kFragment)),
      static_cast<Count>(run.of(PacketKind::kCutShort)),
      static_cast<Count>(run.of(PacketKind::kBroken)));
  if (run.dropped > 0) {
    std::printf("# packets that came too fast to be read: %llu\n", static_cast<Count>(run.dropped));
  }
  std::printf(
      "# flows: %llu have a state at the end; %s, %.1f MB; dropped generations %llu\n",
      static_cast<Count>(monitor.flows().size()), settings.engine.c_str(),
      static_cast<double>(monitor.flows().memory_bytes()) / 1e6,
      static_cast<Count>(monitor.flows().rotations() > 1 ? monitor.flows().rotations() - 1 : 0));
  std::printf("# packets of flows whose state could not be told: %llu\n",
              static_cast<Count>(monitor.packets_of_unknown()));
  std::printf("# reports:");
  for (const char* kind : kKinds) {
    std::printf("%s %s %llu", kind == kKinds[0] ? "" : ",", kind,
                static_cast<Count>(CountKind(monitor, kind)));
  }
  std::printf("\n");
  const flow::Verifier* const verifier = watcher.verifier();
  if (verifier == nullptr) return;
  const flow::LookUpErrors& errors = verifier->errors();
  std::printf("# exact: %llu flows, %.1f MB; reports:",
              static_cast<Count>(verifier->exact().flows().size()),
              static_cast<double>(verifier->exact().flows().memory_bytes()) / 1e6);
  for (const char* kind : kKinds) {
    std::printf("%s %s %llu", kind == kKinds[0] ? "" : ",", kind,
                static_cast<Count>(CountKind(verifier->exact(), kind)));
  }
  std::printf("\n# reports missed: %llu, false: %llu\n", static_cast<Count>(verifier->missed()),
              static_cast<Count>(verifier->false_alarms()));
  std::printf(
      "# look-ups of new flows: %llu, false positives %.3g; of known flows: %llu, not found %.3g, "
      "wrong %.3g\n",
      static_cast<Count>(errors.absent), Share(errors.false_positive, errors.absent),
      static_cast<Count>(errors.stored), Share(errors.unknown, errors.stored),
      Share(errors.wrong, errors.stored));
}

void PrintJsonReports(const char* name, const flow::Monitor& monitor) {
  std::printf("\"%s\": {", name);
  for (const char* kind : kKinds) {
    std::printf("%s\"%s\": %llu", kind == kKinds[0] ? "" : ", ", kind,
                static_cast<Count>(CountKind(monitor, kind)));
  }
  std::printf("}");
}

void PrintJson(const Settings& settings, const Watcher& watcher) {
  const Run& run = watcher.run();
  const flow::Monitor& monitor = watcher.monitor();
  using flow::PacketKind;
  std::printf(
      "{\"packets\": %llu, \"tcp\": %llu, \"other\": %llu, \"fragments\": %llu, "
      "\"cut_short\": %llu, \"broken\": %llu, \"dropped\": %llu, \"complete\": %s, "
      "\"engine\": \"%s\", \"flows\": %llu, \"bytes\": %llu, \"packets_of_unknown\": %llu, ",
      static_cast<Count>(run.all()), static_cast<Count>(run.of(PacketKind::kTcp)),
      static_cast<Count>(run.of(PacketKind::kOther)),
      static_cast<Count>(run.of(PacketKind::kFragment)),
      static_cast<Count>(run.of(PacketKind::kCutShort)),
      static_cast<Count>(run.of(PacketKind::kBroken)), static_cast<Count>(run.dropped),
      run.broken.empty() ? "true" : "false", settings.engine.c_str(),
      static_cast<Count>(monitor.flows().size()),
      static_cast<Count>(monitor.flows().memory_bytes()),
      static_cast<Count>(monitor.packets_of_unknown()));
  PrintJsonReports("reports", monitor);
  if (const flow::Verifier* const verifier = watcher.verifier()) {
    const flow::LookUpErrors& errors = verifier->errors();
    std::printf(", ");
    PrintJsonReports("exact_reports", verifier->exact());
    std::printf(
        ", \"missed\": %llu, \"false_alarms\": %llu, \"exact_flows\": %llu, \"exact_bytes\": %llu, "
        "\"absent_lookups\": %llu, \"false_positives\": %llu, \"stored_lookups\": %llu, "
        "\"not_found\": %llu, \"wrong\": %llu",
        static_cast<Count>(verifier->missed()), static_cast<Count>(verifier->false_alarms()),
        static_cast<Count>(verifier->exact().flows().size()),
        static_cast<Count>(verifier->exact().flows().memory_bytes()),
        static_cast<Count>(errors.absent), static_cast<Count>(errors.false_positive),
        static_cast<Count>(errors.stored), static_cast<Count>(errors.unknown),
        static_cast<Count>(errors.wrong));
  }
  std::printf("}\n");
}

// ---- commands ----

// Prints the summary; false where reading ended early.
bool Conclude(const Settings& settings, Watcher* watcher) {
  watcher->Finish();
  (settings.json ? PrintJson : PrintText)(settings, *watcher);
  std::fflush(stdout);
  if (watcher->run().broken.empty()) return true;
  std::fprintf(stderr, "kbfflow: %s; the packets before it were followed\n",
               watcher->run().broken.c_str());
  return false;
}

bool ReadFiles(const Settings& settings) {
  Watcher watcher(settings);
  for (const std::string& file : settings.files) {
    flow::Capture capture = flow::Capture::OpenFile(file, settings.capture);
    g_listening = &capture;
    watcher.Read(&capture, false);
    g_listening = nullptr;
    if (!watcher.run().broken.empty()) break;
  }
  return Conclude(settings, &watcher);
}

bool Listen(const Settings& settings) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a report should not wait in a buffer
  Watcher watcher(settings);
  flow::Capture capture = flow::Capture::OpenInterface(settings.interface, settings.capture);
  std::fprintf(stderr, "kbfflow: listening on %s\n", settings.interface.c_str());
  g_listening = &capture;
  watcher.Read(&capture, true);
  g_listening = nullptr;
  return Conclude(settings, &watcher);
}

void Generate(const Settings& settings) {
  const bool is_stdout = settings.out == "-";
  const int fd = is_stdout
                     ? STDOUT_FILENO
                     : open(settings.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) tools::ThrowFileError("cannot write " + settings.out);
  tools::Output output(fd, is_stdout ? "standard output" : settings.out);
  const uint64_t packets = flow::WriteTrace(settings.shape, &output);
  if (!is_stdout && close(fd) != 0) tools::ThrowFileError("cannot write " + settings.out);
  std::fprintf(stderr, "kbfflow: wrote %llu packets of %llu flows\n", static_cast<Count>(packets),
               static_cast<Count>(settings.shape.flows));
}

// ---- the command line ----

void AddWatching(CLI::App* app, Settings* settings) {
  app->add_option("--key", settings->key, "a flow is all packets of two hosts, or one connection")
      ->check(CLI::IsMember({"pair", "5-tuple"}));
  app->add_option("--engine", settings->engine, "what keeps the flows' states")
      ->check(CLI::IsMember({"kbf", "sbf"}));
  app->add_option("--flows", settings->size.flows,
                  "flows that each of two generations has room for")
      ->transform(tools::Count())
      ->check(tools::Whole(1000, 1e9));
  app->add_option("--false-positive", settings->size.false_positive,
                  "chance that a new flow seems to be known")
      ->check(tools::Real(1e-9, 0.5));
  app->add_option("--false-negative", settings->size.false_negative,
                  "chance that a known flow's state cannot be told; of a kbf")
      ->check(tools::Real(1e-9, 0.5));
  app->add_option("--timeout", settings->timeout_s,
                  "seconds until a handshake or an end that was not completed is reported")
      ->check(tools::Real(0.001, 1e6));
  app->add_option("--notes", settings->notes, "such flows at a time; then the oldest is looked at")
      ->transform(tools::Count())
      ->check(tools::Whole(1, 1e9));
  app->add_option("--only", settings->capture.only, "a filter as tcpdump takes it")
      ->type_name("EXPRESSION")
      ->default_str("");
  app->add_option("--packets", settings->packets_max, "stop after so many")
      ->transform(tools::Count())
      ->check(tools::Whole(1, 0x1p53))
      ->default_str("");
  app->add_option("--seed", settings->seed, "the same hash function again")
      ->check(tools::Whole(0, 0x1p53))
      ->default_str("");
  app->add_flag("--verify", settings->verify, "run an exact table beside it and compare");
  app->add_flag("--quiet", settings->quiet, "only print the summary");
  app->add_flag("--json", settings->json, "print JSON, one object a line");
}

void AddGenerate(CLI::App* app, Settings* settings) {
  kbf::FlowTraceShape& shape = settings->shape;
  app->add_option("file", settings->out, "the file to write; '-': standard output")->required();
  const auto count = [&](const char* name, uint64_t* number, double min, const char* what) {
    app->add_option(name, *number, what)
        ->transform(tools::Count())
        ->check(tools::Whole(min, static_cast<double>(kbf::kTraceFlowsMax)));
  };
  count("--flows", &shape.flows, 1, "how many");
  count("--fin", &shape.fin, 0, "flows that stop after one FIN");
  count("--rst", &shape.reset, 0, "flows that are reset");
  count("--half-open", &shape.half_open, 0, "flows whose SYN is not answered");
  count("--illegal", &shape.illegal, 0, "flows with a packet of SYN and FIN");
  app->add_option("--closed", shape.closed_share, "share of the others that close")
      ->check(tools::Real(0, 1));
  app->add_option("--data", shape.data_packets, "data packets of a flow, on average")
      ->check(tools::Real(1, 100));
  app->add_option("--seconds", shape.seconds, "length of the trace")
      ->check(tools::Real(0.001, 1e6));
  app->add_option("--seed", shape.seed, "another trace")->check(tools::Whole(0, 0x1p53));
}

void InstallSignals() {
  // A reader that goes away and a limit of files are errors like a full disk.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = &StopListening;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"kbfflow: follows TCP flows approximately and reports suspicious ones", "kbfflow"};
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", std::string("kbfflow ") + PACKAGE_VERSION);
  app.require_subcommand(1);
  CLI::App* const read = app.add_subcommand("read", "follow the flows of capture files");
  CLI::App* const listen = app.add_subcommand("listen", "follow the flows on an interface");
  CLI::App* const generate = app.add_subcommand("generate", "write a capture of made-up flows");
  read->add_option("file", settings.files, "pcap or pcapng; '-': standard input")->required();
  listen->add_option("interface", settings.interface, "its name, such as eth0")->required();
  listen->add_flag("--promiscuous", settings.capture.promiscuous, "packets of other hosts as well");
  AddWatching(read, &settings);
  AddWatching(listen, &settings);
  AddGenerate(generate, &settings);
  app.footer(
      "Example:\n"
      "  kbfflow generate trace.pcap --flows 100k\n"
      "  kbfflow read trace.pcap --verify --quiet\n"
      "  kbfflow listen eth0 --key 5-tuple");
  if (const std::string wrong = tools::FirstWordError(app, argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "kbfflow: %s; see kbfflow --help\n", wrong.c_str());
    return 1;
  }
  bool complete = true;
  try {
    app.parse(argc, argv);
    if (generate->parsed() && !kbf::IsValid(settings.shape)) {
      return tools::PrintWrongCall(
          app, "--fin, --rst, --half-open and --illegal are more than --flows together");
    }
    InstallSignals();
    if (read->parsed()) complete = ReadFiles(settings);
    if (listen->parsed()) complete = Listen(settings);
    if (generate->parsed()) Generate(settings);
  } catch (const CLI::ParseError& error) {
    return tools::ExplainCall(app, error);
  } catch (const tools::FileError& error) {
    std::fprintf(stderr, "kbfflow: %s\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "kbfflow: there is not enough memory; choose fewer --flows\n");
    return 1;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::perror("kbfflow: cannot write the result");
    return 1;
  }
  return complete ? 0 : 1;
}
