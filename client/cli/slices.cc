#include "client/cli/slices.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/find.h"
#include "client/cli/session.h"
#include "client/lib/parse.h"
#include "client/report/grid.h"
#include "client/report/json.h"
#include "client/report/raw_words.h"
#include "client/report/row.h"

namespace assay::client {
namespace {

// The job that runs one case again, as it was.
v1::JobSpec Again(const Run& run, const v1::CaseResult& result,
                  const std::vector<std::string>& slices) {
  v1::JobSpec job;
  v1::CaseSpec& spec = *job.mutable_cases()->add_cases();
  spec = result.spec();
  spec.set_name(result.name());
  spec.set_mode(v1::MODE_VALIDATE);
  spec.clear_min_efficiency();
  spec.clear_slices();
  for (const std::string& slice : slices) spec.add_slices(slice);
  if (!spec.has_seed()) spec.set_seed(run.job.spec().has_seed() ? run.job.spec().seed() : 1);
  const std::string& device = result.device();
  job.set_device(device.substr(device.rfind('/') + 1));
  (*job.mutable_labels())["shows"] = absl::StrCat(run.job.name(), " case ", result.index());
  return job;
}

// The slices of all texts, of which each may list several.
absl::StatusOr<std::vector<std::string>> AskedSlices(const std::vector<std::string>& texts) {
  std::vector<std::string> asked;
  for (const std::string& text : texts) {
    for (std::string& one : SplitList(text)) asked.push_back(std::move(one));
  }
  if (asked.empty() || std::find(asked.begin(), asked.end(), "") != asked.end()) {
    return absl::InvalidArgumentError(
        "slice: must be TENSOR[RANGES] such as actual[0:8,0:8], got \"\"");
  }
  return asked;
}

// Sends the job and follows it to its end.
grpc::Status FollowAgain(Connection& connection, const v1::JobSpec& spec,
                         const FollowOptions& options, Run& run) {
  grpc::Status sent = CreateJob(connection, spec, options, &run.job);
  if (!sent.ok()) return sent;
  Follower follower(connection, options);
  return follower.Follow(run.job.name(), 0, [&](const v1::JobEvent& event) {
    if (event.has_case_result()) run.results.push_back(event.case_result());
    if (event.has_finished()) run.job = event.finished().job();
  });
}

// A slice of bytes.
std::string WordsOf(const v1::Slice& slice, const std::vector<WordType>& types) {
  std::vector<std::uint8_t> bytes;
  for (const double value : slice.values()) bytes.push_back(static_cast<std::uint8_t>(value));
  return RawWordTable(bytes, slice.begin_size() > 0 ? slice.begin(0) : 0, types);
}

}  // namespace

ExitCode ShowSlices(const Context& context, const std::string& job, const std::string& which,
                    const std::vector<std::string>& slices, const SliceStyle& style) {
  auto format = context.ChosenFormat("elements", {"table", "json", "jsonl"});
  if (!format.ok()) return context.Fail(format.status());
  if (which.empty()) {
    return context.Fail(absl::InvalidArgumentError(
        "case: is required; --slice and --debug-buffer show one case, such as 0"));
  }
  const auto words = ParseWordTypes(style.words);
  if (!words.ok()) return context.Fail(words.status());
  const absl::StatusOr<std::vector<std::string>> asked = AskedSlices(slices);
  if (!asked.ok()) return context.Fail(asked.status());
  Failure failure;
  auto found = FindResults(context, job, &failure);
  if (!found.ok()) return context.Fail(failure);
  const auto result = FindCase(found->run, which);
  if (!result.ok()) return context.Fail(result.status());
  if ((*result)->ran_elsewhere()) {
    return context.Fail(absl::InvalidArgumentError(
        "case: ran in its caller's own process, so its elements cannot be computed again here"));
  }
  auto options = context.Reconnecting();
  if (!options.ok()) return context.Fail(options.status());

  Connection& connection = *found->connection;
  Run run;
  run.target = found->run.target;
  const grpc::Status status =
      FollowAgain(connection, Again(found->run, **result, *asked), *options, run);
  if (!status.ok()) return context.Fail(Describe(status, connection.target()));
  if (run.results.empty() || run.results[0].slices().empty()) {
    std::string why = "the case gave none";
    if (!run.results.empty() && !run.results[0].findings().empty()) {
      why = run.results[0].findings(0).message();
    }
    return context.Fail(Failure{{absl::StrCat("no elements to show (", run.job.name(), "): ", why)},
                                ExitCode::kNoVerdict});
  }
  const v1::CaseResult& again = run.results[0];
  return context.WithOutput([&](std::ostream& out) {
    if (*format == Format::kTable) {
      const bool terminal = &out == &context.streams.out && context.streams.width > 0;
      const auto width = terminal ? static_cast<std::size_t>(context.streams.width) : 0;
      out << RowOf(again).verdict << "  " << again.name() << "  (" << run.job.name() << ")\n";
      for (const v1::Slice& slice : again.slices()) {
        out << (words->empty() ? SliceGrid(slice, style.bits, width) : WordsOf(slice, *words));
      }
    } else if (*format == Format::kJsonl) {
      out << Compact(TestJson(run, again)) << '\n';
    } else {
      out << Indented(TestJson(run, again)) << '\n';
    }
    return ExitCode::kPassed;
  });
}

}  // namespace assay::client
