#include "client/qualify/report.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/text.h"
#include "client/qualify/detection.h"
#include "client/report/columns.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr int kMostQualifiedRows = 8;  // in a table for people

const std::string& FileOf(const QualificationReport& report, const DeviceFit& device) {
  const auto found = report.files.find({device.target, device.device});
  return found != report.files.end() ? found->second : device.run.job.name();
}

Json GrievanceJson(const Grievance& grievance) {
  Json json;
  json["code"] = std::string(grievance.code->code);
  json["severity"] = std::string(grievance.code->severity);
  json["meaning"] = std::string(grievance.code->meaning);
  json["why"] = grievance.why;
  json["cases"] = grievance.cases;
  if (!grievance.repro.empty()) json["repro"] = grievance.repro;
  return json;
}

// "A101 wrong results …: gemm …: …".
std::string Line(const Grievance& grievance) {
  if (grievance.code->fitness == Fitness::kQualified) return grievance.why;
  return absl::StrCat(View(grievance.code->meaning),
                      grievance.cases > 1 ? absl::StrCat(" (", grievance.cases, " cases)") : "",
                      grievance.why.empty() ? "" : ": ", grievance.why);
}

// {"launches": 480, "share": 0.0062, "share_per_minute": 0.00091}.
Json DetectionJson(const DeviceFit& device) {
  const auto launches = static_cast<double>(device.launches);
  Json json;
  json["launches"] = device.launches;
  json["share"] = Number(FoundShare(launches));
  if (device.seconds > 0) {
    json["share_per_minute"] = Number(FoundShare(launches * 60 / device.seconds));
  }
  return json;
}

// " in 8.8 s; a fault in 1 of 160 launches would show".
std::string DetectionText(const DeviceFit& device) {
  std::string text = absl::StrCat(" in ", SecondsText(device.seconds));
  if (device.launches > 0) {
    const double one_in = 1 / FoundShare(static_cast<double>(device.launches));
    absl::StrAppend(&text, "; a fault in 1 of ", CountText(static_cast<std::int64_t>(one_in)),
                    " launches would show");
  }
  return text;
}

std::string NextStep(const Missing& missing) {
  if (!missing.none_asked_for) return std::string(CodeOf(missing).next_step);
  return absl::StrCat("`assay devices --target ", missing.target,
                      "` lists what it has; change --device or --ignore");
}

// ", 1 of 3 nodes missing, 7 devices missing": what is not among the devices that were judged.
std::string MissingText(const QualificationReport& report, const std::set<std::string>& judged) {
  std::set<std::string> nodes = judged, gone, unasked;
  struct Lack {
    int counted = 0, named = 0;  // by the number expected, and by their names: the same ones
  };
  std::map<std::string, Lack> lacking;
  int more = 0;
  for (const Missing& m : report.missing) {
    nodes.insert(m.target);
    if (m.none_asked_for) {
      unasked.insert(m.target);
    } else if (!m.expected) {
      gone.insert(m.target);
    } else if (m.by_count) {
      lacking[m.target].counted = std::max(0, *m.expected - m.found.value_or(0));
      more += std::max(0, m.found.value_or(0) - *m.expected);
    } else {
      ++lacking[m.target].named;
    }
  }
  int devices = 0;
  for (const auto& [target, lack] : lacking) devices += std::max(lack.counted, lack.named);
  std::string text;
  const auto of_nodes = [&](std::size_t count, const char* what) {
    if (count == 0) return;
    absl::StrAppend(&text, ", ", count, " of ", nodes.size(),
                    nodes.size() == 1 ? " node" : " nodes", what);
  };
  const auto of_devices = [&](int count, const char* what) {
    if (count > 0) absl::StrAppend(&text, ", ", count, count == 1 ? " device " : " devices ", what);
  };
  of_nodes(gone.size(), " missing");
  of_nodes(unasked.size(), " without a device that was asked for");
  of_devices(devices, "missing");
  of_devices(more, "more than expected");
  return text;
}

}  // namespace

