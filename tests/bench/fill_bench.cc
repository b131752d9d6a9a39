// How fast tensors are filled, against PyTorch's in-place fills of the same size.
// Both sides take turns, so that a drift of the machine hits both; a figure is the
// fast tenth of its rounds, as GB/s written.
//
//   fill_bench [--json] [--rounds N] [--mi N] [--target avx2|sse4] [--peer torch_peer.py]
//
// Lines: name ours peer ratio. Where the peer does not run, its reason goes to
// stderr and the lines have "-" for it.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "kernels/runtime/device.h"

extern char** environ;

namespace assay {
namespace {

struct Options {
  bool json = false;
  int rounds = 9;
  std::int64_t mi = 64;  // Mi elements
  std::string target;
  std::string peer = ASSAY_TORCH_PEER;
};

// A Python process that fills when asked. Not running where it could not start.
class TorchPeer {
 public:
  explicit TorchPeer(const std::string& script) {
    int to[2];
    int from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    for (const int fd : {to[0], to[1], from[0], from[1]}) {
      posix_spawn_file_actions_addclose(&actions, fd);
    }
    // Its idle threads must not spin while ours are timed.
    setenv("OMP_WAIT_POLICY", "passive", 1);
    std::string python = "/usr/bin/python3";
    std::string path = script;
    char* arguments[] = {python.data(), path.data(), nullptr};
    const int error = posix_spawn(&pid_, python.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    in_ = fdopen(from[0], "r");
    out_ = fdopen(to[1], "w");
    char line[256];
    if (error != 0) {
      reason_ = "python3 did not start: " + std::string(std::strerror(error));
    } else if (in_ == nullptr || out_ == nullptr ||
               std::fgets(line, sizeof(line), in_) == nullptr) {
      reason_ = script + " did not start; is python3-torch installed?";
    } else {
      running_ = true;
      char version[64] = "";
      int threads = 0;
      if (std::sscanf(line, "ready %63s %d", version, &threads) == 2) {
        std::fprintf(stderr, "peer: torch %s, %d threads\n", version, threads);
      }
    }
  }
  ~TorchPeer() {
    if (out_ != nullptr) std::fclose(out_);
    if (in_ != nullptr) std::fclose(in_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  bool running() const { return running_; }
  const std::string& reason() const { return reason_; }

  // Seconds of one fill; 0 where the peer is gone.
  double Fill(const char* kind, const char* dtype, std::int64_t count) {
    std::fprintf(out_, "%s %s %lld\n", kind, dtype, static_cast<long long>(count));
    std::fflush(out_);
    char line[64];
    return std::fgets(line, sizeof(line), in_) == nullptr ? 0.0 : std::atof(line);
  }

 private:
  pid_t pid_ = -1;
  FILE* in_ = nullptr;
  FILE* out_ = nullptr;
  bool running_ = false;
  std::string reason_;
};

// What the machine does when nothing else takes its cores.
double FastTenth(std::vector<double> v) {
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 10);
  std::nth_element(v.begin(), at, v.end());
  return *at;
}

struct Line {
  std::string name;
  double ours = 0;  // [GB/s]
  double peer = 0;  // [GB/s]; 0: not measured
};

struct Fill {
  const char* kind;  // the peer's word for it; nullptr: it has none
  const char* label;
  Pattern pattern;
  DType dtype;
};

Line Measure(const Options& options, Device& device, TorchPeer& peer, const Fill& fill) {
  const std::int64_t count = options.mi << 20;
  device.arena().Reset();
  const std::int64_t bytes = StorageBytes(fill.dtype, count);
  const auto block = device.arena().Allocate(bytes, true);
  if (!block.ok()) {
    std::fprintf(stderr, "fill_bench: %s\n", std::string(block.status().message()).c_str());
    std::exit(1);
  }
  const TensorView view{block->data, fill.dtype, Extents::Dense(1, 1, count)};
  const FillSpec spec{fill.pattern, 1, 0, 0};
  const bool with_peer = peer.running() && fill.kind != nullptr;
  const std::string dtype(Name(fill.dtype));
  (void)device.Fill(spec, view);  // first touch
  if (with_peer) peer.Fill(fill.kind, dtype.c_str(), count);
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int r = 0; r < options.rounds; ++r) {
    const double begin = device.Now();
    (void)device.Fill(spec, view);
    ours.push_back(device.Now() - begin);
    if (with_peer) theirs.push_back(peer.Fill(fill.kind, dtype.c_str(), count));
  }
  Line line;
  line.name = std::string(fill.label) + "_fill_" + dtype + "_" + std::to_string(options.mi) + "Mi";
  line.ours = static_cast<double>(bytes) / FastTenth(ours) * 1e-9;
  if (with_peer) line.peer = static_cast<double>(bytes) / FastTenth(theirs) * 1e-9;
  return line;
}

int Run(const Options& options) {
  if (options.target == "avx2") hwy::GetChosenTarget().Update(HWY_AVX2);
  if (options.target == "sse4") hwy::GetChosenTarget().Update(HWY_SSE4);
  const std::unique_ptr<Device> device = MakeCpuDevice(0, ArenaOptions{});
  TorchPeer peer(options.peer);
  if (!peer.running()) std::fprintf(stderr, "no peer: %s\n", peer.reason().c_str());
  const Pattern normal{};
  const Pattern uniform{PatternKind::kUniform, 0, 1};
  const Fill fills[] = {
      {"normal", "normal", normal, DType::kF32},
      {"normal", "normal", normal, DType::kBF16},
      {"normal", "normal", normal, DType::kF64},
      {"uniform", "uniform", uniform, DType::kF32},
      {nullptr, "normal", normal, DType::kF16},
      {nullptr, "normal", normal, DType::kE4M3FN},
      {nullptr, "normal", normal, DType::kE2M1},
      {nullptr, "integers", {PatternKind::kIntegers, -8, 8}, DType::kI8},
      {nullptr, "sparse", {PatternKind::kSparse, 0.2, 1}, DType::kF32},
      {nullptr, "sequential", {PatternKind::kSequential, 1, 1024}, DType::kF32},
      {nullptr, "constant", {PatternKind::kConstant, 1, 0}, DType::kF32},
      {nullptr, "denormal", {PatternKind::kDenormal, 0, 0}, DType::kF32},
  };
  if (options.json) std::printf("{\"unit\": \"GB/s\", \"lines\": [");
  bool first = true;
  for (const Fill& fill : fills) {
    const Line line = Measure(options, *device, peer, fill);
    if (options.json) {
      std::printf("%s\n  {\"name\": \"%s\", \"ours\": %.4g", first ? "" : ",", line.name.c_str(),
                  line.ours);
      if (line.peer > 0) {
        std::printf(", \"peer\": %.4g, \"ratio\": %.4g", line.peer, line.ours / line.peer);
      }
      std::printf("}");
    } else if (line.peer > 0) {
      std::printf("%s %.2f %.2f %.2f\n", line.name.c_str(), line.ours, line.peer,
                  line.ours / line.peer);
    } else {
      std::printf("%s %.2f - -\n", line.name.c_str(), line.ours);
    }
    std::fflush(stdout);
    first = false;
  }
  if (options.json) std::printf("\n]}\n");
  return 0;
}

int Usage(const char* fault) {
  std::fprintf(stderr,
               "fill_bench: %s\nusage: fill_bench [--json] [--rounds N] [--mi N] "
               "[--target avx2|sse4] [--peer FILE]\n",
               fault);
  return 2;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  assay::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) return assay::Usage(("missing value or unknown option " + flag).c_str());
    const std::string value = argv[++i];
    if (flag == "--rounds") {
      options.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--mi") {
      options.mi = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--target" && (value == "avx2" || value == "sse4")) {
      options.target = value;
    } else if (flag == "--peer") {
      options.peer = value;
    } else {
      return assay::Usage(("unknown option " + flag + " " + value).c_str());
    }
  }
  return assay::Run(options);
}
