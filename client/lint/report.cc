#include "client/lint/report.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/lib/text.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// How people say a figure, in the order in which they ask for it.
struct Figure {
  const char* key;
  const char* unit;
  bool bytes = false;
};
constexpr Figure kFigures[] = {
    {"vgprs_used", "VGPRs"},
    {"agprs_used", "AGPRs"},
    {"sgprs_used", "SGPRs"},
    {"registers", "registers"},
    {"lds_bytes", "LDS", true},
    {"shared_bytes", "shared", true},
    {"scratch_bytes", "scratch", true},
    {"local_bytes", "local", true},
    {"threads", "threads at most"},
};

// "148 VGPRs, 16 SGPRs, 64 KiB LDS, wave64". What is 0 is left out.
std::string Used(const LintedKernel& kernel) {
  std::vector<std::string> parts;
  for (const Figure& figure : kFigures) {
    const auto found = kernel.resources.find(figure.key);
    if (found == kernel.resources.end() || found->second == 0) continue;
    parts.push_back(absl::StrCat(
        figure.bytes ? BytesText(found->second) : absl::StrCat(found->second), " ", figure.unit));
  }
  if (const auto wave = kernel.resources.find("wave"); wave != kernel.resources.end()) {
    parts.push_back(absl::StrCat("wave", wave->second));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string LintText(const LintReport& report) {
  std::string text =
      absl::StrCat(Visible(report.file), ": ", report.target, ", ", report.kernels.size(),
                   report.kernels.size() == 1 ? " kernel\n" : " kernels\n");
  const bool several = report.target.find(',') != std::string::npos;
  for (const LintedKernel& kernel : report.kernels) {
    const std::string name =
        absl::StrCat(Visible(kernel.name), several ? absl::StrCat(" (", kernel.target, ")") : "");
    const std::string used = Used(kernel);
    absl::StrAppend(&text, "  ", name, used.empty() ? "" : ": ", used, "\n");
    for (const LintFinding& finding : kernel.findings) {
      std::string word(Word(finding.severity));
      if (finding.severity == LintSeverity::kError) word = absl::AsciiStrToUpper(word);
      absl::StrAppendFormat(&text, "    %-8s %s\n", word, Visible(finding.message));
    }
  }
  return text;
}

Json LintJson(const LintReport& report) {
  Json json;
  json["schema"] = "assay.lint/v1";
  json["file"] = report.file;
  json["target"] = report.target;
  json["kernels"] = Json::array();
  for (const LintedKernel& kernel : report.kernels) {
    Json entry;
    entry["name"] = kernel.name;
    entry["target"] = kernel.target;
    entry["registers"] = kernel.resources;
    entry["findings"] = Json::array();
    for (const LintFinding& finding : kernel.findings) {
      Json one;
      one["severity"] = std::string(Word(finding.severity));
      one["rule"] = finding.rule;
      one["message"] = finding.message;
      entry["findings"].push_back(std::move(one));
    }
    json["kernels"].push_back(std::move(entry));
  }
  return json;
}

bool HasError(const LintReport& report) {
  return std::any_of(report.kernels.begin(), report.kernels.end(), [](const LintedKernel& kernel) {
    return std::any_of(kernel.findings.begin(), kernel.findings.end(),
                       [](const LintFinding& f) { return f.severity == LintSeverity::kError; });
  });
}

}  // namespace assay::client
