#include "client/fleet/reader.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/fleet/json_scanner.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

constexpr char kSchema[] = "assay.report/v1";
constexpr char kSchemaFamily[] = "assay.report/";
constexpr std::streamoff kMostReport = std::streamoff{1} << 30;

absl::Status Bad(const std::string& source, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", what));
}

// The fields of a problem and their values, as they are written.
using Shape = std::vector<std::pair<std::string_view, std::string_view>>;

// Whether a zero of the operator's field is a value like any other: axis 0, alpha 0. It is if the
// field has presence, whose default is another value.
bool ZeroCounts(std::string_view op, std::string_view name) {
  const auto* problem = ProblemField(op);
  if (problem == nullptr) return false;
  const auto* field = problem->message_type()->FindFieldByName(std::string(name));
  return field != nullptr && field->has_presence();
}

// "k=72 m=96 n=80": the fields that say something, sorted. What is false, empty, or a 0 that does
// not count is the same as not said, which is how another version may have written it.
std::string ShapeKey(std::string_view op, const Shape& shape) {
  std::vector<std::string> fields;
  for (const auto& [name, value] : shape) {
    if (value == "false" || value == "\"\"") continue;
    if ((value == "0" || value == "0.0") && !ZeroCounts(op, name)) continue;
    std::string plain;
    for (const char c : value) {
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r') plain.push_back(c);
    }
    if (plain == "[]" || plain == "{}") continue;
    fields.push_back(absl::StrCat(View(name), "=", plain));
  }
  std::sort(fields.begin(), fields.end());
  return absl::StrJoin(fields, " ");
}

ReportRows::Daemon ReadDaemon(JsonScanner& scan) {
  ReportRows::Daemon daemon;
  scan.Object([&](std::string_view name) {
    if (name == "host") {
      daemon.host = scan.Text();
    } else if (name == "instance") {
      daemon.instance = scan.Text();
    } else if (name == "uuids" || name == "models") {
      auto& texts = name == "uuids" ? daemon.uuids : daemon.models;
      scan.Object([&](std::string_view device) { texts[std::string(device)] = scan.Text(); });
    }
  });
  return daemon;
}

ReportRows::JobFinding ReadJobFinding(JsonScanner& scan) {
  ReportRows::JobFinding finding;
  scan.Object([&](std::string_view name) {
    if (name == "reason") {
      finding.reason = scan.Text();
    } else if (name == "message") {
      finding.message = scan.Text();
    } else if (name == "target") {
      finding.target = scan.Text();
    } else if (name == "device") {
      finding.device = scan.Text();
    }
  });
  return finding;
}

ReportRows::Times ReadTimes(JsonScanner& scan) {
  ReportRows::Times times;
  scan.Object([&](std::string_view name) {
    if (name == "median_seconds") {
      times.median = scan.Number().value_or(0);
    } else if (name == "p10_seconds") {
      times.p10 = scan.Number().value_or(0);
    } else if (name == "p90_seconds") {
      times.p90 = scan.Number().value_or(0);
    } else if (name == "samples") {
      times.samples = static_cast<int>(std::clamp(scan.Number().value_or(0), 0.0, 1e9));
    } else if (name == "noisy") {
      times.noisy = scan.Bool().value_or(false) || times.noisy;
    } else if (name == "launches_per_sample") {
      times.replayed = scan.Number().has_value();
    } else if (name == "flops_per_second") {
      times.flops_per_second = scan.Number();
    } else if (name == "bytes_per_second") {
      times.bytes_per_second = scan.Number();
    } else if (name == "conditions") {
      scan.Object([&](std::string_view condition) {
        if (condition == "median_clock_hertz") {
          times.clock_hertz = scan.Number();
        } else if (condition == "throttle_reasons") {
          scan.Array([&] { times.throttle_reasons.push_back(scan.Text()); });
        } else if (condition == "others_bytes") {
          times.noisy = times.noisy || scan.Number().value_or(0) > 0;
        }
      });
    }
  });
  return times;
}

