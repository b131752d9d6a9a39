// Published: what a published table says of cases, beside what was measured.
//
// A suite may name the source's row of a case (CaseSpec.published). Every report for
// people then shows one table for each source, problem and format: the source's
// figures, the largest score of an attention, and each provider's largest error with
// the outcome the source's own limit gives it and with the verdict.
#ifndef ASSAY_CLIENT_REPORT_PUBLISHED_H_
#define ASSAY_CLIENT_REPORT_PUBLISHED_H_

#include <ostream>
#include <string>
#include <vector>

#include "client/report/report.h"

namespace assay {

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

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_PUBLISHED_H_
