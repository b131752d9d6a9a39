#include "client/report/json.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/operators.h"
#include "client/lib/words.h"
#include "client/report/reading.h"
#include "client/report/row.h"

namespace assay::client {
namespace {

Json IndexJson(const google::protobuf::RepeatedField<std::int64_t>& index) {
  Json list = Json::array();
  for (std::int64_t i : index) list.push_back(i);
  return list;
}

Json MismatchJson(const v1::Mismatch& mismatch) {
  Json json;
  json["index"] = IndexJson(mismatch.index());
  json["actual"] = Number(mismatch.actual());
  json["expected"] = Number(mismatch.expected());
  json["bound"] = Number(mismatch.bound());
  json["actual_bits"] = mismatch.actual_bits();
  json["expected_bits"] = mismatch.expected_bits();
  return json;
}

void AddStats(const v1::ErrorStats& stats, Json& json) {
  const auto add = [&json](const char* name, bool present, double value) {
    if (present) json[name] = Number(value);
  };
  add("rho", stats.has_rho(), stats.rho());
  add("rho_proven", stats.has_rho_proven(), stats.rho_proven());
  add("max_abs_error", stats.has_max_abs_error(), stats.max_abs_error());
  add("max_rel_error", stats.has_max_rel_error(), stats.max_rel_error());
  add("mean_abs_error", stats.has_mean_abs_error(), stats.mean_abs_error());
  add("rms_error", stats.has_rms_error(), stats.rms_error());
  add("max_ulp", stats.has_max_ulp(), stats.max_ulp());
  add("cosine", stats.has_cosine(), stats.cosine());
  add("bias_z", stats.has_bias_z(), stats.bias_z());
  add("max_abs_reference", stats.has_max_abs_reference(), stats.max_abs_reference());
  add("max_abs_score", stats.has_max_abs_score(), stats.max_abs_score());
  json["count"] = stats.count();
  json["mismatches"] = stats.mismatches();
  json["nan"] = stats.nan_count() > 0;
  json["inf"] = stats.inf_count() > 0;
  json["nan_count"] = stats.nan_count();
  json["inf_count"] = stats.inf_count();
  json["reference_nan_count"] = stats.reference_nan_count();
  json["reference_inf_count"] = stats.reference_inf_count();
  json["class_mismatches"] = stats.class_mismatches();
  json["zero_count"] = stats.zero_count();
  json["unwritten"] = stats.unwritten();
  json["guard_hits"] = stats.guard_hits();
  Json samples = Json::array();
  for (const auto& sample : stats.mismatch_samples()) samples.push_back(MismatchJson(sample));
  if (!samples.empty()) json["first_mismatch"] = samples.front();
  json["mismatch_samples"] = std::move(samples);
  if (stats.has_worst()) json["worst_mismatch"] = MismatchJson(stats.worst());
}

Json BenchJson(const v1::BenchStats& bench) {
  Json json = MessageJson(bench);
  if (bench.profile().empty()) json.erase("profile");
  const std::optional<double> flops = FlopsOf(bench);
  const std::optional<double> bytes = BytesOf(bench);
  if (flops) json["flops"] = *flops;
  if (bytes) json["bytes"] = *bytes;
  if (flops && bytes && *bytes > 0) json["intensity"] = *flops / *bytes;
  if (bench.has_baseline()) {
    // The case's own name and time stand beside it.
    json["baseline"].erase("name");
    json["baseline"].erase("seconds");
  }
  return json;
}

// What the checks found beside the statistics.
void AddEvidence(const v1::CaseResult& result, Json& json) {
  const auto list = [&json](const char* name, const auto& messages) {
    if (messages.empty()) return;
    json[name] = Json::array();
    for (const auto& message : messages) json[name].push_back(MessageJson(message));
  };
  const auto text = [&json](const char* name, const std::string& words) {
    if (!words.empty()) json[name] = words;
  };
  list("provenance", result.provenance());
  list("inputs", result.inputs());
  list("probes", result.probes());
  text("probes_refused", RefusedProbes(result));
  list("criteria", result.criteria());
  if (result.has_checksum()) json["checksum"] = MessageJson(result.checksum());
  text("pattern_of_errors", result.pattern_of_errors());
  text("reads_as", result.reads_as());
  text("next_step", result.next_step());
  list("slices", result.slices());
  if (!result.refused_calls().empty()) {
    json["refused_calls"] = Json::array();
    for (const std::string& call : result.refused_calls()) json["refused_calls"].push_back(call);
  }
  if (!result.loaded_libraries().empty()) {
    json["loaded_libraries"] = Json::array();
    for (const std::string& name : result.loaded_libraries()) {
      json["loaded_libraries"].push_back(name);
    }
  }
  if (Json precision = MessageJson(result.precision()); !precision.empty()) {
    json["precision"] = std::move(precision);
  }
}

// By the address each was asked at: what tells a daemon and its devices from others, and is the
// same at every address.
Json DaemonsJson(const Report& report) {
  Json daemons = Json::object();
  for (const Run& run : report.runs) {
    Json daemon = Json::object();
    if (!run.server.host().empty()) daemon["host"] = run.server.host();
    if (run.server.has_start_time()) {
      daemon["instance"] = UtcText(Time(run.server.start_time())) + " " + run.server.address();
    }
    for (const v1::Device& device : run.devices) {
      if (!device.model().empty()) daemon["models"][device.id()] = ModelName(device);
      for (const char* key : {"UUID", "uuid"}) {
        const auto known = device.properties().find(key);
        if (known != device.properties().end() && !known->second.empty()) {
          daemon["uuids"][device.id()] = known->second;
        }
      }
    }
    if (!daemon.empty()) daemons[run.target] = std::move(daemon);
  }
  return daemons;
}

std::string Joined(const std::set<std::string>& words) { return absl::StrJoin(words, ","); }

class JsonlSink : public Sink {
 public:
  explicit JsonlSink(const Surface& surface) : surface_(surface) {}
  void OnResult(const Run& run, const v1::CaseResult& result) override {
    surface_.out << Compact(TestJson(run, result)) << '\n' << std::flush;
  }
  void OnNote(std::string_view note) override { surface_.err << note << '\n' << std::flush; }
  void OnEnd(const Report& /*report*/) override {}

