// Writes the documents that need all results: JUnit XML and Markdown. html.h writes HTML.
#ifndef ASSAY_CLIENT_REPORT_DOCUMENT_H_
#define ASSAY_CLIENT_REPORT_DOCUMENT_H_

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "client/report/report.h"

namespace assay::client {

using DocumentWriter = void (*)(const Report& report, std::ostream& out);

// Writes the document in OnEnd and a summary line to err.
std::unique_ptr<Sink> MakeDocumentSink(const Surface& surface, DocumentWriter writer);

// JUnit XML, one testsuite a run. What is neither passed nor unsupported nor
// skipped is a failure or an error there: nothing unproven looks green.
void WriteJunit(const Report& report, std::ostream& out);

// A summary and a table, worst first.
void WriteMarkdown(const Report& report, std::ostream& out);

// Text as XML or HTML shows it; characters that XML forbids become U+FFFD.
std::string EscapeXml(std::string_view text);

// Text that Markdown shows as it is, on one line, in a cell of a table or outside.
std::string EscapeMarkdown(std::string_view text);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_DOCUMENT_H_
