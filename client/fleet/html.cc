// The fleet as one page that fetches nothing: who is accused, a map of devices and
// kernels, what the nodes differ in, and the document itself.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/fleet/html_text.h"
#include "client/fleet/report.h"
#include "client/lib/text.h"
#include "client/report/document.h"
#include "client/report/html.h"
#include "client/report/html_parts.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::size_t kShownEvidence = 5;  // of each device; the rest unfolds

using Cell = std::pair<std::uint32_t, std::uint32_t>;  // device, kernel

// What is drawn of a device and a kernel.
struct Drawn {
  std::string style = "none", text = "–", title;
};

class Map {
 public:
  explicit Map(const FleetReport& report) : report_(report) {
    for (const DigestSuspect& suspect : report.judgement.digests.suspects) {
      ++suspects_[{suspect.vote.device, report.fleet.kernel_of_name.at(suspect.vote.name)}];
    }
    for (const InexactCase& inexact : report.judgement.precision.inexact) {
      ++inexact_[{inexact.row.device, report.fleet.kernel_of_name.at(inexact.row.name)}];
    }
    std::set<std::uint32_t> kernels;
    for (const auto& [cell, counts] : report.fleet.kernels) kernels.insert(cell.second);
    kernels_.assign(kernels.begin(), kernels.end());
    // Kernels in which something stands out come first, so that none is scrolled out of sight.
    std::map<std::uint32_t, int> ranks;
    for (const auto& [cell, counts] : report.fleet.kernels) {
      int& rank = ranks.try_emplace(cell.second, 3).first->second;
      const std::string style = Draw(cell).style;
      rank = std::min(rank, style == "sus" ? 0 : style == "bad" ? 1 : style == "s3" ? 2 : 3);
    }
    std::sort(kernels_.begin(), kernels_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(ranks[a], report.fleet.text(a)) <
             std::tuple(ranks[b], report.fleet.text(b));
    });
    // The accused first, in their order; then the others by name.
    std::set<std::uint32_t> accused;
    for (const Accused& one : report.judgement.accused) {
      rows_.push_back(one.device);
      accused.insert(one.device);
    }
    std::vector<std::uint32_t> others;
    for (std::uint32_t i = 0; i < report.fleet.devices.size(); ++i) {
      if (!accused.contains(i)) others.push_back(i);
    }
    std::sort(others.begin(), others.end(), [&](std::uint32_t a, std::uint32_t b) {
      return report.fleet.devices[a].name() < report.fleet.devices[b].name();
    });
    rows_.insert(rows_.end(), others.begin(), others.end());
  }

  void Write(std::ostream& out) const {
    out << "<div class=\"scroll\"><table style=\"--columns: " << kernels_.size()
        << "\"><thead><tr><th scope=\"col\">Device</th>";
    for (const std::uint32_t kernel : kernels_) {
      out << "<th scope=\"col\"><span>" << EscapeXml(report_.fleet.text(kernel)) << "</span></th>";
    }
    out << "</tr></thead><tbody>\n";
    for (const std::uint32_t device : rows_) {
      out << "<tr><th scope=\"row\">" << EscapeXml(report_.fleet.devices[device].name()) << "</th>";
      for (const std::uint32_t kernel : kernels_) {
        const Drawn drawn = Draw({device, kernel});
        out << "<td tabindex=\"-1\" class=\"" << drawn.style << '"';
        if (!drawn.title.empty()) out << " title=\"" << EscapeXml(drawn.title) << '"';
        out << '>' << drawn.text << "</td>";
      }
      out << "</tr>\n";
    }
    out << "</tbody></table></div>\n";
  }

 private:
  Drawn Draw(const Cell& cell) const {
    const auto counts = report_.fleet.kernels.find(cell);
    if (counts == report_.fleet.kernels.end()) return {};
    const KernelCounts& of = counts->second;
    std::vector<std::string> words;
    Drawn drawn{"good", "✓", ""};
    if (of.passed == 0) drawn = {"", "?", "no case passed: inconclusive"};
    if (const auto rate = report_.judgement.throughput.rates.find(cell);
        rate != report_.judgement.throughput.rates.end()) {
      const double percent = 100 * (rate->second.worst - 1);
      drawn.style = percent <= -10 ? "s3" : percent <= -5 ? "s2" : percent <= -3 ? "s1" : "good";
      drawn.text = std::abs(percent) < 0.5 ? "0" : absl::StrFormat("%+.0f", percent);
      if (percent <= -3) {
        words.push_back(absl::StrFormat("slowest case %.1f %% under the median of its model (%s)",
                                        -percent, report_.fleet.text(rate->second.name)));
      }
    }
    if (of.failed > 0) {
      drawn.style = "bad";
      drawn.text = absl::StrCat("✗", of.failed);
      words.insert(words.begin(), absl::StrCat(of.failed, " failed, ", of.passed, " passed"));
    }
    if (const auto inexact = inexact_.find(cell); inexact != inexact_.end()) {
      drawn.style = "sus";
      drawn.text = absl::StrCat("≉", inexact->second);
      words.insert(words.begin(),
                   absl::StrCat(inexact->second, inexact->second == 1 ? " case" : " cases",
                                " less exact than its peers'"));
    }
    if (const auto suspect = suspects_.find(cell); suspect != suspects_.end()) {
      drawn.style = "sus";
      drawn.text = absl::StrCat("≠", suspect->second);
      words.insert(words.begin(),
                   absl::StrCat(suspect->second, suspect->second == 1
                                                     ? " exact digest differs from the others'"
                                                     : " exact digests differ from the others'"));
    }
    if (!words.empty()) drawn.title = absl::StrJoin(words, "; ");
    return drawn;
  }

  const FleetReport& report_;
  std::map<Cell, int> suspects_, inexact_;
  std::vector<std::uint32_t> kernels_, rows_;
};

