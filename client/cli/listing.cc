#include "client/cli/listing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/text.h"
#include "client/report/columns.h"
#include "client/report/units.h"
#include "client/report/wrap.h"

namespace assay::client {
namespace {

constexpr std::size_t kLeastRemark = 30;  // columns, beside its row
constexpr std::size_t kBelow = 4;         // its indent beneath it

}  // namespace

void PrintListing(std::ostream& out, const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows, int width) {
  std::vector<Cells> all = {heading};
  all.insert(all.end(), rows.begin(), rows.end());
  const std::vector<std::size_t> widths = WidthsOf(all);
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  const auto print = [&](const Cells& row) {
    if (row.empty()) return;
    const std::string remark = VisibleLines(row.back());
    std::string line = AlignedRow(Cells(row.begin(), row.end() - 1), widths);
    if (row.size() > 1) line += "  ";
    std::size_t indent = DisplayWidth(line);
    if (columns == 0 || indent + DisplayWidth(remark) <= columns ||
        remark.find(' ') == std::string::npos) {
      out << WithoutBlanks(line + remark) << '\n';
      return;
    }
    const bool beside = indent + kLeastRemark <= columns;
    if (!beside) {
      out << WithoutBlanks(line) << '\n';
      indent = kBelow;
      line = std::string(indent, ' ');
    }
    for (const std::string& part : Fill(remark, columns - std::min(columns, indent))) {
      out << line << part << '\n';
      line = std::string(indent, ' ');
    }
  };
  for (const Cells& row : all) print(row);
}

ExitCode List(const Context& context, const std::string& key, std::vector<std::string> heading,
              const std::function<grpc::Status(Connection&, Listed&)>& ask) {
  auto format = context.ChosenFormat();
  if (!format.ok()) return context.Fail(format.status());
  if (*format != Format::kTable && *format != Format::kJson && *format != Format::kJsonl) {
    return context.Fail(absl::InvalidArgumentError(
        absl::StrCat("format: ", key, " can be had as table, json or jsonl")));
  }
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  const bool many = connections->size() > 1;
  return context.WithOutput([&](std::ostream& out) {
    ExitCode code = ExitCode::kPassed;
    Listed all;
    bool answered = false;
    for (const auto& connection : *connections) {
      Listed one;
      const grpc::Status status = ask(*connection, one);
      if (!status.ok()) {
        code = context.Fail(Describe(status, connection->target()));
        continue;
      }
      answered = true;
      for (auto& row : one.rows) {
        if (many) row.insert(row.begin(), connection->target());
        all.rows.push_back(std::move(row));
      }
      for (Json& item : one.items) {
        if (many) item["target"] = connection->target();
        all.items.push_back(std::move(item));
      }
    }
    if (!answered) return code;
    if (*format == Format::kTable) {
      if (many) heading.insert(heading.begin(), "TARGET");
      PrintListing(out, heading, all.rows, context.SurfaceOn(out).width);
    } else if (*format == Format::kJsonl) {
      for (const Json& item : all.items) out << Compact(item) << '\n';
    } else {
      Json document;
      document[key] = Json(all.items);
      out << Indented(document) << '\n';
    }
    out << std::flush;
    return code;
  });
}

}  // namespace assay::client
