// The HTML report holds the whole document, shows only text as text, and fetches nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <sstream>

#include "absl/strings/escaping.h"
#include "client/report/html.h"
#include "client/report/json.h"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Page(const FakeService& service) { return RunGemm(service, {"--format", "html"}).out; }

std::string Page(const Report& report) {
  std::ostringstream out;
  WriteHtml(report, out);
  return out.str();
}

// The content of a data block, inflated where it was deflated; "" where there is none.
std::string BlockOf(const std::string& page, const std::string& id, bool* deflated = nullptr) {
  const std::size_t tag = page.find("id=\"" + id + "\">");
  if (tag == std::string::npos) return "";
  const std::size_t begin = page.find('>', tag) + 1;
  const std::string text = page.substr(begin, page.find("</script>", begin) - begin);
  const std::string opening = page.substr(page.rfind('<', tag), tag - page.rfind('<', tag));
  const bool packed = opening.find("data-encoding=\"deflate\"") != std::string::npos;
  if (deflated != nullptr) *deflated = packed;
  if (!packed) return text;
  std::string bytes;
  if (!absl::Base64Unescape(text, &bytes)) return "";
  std::string plain(64 << 20, '\0');
  uLongf size = plain.size();
  if (uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK) {
    return "";
  }
  plain.resize(size);
  return plain;
}

TEST(Html, TextOfADaemonIsOnlyText) {
  FakeService service;
  v1::CaseResult result = MakeResult(0, v1::VERDICT_FAILED);
  result.set_name("</script><script>alert(1)</script><!--");
  result.mutable_findings(0)->set_message("</SCRIPT ><img src=x onerror=alert(2)>");
  service.results = {result};
  v1::Finding finding;
  finding.set_reason("<b>");
  finding.set_message("<i>&");
  service.job_findings = {finding};
  const std::string page = Page(service);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;: &lt;i&gt;&amp;"));
  EXPECT_THAT(page, HasSubstr("0 passed, 1 failed"));
  EXPECT_EQ(Json::parse(BlockOf(page, "report"))["tests"][0]["name"], result.name());
}

TEST(Html, MayFetchNothing) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string page = Page(service);
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* fetch : {"<link", "<iframe", "<script src", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(fetch)));
  }
}

TEST(Html, HoldsTheJsonDocumentAndTheWordsOfTheTable) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_FAILED),
                     MakeResult(2, v1::VERDICT_UNSUPPORTED)};
  service.verdict = v1::VERDICT_FAILED;
  const std::string page = Page(service);
  Json held = Json::parse(BlockOf(page, "report"));
  Json asked = Json::parse(RunGemm(service, {"--format", "json"}).out);
  for (Json* document : {&held, &asked}) document->erase("generated_at");
  EXPECT_EQ(held, asked);
  const Json view = Json::parse(BlockOf(page, "view"));
  EXPECT_EQ(view["order"], Json({1, 0, 2}));  // the worst first
  EXPECT_EQ(view["rows"][1]["verdict"], "FAILED");
  EXPECT_EQ(view["rows"][0]["ratio"], "0.92");
  EXPECT_FALSE(view["rows"][2].contains("ratio"));  // not measured
}

TEST(Html, NamesOfPartsInDataStayAsTheyAre) {
  Report report;
  report.runs.emplace_back();
  report.runs[0].target = "{{script}}";
  report.runs[0].job.set_name("jobs/{{library}}");
  const std::string page = Page(report);
  EXPECT_THAT(page, HasSubstr("<p class=\"run\">{{script}} · "));
  EXPECT_EQ(Json::parse(BlockOf(page, "report"))["job"], "jobs/{{library}}");
}

TEST(Html, AJobThatHasNotFinishedSaysSo) {
  Report report;
  report.runs.emplace_back();
  v1::Job& job = report.runs[0].job;
  job.set_name("jobs/a");
  job.mutable_counts()->set_total(7);
  report.runs[0].results.push_back(MakeResult(0, v1::VERDICT_PASSED));
  for (const auto& [state, words] : {std::pair{v1::JOB_STATE_QUEUED, "not started yet"},
                                     std::pair{v1::JOB_STATE_RUNNING, "still running"},
                                     std::pair{v1::JOB_STATE_CANCELLED, "cancelled"},
                                     std::pair{v1::JOB_STATE_INTERRUPTED, "interrupted"}}) {
    job.set_state(state);
    const std::string page = Page(report);
    EXPECT_THAT(page, HasSubstr(std::string("jobs/a: ") + words));
    EXPECT_THAT(page, HasSubstr("1 of 7 cases have a result"));
  }
  job.set_state(v1::JOB_STATE_FINISHED);
  EXPECT_THAT(Page(report), Not(HasSubstr("cases have a result")));
}

TEST(Html, FiveThousandCasesStayBelowFiveMegabytes) {
  Report report;
  report.runs.emplace_back();
  report.runs[0].job.set_state(v1::JOB_STATE_FINISHED);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  const auto digest = [&] {
    std::ostringstream hex;
    hex << std::hex << random() << random();
    return hex.str();
  };
  for (int i = 0; i < 5000; ++i) {
    v1::CaseResult result = MakeResult(i, i % 10 == 0 ? v1::VERDICT_FAILED : v1::VERDICT_PASSED);
    // What does not repeat in real reports, does not here.
    v1::ErrorStats& stats = *result.mutable_stats();
    for (const auto set : {&v1::ErrorStats::set_rho, &v1::ErrorStats::set_rho_proven,
                           &v1::ErrorStats::set_max_abs_error, &v1::ErrorStats::set_mean_abs_error,
                           &v1::ErrorStats::set_rms_error, &v1::ErrorStats::set_max_rel_error,
                           &v1::ErrorStats::set_cosine, &v1::ErrorStats::set_bias_z}) {
      (stats.*set)(uniform(random));
    }
    result.mutable_bench()->set_median_seconds(uniform(random));
    result.mutable_bench()->set_flops_per_second(1e12 * uniform(random));
    result.mutable_bench()->set_bytes_per_second(1e11 * uniform(random));
    result.mutable_digests()->set_canonical(digest());
    result.mutable_digests()->set_raw(digest());
    for (const char* phase : {"fill", "prepare", "kernel", "reference", "compare", "probes"}) {
      v1::PhaseTime& time = *result.add_phases();
      time.set_phase(phase);
      time.set_seconds(uniform(random));
    }
    for (const char* name : {"exact-sparse", "exact-integers"}) {
      v1::ProbeResult& probe = *result.add_probes();
      probe.set_name(name);
      probe.set_verdict(v1::VERDICT_PASSED);
      probe.set_count(65536);
      probe.set_digest(digest());
    }
    report.runs[0].results.push_back(std::move(result));
  }
  const std::string page = Page(report);
  EXPECT_LT(page.size(), 5'000'000u);
  bool deflated = false;
  const std::string text = BlockOf(page, "report", &deflated);
  EXPECT_TRUE(deflated);
  EXPECT_EQ(text, Compact(ReportJson(report)));  // nothing was left out
}

}  // namespace
}  // namespace assay::client::testing