void WriteEvidence(const Evidence& evidence, std::ostream& out) {
  out << "<li>";
  if (!evidence.case_name.empty()) out << "<b>" << EscapeXml(evidence.case_name) << "</b>: ";
  out << EscapeXml(evidence.text) << "</li>\n";
}

void WriteAccused(const FleetReport& report, std::ostream& out) {
  for (const Accused& accused : report.judgement.accused) {
    const FleetDevice& device = report.fleet.devices[accused.device];
    const std::string word = ChargeWord(accused.charge);
    out << "<article class=\"accused " << word << "\"><h3 class=\"" << word
        << "\"><span class=\"badge\">" << word << "</span>" << EscapeXml(device.name())
        << "</h3><div class=\"quiet\">" << EscapeXml(device.model) << "</div><ul>\n";
    const std::size_t shown = std::min(accused.evidence.size(), kShownEvidence);
    for (std::size_t i = 0; i < shown; ++i) WriteEvidence(accused.evidence[i], out);
    for (const Rerun& rerun : accused.reruns) {
      out << "<li>" << (rerun.sibling ? "sibling " : "rerun on ")
          << EscapeXml(absl::StrCat(rerun.node, " ", rerun.device, ": ", rerun.case_name, ": ",
                                    rerun.text))
          << "</li>\n";
    }
    out << "</ul>";
    if (shown < accused.evidence.size()) {
      out << "<details><summary>" << accused.evidence.size() - shown << " more</summary><ul>\n";
      for (std::size_t i = shown; i < accused.evidence.size(); ++i) {
        WriteEvidence(accused.evidence[i], out);
      }
      out << "</ul></details>";
    }
    if (!accused.unlike.empty()) {
      out << "<div>Unlike its peers: " << EscapeXml(absl::StrJoin(accused.unlike, "; "))
          << "</div>";
    }
    if (!accused.reads_as.empty()) {
      out << "<div>Reads as: <b>" << EscapeXml(accused.reads_as) << "</b></div>";
    }
    out << "</article>\n";
  }
}

void WriteNotes(const char* title, const std::vector<std::string>& lines, std::ostream& out) {
  if (lines.empty()) return;
  out << "<h3>" << title << "</h3><ul class=\"notes\">\n";
  for (const std::string& line : lines) out << "<li>" << EscapeXml(line) << "</li>\n";
  out << "</ul>\n";
}