// Nothing without an rms that is a number.
std::optional<ReportRows::Exactness> ReadExactness(JsonScanner& scan) {
  std::optional<double> bits, rms;
  scan.Object([&](std::string_view name) {
    if (name == "bits") {
      bits = scan.Number();
    } else if (name == "rms") {
      rms = scan.Number();
    }
  });
  if (!rms) return std::nullopt;
  return ReportRows::Exactness{bits, *rms};
}

// The first value that is not what it must be; later ones change nothing.
class Malformed {
 public:
  void Note(const std::string& field, std::string_view must, std::string_view got) {
    if (!line_.empty()) return;
    std::size_t shown = std::min(got.size(), kMostShown);
    while (shown < got.size() && (got[shown] & 0xc0) == 0x80) --shown;  // not within a letter
    std::string value(got.substr(0, shown));
    for (char& c : value) {
      if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
    }
    line_ = absl::StrCat(field, ": must be ", View(must), ", got ", value,
                         shown < got.size() ? "…" : "");
  }
  const std::string& line() const { return line_; }

 private:
  static constexpr std::size_t kMostShown = 60;
  std::string line_;
};

bool IsWord(const google::protobuf::EnumDescriptor& type, const std::string& word) {
  for (int i = 0; i < type.value_count(); ++i) {
    const int number = type.value(i)->number();
    if (number != 0 && EnumWord(type, number) == word) return true;
  }
  return false;
}

std::string OneOf(const google::protobuf::EnumDescriptor& type) {
  return absl::StrCat("one of ", absl::StrJoin(EnumWords(type), ", "));
}

const std::set<std::string>& Verdicts() {
  static const std::set<std::string> words = [] {
    const auto list = EnumWords(*v1::Verdict_descriptor());
    return std::set<std::string>(list.begin(), list.end());
  }();
  return words;
}

std::optional<std::int64_t> ReadTotal(JsonScanner& scan, Malformed& malformed) {
  const std::string_view raw = scan.Raw();
  std::int64_t total = 0;
  if (absl::SimpleAtoi(View(raw), &total) && total >= 0) return total;
  malformed.Note("total", "a whole number from 0", raw);
  return std::nullopt;
}

// A digest's text; empty where it is none and `malformed` says so.
std::string ReadDigest(JsonScanner& scan, std::size_t test, std::size_t probe,
                       Malformed& malformed) {
  const bool text = scan.Peek() == '"';
  const std::string_view raw = scan.Raw();
  if (!text || (raw.size() > 2 && !ParseDigest(raw.substr(1, raw.size() - 2)))) {
    malformed.Note(absl::StrCat("tests[", test, "].probes[", probe, "].digest"),
                   "32 hexadecimal digits", raw);
    return "";
  }
  return raw.size() > 2 ? std::string(raw.substr(1, raw.size() - 2)) : "";
}

ReportRows::Probe ReadProbe(JsonScanner& scan, std::size_t test, std::size_t index,
                            Malformed& malformed) {
  ReportRows::Probe probe;
  scan.Object([&](std::string_view name) {
    if (name == "name") {
      probe.name = scan.Text();
    } else if (name == "digest") {
      probe.digest = ReadDigest(scan, test, index, malformed);
    } else if (name == "golden") {
      probe.golden = scan.Bool();
    }
  });
  return probe;
}

