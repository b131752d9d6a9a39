#include "client/report/csv.h"

#include "absl/strings/str_replace.h"
#include "client/lib/text.h"
#include "client/report/json.h"
#include "client/report/profile.h"

namespace assay::client {
namespace {

// JSON names; "bench.x" is x inside bench; shape is its text. Of a job that was to be
// profiled the profiler's counters follow, and what it says of those it has not.
constexpr const char* kColumns[] = {"name",
                                    "index",
                                    "op",
                                    "provider",
                                    "dtype",
                                    "out_dtype",
                                    "shape",
                                    "pattern",
                                    "seed",
                                    "target",
                                    "device",
                                    "verdict",
                                    "passed",
                                    "reason",
                                    "message",
                                    "criterion",
                                    "rho",
                                    "rho_proven",
                                    "max_abs_error",
                                    "max_rel_error",
                                    "mean_abs_error",
                                    "rms_error",
                                    "max_ulp",
                                    "cosine",
                                    "bias_z",
                                    "precision.bits",
                                    "precision.declared_bits",
                                    "precision.rms",
                                    "precision.gain",
                                    "precision.gain_error",
                                    "precision.offset",
                                    "precision.looks_like",
                                    "count",
                                    "mismatches",
                                    "atol",
                                    "rtol",
                                    "nan_count",
                                    "inf_count",
                                    "unwritten",
                                    "guard_hits",
                                    "digest",
                                    "deterministic",
                                    "bench.median_seconds",
                                    "bench.flops_per_second",
                                    "bench.bytes_per_second",
                                    "bench.efficiency",
                                    "bench.roof",
                                    "bench.samples",
                                    "bench.noise",
                                    "bench.noisy",
                                    "bench.baseline.baseline",
                                    "bench.baseline.baseline_seconds",
                                    "bench.baseline.ratio",
                                    "bench.baseline.noise",
                                    "bench.baseline.threshold",
                                    "bench.baseline.change",
                                    "duration_seconds",
                                    "repro"};

std::string Value(const Json& test, std::string_view column) {
  const Json* value = &test;
  for (std::string_view rest = column; !rest.empty();) {
    const std::size_t dot = rest.find('.');
    const auto it = value->find(std::string(rest.substr(0, dot)));
    if (it == value->end()) return "";
    value = &*it;
    rest = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
  }
  return value->is_string() ? value->get<std::string>() : Compact(*value);
}

class CsvSink : public Sink {
 public:
  explicit CsvSink(const Surface& surface) : surface_(surface) {}

  void OnResult(const Run& run, const v1::CaseResult& result) override {
    Header(run.job.spec().profiler());
    const Json test = TestJson(run, result);
    const char* separator = "";
    for (std::string_view column : kColumns) {
      surface_.out << separator
                   << CsvField(column == "shape" ? ShapeText(result.spec()) : Value(test, column));
      separator = ",";
    }
    for (const std::string_view counter : counters_) {
      const auto counted = result.bench().profile().find(std::string(counter));
      surface_.out << ',';
      if (counted != result.bench().profile().end())
        surface_.out << Compact(Number(counted->second));
    }
    if (!counters_.empty()) surface_.out << ',' << CsvField(result.bench().profile_note());
    surface_.out << "\r\n" << std::flush;
  }

  void OnNote(std::string_view note) override { surface_.err << note << '\n' << std::flush; }

  void OnEnd(const Report& report) override {
    Header(report.runs.empty() ? "" : report.runs.front().job.spec().profiler());
  }

 private:
  void Header(std::string_view profiler) {
    if (header_written_) return;
    header_written_ = true;
    counters_ = CountersOf(profiler);
    const char* separator = "";
    for (std::string_view column : kColumns) {
      surface_.out << separator << column;
      separator = ",";
    }
    for (const std::string_view counter : counters_) {
      surface_.out << ",bench.profile." << counter;
    }
    if (!counters_.empty()) surface_.out << ",bench.profile_note";
    surface_.out << "\r\n" << std::flush;
  }

  Surface surface_;
  bool header_written_ = false;
  std::span<const std::string_view> counters_;
};

}  // namespace

std::unique_ptr<Sink> MakeCsvSink(const Surface& surface) {
  return std::make_unique<CsvSink>(surface);
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  return "\"" + absl::StrReplaceAll(View(text), {{"\"", "\"\""}}) + "\"";
}

}  // namespace assay::client