const QualifyCode& CodeOf(const Missing& missing) {
  const bool more = missing.expected && missing.found.value_or(0) > *missing.expected;
  return *FindCode(more                     ? "A904"
                   : missing.expected       ? "A116"
                   : missing.none_asked_for ? "A903"
                                            : "A901");
}

Fitness FitnessOf(const QualificationReport& report) {
  if (report.devices.empty() && report.missing.empty()) return Fitness::kInconclusive;
  Fitness worst = Fitness::kQualified;
  for (const DeviceFit& device : report.devices) {
    worst = std::max(worst, device.fit.code().fitness);
  }
  for (const Missing& missing : report.missing) {
    worst = std::max(worst, CodeOf(missing).fitness);
  }
  return worst;
}

void Sort(QualificationReport& report) {
  const auto key = [](const DeviceFit& d) {
    return std::make_tuple(-static_cast<int>(d.fit.code().fitness), d.target, d.device);
  };
  std::stable_sort(report.devices.begin(), report.devices.end(),
                   [&](const DeviceFit& a, const DeviceFit& b) { return key(a) < key(b); });
}

Json DeviceFitJson(const DeviceFit& device, const std::string& report) {
  const QualifyCode& code = device.fit.code();
  Json json;
  json["target"] = device.target;
  json["device"] = device.device;
  if (!device.model.empty()) json["model"] = device.model;
  json["verdict"] = std::string(Word(code.fitness));
  json["severity"] = std::string(code.severity);
  json["code"] = std::string(code.code);
  json["reason"] = Line(device.fit.grievances.front());
  json["next_step"] = std::string(code.next_step);
  json["report"] = report;
  if (!device.run.job.name().empty()) json["job"] = device.run.job.name();
  if (device.run.job.spec().has_seed()) json["seed"] = device.run.job.spec().seed();
  json["duration_seconds"] = Number(device.seconds);
  json["cases"] = device.run.results.size();
  if (device.launches > 0) json["detects"] = DetectionJson(device);
  Json& findings = json["findings"] = Json::array();
  for (const Grievance& g : device.fit.grievances) {
    if (g.code->fitness != Fitness::kQualified) findings.push_back(GrievanceJson(g));
  }
  return json;
}

Json MissingJson(const Missing& missing) {
  const QualifyCode& code = CodeOf(missing);
  Json json;
  json["target"] = missing.target;
  json["verdict"] = "MISSING";
  json["severity"] = std::string(code.severity);
  json["code"] = std::string(code.code);
  json["reason"] = missing.reason;
  json["next_step"] = NextStep(missing);
  if (missing.expected) json["expected"] = *missing.expected;
  if (missing.found) json["found"] = *missing.found;
  return json;
}

Json QualificationJson(const QualificationReport& report) {
  Json json;
  json["schema"] = "assay.qualification/v1";
  json["generated_at"] =
      absl::FormatTime(absl::RFC3339_sec, report.generated_at, absl::UTCTimeZone());
  json["level"] = std::string(report.level.suite);
  json["verdict"] = std::string(Word(FitnessOf(report)));
  Json& devices = json["devices"] = Json::array();
  for (const DeviceFit& device : report.devices) {
    devices.push_back(DeviceFitJson(device, FileOf(report, device)));
  }
  Json& missing = json["missing"] = Json::array();
  for (const Missing& m : report.missing) {
    missing.push_back(MissingJson(m));
  }
  return json;
}