ReportRows::Test ReadTest(JsonScanner& scan, std::size_t index, Malformed& malformed) {
  const auto field = [index](std::string_view name) {
    return absl::StrCat("tests[", index, "].", View(name));
  };
  ReportRows::Test test;
  Shape shape;
  std::string out_dtype, pattern;
  v1::Mode mode = v1::MODE_UNSPECIFIED;
  scan.Object([&](std::string_view name) {
    const auto text = [&](std::string_view key, std::string& value) {
      if (name != key) return false;
      value = scan.Text();
      return true;
    };
    if (text("name", test.name) || text("op", test.op) || text("provider", test.provider) ||
        text("dtype", test.dtype) || text("out_dtype", out_dtype) || text("pattern", pattern) ||
        text("target", test.target) || text("device", test.device) ||
        text("verdict", test.verdict) || text("reason", test.reason) ||
        text("message", test.message) || text("phase", test.phase) || text("digest", test.digest) ||
        text("implementation", test.implementation)) {
      return;
    }
    if (name == "blame") {
      test.blame = ParseWord<v1::Blame>(name, scan.Text()).value_or(v1::BLAME_UNSPECIFIED);
    } else if (name == "mode") {
      mode = ParseWord<v1::Mode>(name, scan.Text()).value_or(v1::MODE_UNSPECIFIED);
    } else if (name == "shape") {
      scan.Object([&](std::string_view of_shape) { shape.emplace_back(of_shape, scan.Raw()); });
    } else if (name == "seed") {
      test.seed = Visible(scan.Raw());
    } else if (name == "probes") {
      if (scan.Peek() != '[') return malformed.Note(field(name), "a list", scan.Raw());
      std::size_t at = 0;
      scan.Array([&] {
        ReportRows::Probe probe = ReadProbe(scan, index, at++, malformed);
        if (!probe.digest.empty()) test.probes.push_back(std::move(probe));
      });
    } else if (name == "bench") {
      test.times = ReadTimes(scan);
    } else if (name == "precision") {
      test.exactness = ReadExactness(scan);
    }
  });
  if (!Verdicts().contains(test.verdict)) {
    malformed.Note(field("verdict"), OneOf(*v1::Verdict_descriptor()),
                   absl::StrCat("\"", test.verdict, "\""));
  }
  // A validation times its few launches in passing: nobody waits until they settle.
  constexpr int kSettled = 10;  // a benchmark's least, but for long launches
  const bool few = test.times && test.times->samples < kSettled;
  if (mode == v1::MODE_VALIDATE && few) test.times.reset();
  // Of other operations it is not compared.
  if (InfoOf(test.op).moves_values() && !test.digest.empty() && !ParseDigest(test.digest)) {
    malformed.Note(field("digest"), "32 hexadecimal digits", absl::StrCat("\"", test.digest, "\""));
  }
  test.key = absl::StrCat(test.op, " ", ShapeKey(test.op, shape), " ", test.dtype, " ", out_dtype,
                          " ", pattern);
  test.whole_key = !pattern.empty();
  return test;
}

// A report as it is read, and what keeps it from being one.
struct Document {
  ReportRows report;
  std::string schema, gpu;
  bool tests = false;  // it has them as a list
  Malformed malformed;

  // The member of this name, whose value is at hand.
  void Take(std::string_view name, JsonScanner& scan) {
    if (TakeText(name, scan)) return;
    if (name == "generated_at") {
      absl::Time time;
      std::string error;
      if (absl::ParseTime(absl::RFC3339_full, scan.Text(), &time, &error)) {
        report.generated_at = time;
      }
    } else if (name == "seed") {
      report.seed = Visible(scan.Raw());
    } else if (name == "total") {
      report.total = ReadTotal(scan, malformed);
    } else if (name == "versions") {
      scan.Object(
          [&](std::string_view library) { report.versions[Visible(library)] = scan.Text(); });
    } else if (name == "daemons") {
      scan.Object(
          [&](std::string_view target) { report.daemons[Visible(target)] = ReadDaemon(scan); });
    } else if (name == "findings" && (schema.empty() || schema == kSchema)) {
      if (scan.Peek() != '[') return malformed.Note("findings", "a list", scan.Raw());
      scan.Array([&] { report.findings.push_back(ReadJobFinding(scan)); });
    } else if (name == "tests" && (schema.empty() || schema == kSchema)) {
      tests = scan.Peek() == '[';
      scan.Array([&] { report.tests.push_back(ReadTest(scan, report.tests.size(), malformed)); });
    }
  }