void WriteDevices(const Fleet& fleet, std::ostream& out) {
  out << "<div class=\"scroll\"><table class=\"plain\"><thead><tr>";
  for (const char* name : {"Device", "Model", "Driver", "assayd", "Suite", "Job", "Passed",
                           "Failed", "Inconclusive", "Unsupported"}) {
    out << "<th scope=\"col\">" << name << "</th>";
  }
  out << "</tr></thead><tbody>\n";
  for (const FleetDevice& device : fleet.devices) {
    const auto assayd = device.versions.find("assayd");
    out << "<tr>";
    for (const std::string& text :
         {device.name(), device.model, device.driver,
          assayd == device.versions.end() ? std::string() : assayd->second,
          absl::StrJoin(device.suites, ", "), absl::StrJoin(device.jobs, ", ")}) {
      out << "<td>" << EscapeXml(OrDash(text)) << "</td>";
    }
    for (const int count : {device.counts.passed, device.counts.failed + device.counts.errors,
                            device.counts.inconclusive, device.counts.unsupported}) {
      out << "<td class=\"n\">" << CountText(count) << "</td>";
    }
    out << "</tr>\n";
  }
  out << "</tbody></table></div>\n";
}

// The accused, and the devices and reports of which nothing is known.
void WriteCharges(const FleetReport& report, std::ostream& out) {
  const Judgement& judgement = report.judgement;
  if (judgement.accused.empty() && judgement.unjudged.empty() && report.missing.empty() &&
      report.unread.empty()) {
    return;
  }
  out << "<section aria-label=\"Accused\">\n";
  WriteAccused(report, out);
  const auto banner = [&](const char* word, const std::string& text) {
    out << "<p class=\"banner\"><b class=\"MISSING\">" << word << "</b> " << EscapeXml(text)
        << "</p>\n";
  };
  for (const Unjudged& one : judgement.unjudged) {
    banner("UNJUDGED", absl::StrCat(report.fleet.devices[one.device].name(), ": ", one.reason));
  }
  for (const std::string& line : report.unread) banner("NOT READ", line);
  for (const MissingNode& missing : report.missing) {
    banner("MISSING", absl::StrCat(missing.target, ": ", missing.reason));
  }
  out << "</section>\n";
}

void WriteAllNotes(const FleetReport& report, std::ostream& out) {
  const Judgement& judgement = report.judgement;
  WriteNotes("Fails wherever it ran", judgement.everywhere, out);
  WriteNotes("Jobs that failed", judgement.jobs, out);
  WriteNotes("Jobs that prove less than was asked for", judgement.unproven, out);
  WriteNotes("Undecided", judgement.undecided, out);
  WriteNotes("Divided", judgement.divided, out);
  WriteNotes("To watch, within what chance may do", judgement.watch, out);
  WriteNotes("Not the same everywhere", judgement.differences, out);
  WriteNotes("Given twice", report.GivenTwice(), out);
}

std::string RunText(const FleetReport& report) {
  return absl::StrCat(
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.generated_at, absl::UTCTimeZone()), " · ",
      CountText(report.fleet.reports), " reports, ", CountText(report.fleet.results), " results · ",
      CountText(report.judgement.digests.compared), " exact digests and ",
      CountText(report.judgement.throughput.groups), " timed cases compared");
}

std::string Title(const FleetReport& report) {
  const std::size_t accused = report.judgement.accused.size();
  return absl::StrCat(
      CountText(static_cast<std::int64_t>(report.fleet.node_count())), " nodes, ",
      CountText(static_cast<std::int64_t>(report.fleet.devices.size())),
      " devices: ", accused == 0 ? "nobody" : CountText(static_cast<std::int64_t>(accused)),
      " accused");
}

}  // namespace

void WriteFleetHtml(const FleetReport& report, std::ostream& out) {
  const Json json = FleetJson(report);
  const auto written = [&](const auto& write) {
    std::ostringstream text;
    write(text);
    return text.str();
  };
  FillPage(FleetHtmlPage(),
           {{"title", EscapeXml(Title(report))},
            {"style", absl::StrCat(View(HtmlStyle()), View(FleetHtmlStyle()))},
            {"verdict", json["verdict"].get<std::string>()},
            {"run", RunText(report)},
            {"accused", written([&](std::ostream& text) { WriteCharges(report, text); })},
            {"map", written([&](std::ostream& text) { Map(report).Write(text); })},
            {"notes", written([&](std::ostream& text) { WriteAllNotes(report, text); })},
            {"devices", written([&](std::ostream& text) { WriteDevices(report.fleet, text); })},
            {"data", EscapeScriptJson(Compact(json))},
            {"script", std::string(FleetHtmlScript())}},
           out);
}

}  // namespace assay::client