 private:
  Surface surface_;
};

// "--op gemm --dtype bf16,fp32": which cases of its suite a job was of; empty: all.
std::string FilterText(const v1::CaseFilter& filter) {
  std::set<std::string> dtypes;
  for (const int dtype : filter.dtypes()) dtypes.insert(Word(static_cast<v1::DType>(dtype)));
  std::vector<std::string> options;
  const auto add = [&options](const char* option, const std::set<std::string>& words) {
    if (!words.empty()) options.push_back(absl::StrCat(option, " ", absl::StrJoin(words, ",")));
  };
  add("--op", {filter.ops().begin(), filter.ops().end()});
  add("--provider", {filter.providers().begin(), filter.providers().end()});
  add("--dtype", dtypes);
  if (!filter.name().empty()) options.push_back(absl::StrCat("--name ", filter.name()));
  return absl::StrJoin(options, " ");
}

// What the report's runs ran on: devices, their models and backends, and versions.
struct Sources {
  std::set<std::string> targets, jobs, suites, devices, models, backends;
  Json versions = Json::object();

  void Add(const Run& run) {
    targets.insert(run.target);
    if (!run.job.name().empty()) jobs.insert(run.job.name());
    if (!run.job.suite().empty()) suites.insert(run.job.suite());
    std::set<std::string> used(run.job.devices().begin(), run.job.devices().end());
    for (const auto& result : run.results) {
      if (!result.device().empty()) used.insert(result.device());
    }
    for (const auto& device : run.devices) {
      if (!used.contains(device.id()) && !used.contains(device.name())) continue;
      models.insert(device.model());
      backends.insert(device.backend());
    }
    for (const std::string& device : used) {
      // "devices/cpu:0" and "cpu:0" are the same device.
      devices.insert(device.substr(device.rfind('/') + 1));
      if (run.devices.empty()) {
        backends.insert(device.substr(device.rfind('/') + 1, device.find(':')));
      }
    }
    if (!run.server.version().empty()) versions["assayd"] = run.server.version();
    for (const auto& [name, version] : std::map<std::string, std::string>(
             run.server.versions().begin(), run.server.versions().end())) {
      versions[name] = version;
    }
  }
};

void AddSources(const Report& report, Json& json) {
  Sources sources;
  sources.versions["assay"] = ASSAY_VERSION;
  for (const Run& run : report.runs) sources.Add(run);
  json["target"] = Joined(sources.targets);
  json["job"] = Joined(sources.jobs);
  json["suite"] = Joined(sources.suites);
  const v1::Job none;
  const v1::JobSpec& first = (report.runs.empty() ? none : report.runs.front().job).spec();
  if (std::string filter = FilterText(first.filter()); !sources.suites.empty() && !filter.empty()) {
    json["filter"] = std::move(filter);
  }
  json["seed"] = first.has_seed() ? first.seed() : 1;
  json["device"] = Joined(sources.devices);
  json["gpu"] = Joined(sources.models);
  json["backend"] = Joined(sources.backends);
  json["versions"] = std::move(sources.versions);
  if (Json daemons = DaemonsJson(report); !daemons.empty()) json["daemons"] = std::move(daemons);
}

// Of the only job of a report.
void AddJob(const v1::Job& job, Json& json) {
  json["state"] = Word(job.state());
  if (job.verdict() != 0) json["verdict"] = Word(job.verdict());
  // What a later run must have in common to be held against this one.
  for (const char* key : {"host", "model", "driver_version"}) {
    const auto known = job.environment().find(key);
    if (known != job.environment().end()) json[key] = known->second;
  }
  if (!job.suite_version().empty()) json["suite_version"] = job.suite_version();
  if (job.has_end_time() && job.has_start_time()) {
    json["duration_seconds"] = absl::ToDoubleSeconds(Elapsed(job));
  }
}

// What an old daemon does not say is left out.
Json FindingJson(const v1::Finding& finding) {
  Json json = {{"reason", finding.reason()}, {"message", finding.message()}};
  if (finding.blame() != 0) json["blame"] = Word(finding.blame());
  if (!finding.phase().empty()) json["phase"] = finding.phase();
  if (!finding.device().empty()) json["device"] = finding.device();
  if (finding.quarantined()) json["quarantined"] = true;
  if (!finding.has_death()) return json;
  json["death"]["cause"] = Word(finding.death().cause());
  if (finding.death().has_signal()) json["death"]["signal"] = finding.death().signal();
  if (finding.death().has_exit_code()) json["death"]["exit_code"] = finding.death().exit_code();
  return json;
}

Json FindingsJson(const v1::Job& job) {
  Json findings = Json::array();
  for (const auto& finding : job.findings()) findings.push_back(FindingJson(finding));
  return findings;
}

Json FindingsJson(const Report& report) {
  Json findings = Json::array();
  for (const Run& run : report.runs) {
    for (Json& finding : FindingsJson(run.job)) {
      if (report.runs.size() > 1) finding["target"] = run.target;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

// Named shapes near which fewer shapes than asked for were drawn, each once.
Json LackingJson(const Report& report) {
  Json lacking = Json::array();
  for (const Run& run : report.runs) {
    for (const std::string& shape : run.held_out_lacking) {
      if (std::find(lacking.begin(), lacking.end(), shape) == lacking.end()) {
        lacking.push_back(shape);
      }
    }
  }
  return lacking;
}

}  // namespace

Json ShapeOf(const v1::CaseSpec& spec) {
  const auto* oneof = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  const auto* field = spec.GetReflection()->GetOneofFieldDescriptor(spec, oneof);
  if (field == nullptr) return Json::object();
  const Json fields = MessageJson(spec.GetReflection()->GetMessage(spec, field));
  Json shape = Json::object();
  for (const auto& [name, value] : fields.items()) {
    // A field with presence is there only if its value was said: axis 0 is not the default.
    const bool said = field->message_type()->FindFieldByName(name)->has_presence();
    if (!said && value.is_number_integer() && value == 0) continue;
    if (value.is_array() && value.empty()) continue;
    shape[name] = value;
  }
  return shape;
}

void AddCounts(std::int64_t total, const Counts& counts, Json& json) {
  json["total"] = total;
  json["passed"] = counts.passed;
  json["failed"] = counts.failed;
  json["inconclusive"] = counts.inconclusive;
  json["unsupported"] = counts.unsupported;
  json["errors"] = counts.errors;
  json["skipped"] = counts.skipped;
}

Json TestJson(const Run& run, const v1::CaseResult& result) {
  const v1::CaseSpec& spec = result.spec();
  Json json;
  json["name"] = result.name();
  json["index"] = result.index();
  const std::string op = OpOf(spec);
  json["op"] = op.empty() ? "compare" : op;  // tensors of a user's own, of no operation
  json["provider"] = spec.provider();
  json["dtype"] = Word(spec.dtype());
  if (spec.out_dtype() != 0) json["out_dtype"] = Word(spec.out_dtype());
  json["shape"] = ShapeOf(spec);
  json["pattern"] = spec.pattern();
  if (spec.mode() != 0) json["mode"] = Word(spec.mode());
  if (spec.has_seed()) {
    json["seed"] = spec.seed();
  } else if (run.job.spec().has_seed()) {
    json["seed"] = run.job.spec().seed();
  }
  json["target"] = run.target;
  json["device"] = result.device();
  json["verdict"] = Word(result.verdict());
  json["passed"] = result.verdict() == v1::VERDICT_PASSED;
  json["reason"] = result.findings().empty() ? "" : result.findings(0).reason();
  if (!result.findings().empty()) {
    json["message"] = result.findings(0).message();
    if (!result.findings(0).phase().empty()) json["phase"] = result.findings(0).phase();
    if (result.findings(0).blame() != 0) json["blame"] = Word(result.findings(0).blame());
    json["findings"] = Json::array();
    for (const auto& finding : result.findings()) json["findings"].push_back(FindingJson(finding));
  }
  const v1::Criterion criterion = result.criterion() != 0 ? result.criterion() : spec.criterion();
  json["criterion"] = Word(criterion != 0 ? criterion : v1::CRITERION_BOUND);
  if (spec.has_atol()) json["atol"] = Number(spec.atol());
  if (spec.has_rtol()) json["rtol"] = Number(spec.rtol());
  if (result.has_stats()) AddStats(result.stats(), json);
  AddEvidence(result, json);
  if (!result.digests().canonical().empty()) json["digest"] = result.digests().canonical();
  if (!result.digests().raw().empty()) json["digest_raw"] = result.digests().raw();
  if (result.has_deterministic()) json["deterministic"] = result.deterministic();
  if (result.has_bench()) {
    json["bench"] = BenchJson(result.bench());
    if (const SpeedReading reading = ReadingOf(result); reading != SpeedReading::kNone) {
      json["bench"]["reading"] = ReadingWord(reading);
    }
  }
  if (!result.implementation().empty()) json["implementation"] = result.implementation();
  if (result.has_start_time()) json["start_time"] = UtcText(Time(result.start_time()));
  if (result.has_duration()) json["duration_seconds"] = Seconds(result.duration());
  if (!result.phases().empty()) {
    json["phases"] = Json::object();
    for (const auto& phase : result.phases())
      json["phases"][phase.phase()] = Number(phase.seconds());
  }
  if (spec.has_published()) json["published"] = MessageJson(spec.published());
  json["repro"] = result.repro();
  return json;
}

Json JobJson(const v1::Job& job) {
  Json json;
  json["name"] = job.name();
  json["state"] = Word(job.state());
  if (job.verdict() != 0) json["verdict"] = Word(job.verdict());
  for (const auto& [name, time, present] :
       {std::tuple{"create_time", &job.create_time(), job.has_create_time()},
        std::tuple{"start_time", &job.start_time(), job.has_start_time()},
        std::tuple{"end_time", &job.end_time(), job.has_end_time()}}) {
    if (present) json[name] = UtcText(Time(*time));
  }
  if (!job.suite().empty()) json["suite"] = job.suite();
  if (job.spec().has_seed()) json["seed"] = job.spec().seed();
  json["devices"] = Json::array();
  for (const auto& device : job.devices()) json["devices"].push_back(device);
  const v1::VerdictCounts& c = job.counts();
  AddCounts(c.total(),
            {c.total(), c.passed(), c.failed(), c.inconclusive(), c.unsupported(), c.errors(),
             c.skipped()},
            json);
  json["priority"] = job.spec().priority();
  json["labels"] = Json::object();
  for (const auto& [key, value] :
       std::map<std::string, std::string>(job.spec().labels().begin(), job.spec().labels().end())) {
    json["labels"][key] = value;
  }
  if (!job.findings().empty()) json["findings"] = FindingsJson(job);
  return json;
}

Json ReportJson(const Report& report) {
  Json json;
  json["schema"] = "assay.report/v1";
  json["generated_at"] = UtcText(report.generated_at);
  AddSources(report, json);
  if (report.runs.size() == 1) AddJob(report.runs.front().job, json);
  if (Json findings = FindingsJson(report); !findings.empty()) {
    json["findings"] = std::move(findings);
  }
  if (Json lacking = LackingJson(report); !lacking.empty()) {
    json["held_out_lacking"] = std::move(lacking);
  }
  std::int64_t total = 0;  // with the cases that have no result yet
  for (const Run& run : report.runs) {
    total += std::max<std::int64_t>(static_cast<std::int64_t>(run.results.size()),
                                    run.job.counts().total());
  }
  AddCounts(total, CountOf(report), json);
  json["tests"] = Json::array();
  for (const Run& run : report.runs) {
    for (const auto& result : run.results) json["tests"].push_back(TestJson(run, result));
  }
  return json;
}

void WriteJson(const Report& report, std::ostream& out) {
  out << Indented(ReportJson(report)) << '\n';
}

std::unique_ptr<Sink> MakeJsonlSink(const Surface& surface) {
  return std::make_unique<JsonlSink>(surface);
}

}  // namespace assay::client