  bool IsOfAnotherVersion() const { return schema != kSchema && schema.starts_with(kSchemaFamily); }

  // Empty for a report.
  std::string WhyBad() {
    if (IsOfAnotherVersion()) {
      return absl::StrCat("has the schema \"", schema,
                          "\", which this assay does not know: it reads ", kSchema);
    }
    if (schema != kSchema) {
      return absl::StrCat(
          "is no report: its \"schema\" must be ", kSchema,
          schema.empty() ? ", and it has none" : absl::StrCat(", got \"", schema, "\""));
    }
    if (!tests) return "tests: must be a list";
    if (!report.state.empty() && !IsWord(*v1::JobState_descriptor(), report.state)) {
      malformed.Note("state", OneOf(*v1::JobState_descriptor()),
                     absl::StrCat("\"", report.state, "\""));
    }
    if (!report.verdict.empty() && !Verdicts().contains(report.verdict)) {
      malformed.Note("verdict", OneOf(*v1::Verdict_descriptor()),
                     absl::StrCat("\"", report.verdict, "\""));
    }
    return malformed.line();
  }

 private:
  bool TakeText(std::string_view name, JsonScanner& scan) {
    for (const auto& [key, value] :
         {std::pair("schema", &schema), std::pair("target", &report.target),
          std::pair("host", &report.host), std::pair("device", &report.device),
          std::pair("gpu", &gpu), std::pair("model", &report.model),
          std::pair("driver_version", &report.driver), std::pair("job", &report.job),
          std::pair("suite", &report.suite), std::pair("suite_version", &report.suite_version),
          std::pair("filter", &report.filter), std::pair("state", &report.state),
          std::pair("verdict", &report.verdict)}) {
      if (name != key) continue;
      *value = scan.Text();
      return true;
    }
    return false;
  }
};

}  // namespace

absl::StatusOr<ReportRows> ReadReport(std::string_view text, const std::string& source) {
  JsonScanner scan(text);
  if (scan.Peek() != '{') return Bad(source, "is no report: not a JSON object");
  Document document;
  document.report.source = source;
  scan.Object([&](std::string_view name) { document.Take(name, scan); });
  if ((!scan.ok() || !scan.AtEnd()) && !document.IsOfAnotherVersion()) {
    return Bad(source, absl::StrCat(scan.AtEnd() ? "is cut off" : "is no JSON", " at byte ",
                                    scan.offset()));
  }
  if (std::string why = document.WhyBad(); !why.empty()) return Bad(source, why);
  if (document.report.model.empty()) document.report.model = document.gpu;
  return std::move(document.report);
}

absl::StatusOr<ReportRows> ReadReportFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (std::error_code error; size < 0 || std::filesystem::is_directory(path, error)) {
    return Bad(path, "cannot be read");
  }
  if (size > kMostReport) return Bad(path, "is too large for a report: above 1 GiB");
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return Bad(path, "cannot be read");
  return ReadReport(text, path);
}

std::vector<std::string> ReadReports(const std::vector<std::string>& paths, Fleet& fleet) {
  std::mutex mutex;
  std::condition_variable turned;
  std::size_t next = 0;   // to be read
  std::size_t added = 0;  // in the order of the paths, so that a result does not depend on luck
  std::vector<std::string> unread;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (next < paths.size()) {
      const std::size_t mine = next++;
      lock.unlock();
      auto report = ReadReportFile(paths[mine]);
      lock.lock();
      turned.wait(lock, [&] { return added == mine; });
      if (report.ok()) {
        fleet.Add(*report);
      } else {
        unread.emplace_back(report.status().message());
      }
      ++added;
      turned.notify_all();
    }
  };
  std::vector<std::thread> threads;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min<std::size_t>(cores, 16); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return unread;
}

}  // namespace assay::client
