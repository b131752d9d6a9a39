#include "server/worker/profile_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"
#include "kernels/text/cat.h"
#include "server/base/even_time.h"
#include "server/process/process.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kPoll = absl::Milliseconds(20);
constexpr std::size_t kSaidBytes = 16 << 10;  // kept of its output, from the end
constexpr std::size_t kFileBytes = 4 << 20;   // the most that is read of its file
constexpr std::size_t kReasonBytes = 300;     // of its output in a note

std::string Joined(std::span<const std::string_view> words) {
  std::string list;
  for (const std::string_view word : words) Append(&list, list.empty() ? "" : ",", word);
  return list;
}

bool IsRocprofV3(const std::string& program) { return program.ends_with("rocprofv3"); }

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

bool WriteFile(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  return file.good();
}

// Finds the file with the counters. rocprofv3 puts it into a folder of its own choice. What the
// profiler has left running may remove folders meanwhile.
std::string ReadCounters(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename().string().ends_with("counter_collection.csv")) {
      return ReadFile(at->path());
    }
  }
  return ReadFile(fs::path(folder) / "counters.csv");
}

// The last line that is not blank, without control characters.
std::string LastWordsOf(const std::string& said) {
  std::string last;
  for (const absl::string_view line : absl::StrSplit(said, '\n')) {
    std::string text;
    for (const char c : line) {
      if (static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7f) text += c;
    }
    text.erase(0, text.find_first_not_of(' '));
    if (!text.empty()) last = text.substr(0, kReasonBytes);
  }
  return last;
}

struct End {
  std::optional<ExitCause> cause;  // nothing if it was killed
  bool cancelled = false;
  std::string said;
};

// Reads what there is and keeps the last of it. Returns false at the end of the file.
bool Drain(int fd, std::string& said) {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n == 0) return false;
    if (n < 0) return true;
    said.append(buffer.data(), static_cast<std::size_t>(n));
    if (said.size() > 2 * kSaidBytes) said.erase(0, said.size() - kSaidBytes);
    if (n < static_cast<ssize_t>(buffer.size())) return true;
  }
}

End Follow(WorkerProcess& process, int said_fd, const ProfileRun& run) {
  End end;
  const absl::Time deadline = EvenTime() + run.limit;
  bool open = true;
  for (;;) {
    const absl::Time now = EvenTime();
    end.cancelled = run.cancel != nullptr && run.cancel->cancelled();
    if (end.cancelled || now >= deadline) {
      process.Kill();
      process.Wait(now + absl::Seconds(10));
      return end;
    }
    // A closed pipe would be ready for ever.
    pollfd fds[2] = {{process.pidfd(), POLLIN, 0}, {open ? said_fd : -1, POLLIN, 0}};
    const absl::Duration slice = std::min(kPoll, deadline - now) + absl::Milliseconds(1);
    poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(slice)));
    if (fds[1].revents != 0) open = Drain(said_fd, end.said);
    if ((fds[0].revents & POLLIN) == 0) continue;
    end.cause = process.Wait(deadline);
    if (open) Drain(said_fd, end.said);
    return end;
  }
}

std::string Paranoid() {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  std::string value;
  file >> value;
  return value;
}

// Null if the folder or its files could not be made.
bool Prepare(const ProfileRun& run, const fs::path& folder) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(ProfiledSpec(run.spec), &json).ok()) {
    return false;
  }
  if (!WriteFile(folder / "case.json", json)) return false;
  if (run.profiler == Profiler::kPerf) {
    return mkfifo((folder / "control").c_str(), 0600) == 0 &&
           mkfifo((folder / "answer").c_str(), 0600) == 0;
  }
  std::string pmc = "pmc:";
  for (const std::string_view counter : CountersOf(run.profiler)) Append(&pmc, " ", counter);
  return WriteFile(folder / "input.txt", Cat(pmc, "\n"));
}

Profile Without(std::string note) { return {.counters = {}, .note = std::move(note)}; }

}  // namespace

v1::CaseSpec ProfiledSpec(const v1::CaseSpec& spec) {
  v1::CaseSpec once = spec;
  once.set_mode(v1::MODE_VALIDATE);
  once.set_probes(false);
  once.set_repeats(1);
  once.clear_slices();
  once.clear_min_efficiency();
  return once;
}

