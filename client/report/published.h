// PublishedTable: figures from a published table, beside the measured ones.
//
// A suite may name the row of the source that a case repeats (CaseSpec.published). Reports for
// people then show one table for each source, problem and format. The table has the figures of the
// source, the largest score of an attention, and the largest error of each provider. Beside the
// error stand the outcome by the source's limit and the verdict.
#ifndef ASSAY_CLIENT_REPORT_PUBLISHED_H_
#define ASSAY_CLIENT_REPORT_PUBLISHED_H_

#include <ostream>
#include <string>
#include <vector>

#include "client/report/report.h"

namespace assay::client {

struct PublishedTable {
  std::string title;                           // "FP8 attention lessons · attention … e4m3fn"
  std::vector<std::string> header;             // "CASE", "MAX |S|", "PUBLISHED", providers
  std::vector<std::vector<std::string>> rows;  // as wide as the header
  std::vector<std::string> notes;              // what the marks mean; who agrees where
};

// The tables of a report, in the order of its results; none where nothing is published.
std::vector<PublishedTable> PublishedTables(const Report& report);

// Aligned columns under the title, for a terminal or a pipe.
void WriteText(const PublishedTable& table, std::ostream& out);

void WriteMarkdown(const PublishedTable& table, std::ostream& out);

void WriteHtml(const PublishedTable& table, std::ostream& out);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_PUBLISHED_H_