void WriteQualificationTable(const QualificationReport& report, bool colour, bool every_row,
                             std::ostream& out) {
  const auto qualified = [](const DeviceFit& d) {
    return d.fit.code().fitness == Fitness::kQualified;
  };
  const auto quiet = std::count_if(report.devices.begin(), report.devices.end(), qualified);
  const bool counted = !every_row && quiet > kMostQualifiedRows;
  std::vector<Cells> rows = {{"VERDICT", "TARGET", "DEVICE", "CODE"}, {"INCONCLUSIVE"}};
  for (const DeviceFit& d : report.devices) {
    if (!counted || !qualified(d)) rows.push_back({"", d.target, d.device});
  }
  for (const Missing& m : report.missing) rows.push_back({"", m.target});
  const std::vector<std::size_t> widths = WidthsOf(rows);
  const auto row = [&](const Cells& cells, const char* hue, const std::string& what) {
    const std::string line = AlignedRow(cells, widths);
    out << Painted(line.substr(0, widths[0]), hue, colour && *hue != '\0') << line.substr(widths[0])
        << "  " << what << '\n';
  };
  row(rows.front(), "", "WHY");
  const std::string indent(AlignedRow(rows.front(), widths).size() + 2, ' ');
  for (const DeviceFit& d : report.devices) {
    if (counted && qualified(d)) continue;
    const QualifyCode& code = d.fit.code();
    constexpr std::array<const char*, 4> kHues = {"32", "33", "33", "31"};
    bool first = true;
    for (const Grievance& g : d.fit.grievances) {
      std::string what = Line(g);
      if (g.code->fitness == Fitness::kQualified) {
        absl::StrAppend(&what, DetectionText(d));
      }
      if (first) {
        row({std::string(Word(code.fitness)), d.target, d.device, std::string(code.code)},
            kHues[static_cast<std::size_t>(code.fitness)], what);
      } else {
        out << indent.substr(6) << g.code->code << "  " << what << '\n';
      }
      first = false;
      if (!g.repro.empty()) out << indent << "repeat: " << g.repro << '\n';
    }
    if (!code.next_step.empty()) out << indent << "next: " << code.next_step << '\n';
  }
  for (const Missing& m : report.missing) {
    row({"MISSING", m.target, "", std::string(CodeOf(m).code)}, "31", m.reason);
    out << indent << "next: " << NextStep(m) << '\n';
  }
  if (counted) {
    row({"QUALIFIED", "", "", "A000"}, "32",
        absl::StrCat(CountText(quiet), " devices (--all lists them)"));
  }
}

void WriteQualificationMarkdown(const QualificationReport& report, std::ostream& out) {
  const auto cell = [](std::string text) {
    for (std::size_t at = 0; (at = text.find_first_of("|\n", at)) != std::string::npos; at += 2) {
      text.replace(at, 1, text[at] == '|' ? "\\|" : "  ");
    }
    return text;
  };
  out << "# Qualification, level " << report.level.suite << ": " << Word(FitnessOf(report))
      << "\n\n| verdict | target | device | code | severity | why | next step |\n"
      << "|---|---|---|---|---|---|---|\n";
  for (const DeviceFit& d : report.devices) {
    const QualifyCode& code = d.fit.code();
    out << "| " << Word(code.fitness) << " | " << cell(d.target) << " | " << cell(d.device) << " | "
        << code.code << " | " << code.severity << " | " << cell(Line(d.fit.grievances.front()))
        << " | " << cell(std::string(code.next_step)) << " |\n";
  }
  for (const Missing& m : report.missing) {
    out << "| MISSING | " << cell(m.target) << " |  | " << CodeOf(m).code << " | "
        << CodeOf(m).severity << " | " << cell(m.reason) << " | " << cell(NextStep(m)) << " |\n";
  }
}

std::string QualificationSummary(const QualificationReport& report) {
  std::array<int, 4> counts{};
  std::set<std::string> nodes;
  for (const DeviceFit& d : report.devices) {
    ++counts[static_cast<std::size_t>(d.fit.code().fitness)];
    nodes.insert(d.target);
  }
  std::vector<std::string> words;
  for (int f = 0; f < 4; ++f) {
    const int count = counts[static_cast<std::size_t>(f)];
    if (count > 0) words.push_back(absl::StrCat(count, " ", View(Word(static_cast<Fitness>(f)))));
  }
  std::string text = absl::StrCat(View(report.level.suite), ": ");
  if (words.empty()) {
    absl::StrAppend(&text, report.missing.empty() ? "nothing to qualify" : "nothing was qualified");
  } else {
    absl::StrAppend(&text, absl::StrJoin(words, ", "), " of ", report.devices.size(), " device",
                    report.devices.size() == 1 ? "" : "s", " on ", nodes.size(), " node",
                    nodes.size() == 1 ? "" : "s");
  }
  return text + MissingText(report, nodes);
}

}  // namespace assay::client