std::vector<std::string> ProfilerArgs(Profiler profiler, const std::string& program,
                                      const std::string& folder,
                                      const std::vector<std::string>& command) {
  std::vector<std::string> args;
  const std::string counters = Joined(CountersOf(profiler));
  const std::string out = Cat(folder, "/counters.csv");
  switch (profiler) {
    case Profiler::kPerf:
      args = {"stat",
              "-x,",
              "-o",
              out,
              "-D",
              "-1",
              Cat("--control=fifo:", folder, "/control,", folder, "/answer"),
              "-e",
              counters,
              "--"};
      break;
    case Profiler::kNcu:
      // Only the launches in the range that the worker tells the driver of.
      args = {"--csv", "--page",    "raw",    "--print-units",        "base", "--log-file",
              out,     "--metrics", counters, "--profile-from-start", "off"};
      break;
    case Profiler::kRocprof:
      if (IsRocprofV3(program)) {
        args = {"--pmc"};
        for (const std::string_view counter : CountersOf(profiler)) args.emplace_back(counter);
        for (const char* word : {"--output-format", "csv", "-o", "assay", "-d"}) {
          args.emplace_back(word);
        }
        args.push_back(folder);
        args.emplace_back("--");
      } else {
        args = {"-i", Cat(folder, "/input.txt"), "-o", out, "-t", folder, "--timestamp", "on"};
      }
      break;
  }
  args.insert(args.end(), command.begin(), command.end());
  return args;
}

Profile RunUnderProfiler(const ProfileRun& run) {
  const std::string_view name = Name(run.profiler);
  const std::string program = FindProfiler(run.profiler, run.path);
  if (program.empty()) return Without(Cat(name, " is not installed on this host"));
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "assay-profile-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return Without(Cat(name, ": no folder to write into"));
  const absl::Cleanup remove = [&folder] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  };
  if (!Prepare(run, folder)) return Without(Cat(name, ": cannot write into ", folder));

  std::vector<std::string> command = {run.worker_path};
  command.insert(command.end(), run.worker_args.begin(), run.worker_args.end());
  command.push_back(Cat("--parent-pid=", getpid()));
  command.push_back(Cat("--once=", folder, "/case.json"));
  if (run.profiler == Profiler::kPerf) {
    command.push_back(Cat("--perf-control=", folder, "/control,", folder, "/answer"));
  }
  if (run.profiler == Profiler::kNcu) command.emplace_back("--driver-range");
  int said[2];
  if (pipe2(said, O_CLOEXEC) != 0) return Without(Cat(name, ": no pipe"));
  fcntl(said[0], F_SETFL, O_NONBLOCK);
  const absl::Cleanup close_said = [&said] { close(said[0]); };
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ProcessOptions options;
  options.path = program;
  options.args = ProfilerArgs(run.profiler, program, folder, command);
  options.environment = run.environment;
  options.environment.emplace_back("LC_ALL=C");  // numbers with points
  options.output_fd = said[1];
  options.stdout_fd = null;  // the case's result is known already
  options.with_channel = false;
  absl::StatusOr<std::unique_ptr<WorkerProcess>> process = WorkerProcess::Start(options);
  close(said[1]);
  if (null >= 0) close(null);
  if (!process.ok()) return Without(Cat(name, ": ", process.status().message()));

  const End end = Follow(**process, said[0], run);
  if (end.cancelled) return Without(Cat(name, ": cancelled"));
  if (!end.cause) {
    return Without(
        Cat(name, " did not end within ", absl::FormatDuration(run.limit), " and was killed"));
  }
  const std::string wrote = ReadCounters(folder);
  if (wrote.size() > kFileBytes) {
    return Without(Cat(name, " wrote more than ", kFileBytes >> 20, " MiB"));
  }
  if (std::string refusal = Refusal(run.profiler, Cat(end.said, wrote), Paranoid());
      !refusal.empty() && (end.cause->status != 0 || run.profiler != Profiler::kPerf)) {
    return Without(std::move(refusal));
  }
  if (end.cause->signal != 0 || end.cause->status != 0) {
    const std::string why = LastWordsOf(end.said);
    return Without(Cat(name, " ", end.cause->Text(), why.empty() ? "" : ": ", why));
  }
  return ReadProfile(run.profiler, wrote);
}

}  // namespace assay::server
