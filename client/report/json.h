// JSON: the document assay.report/v1 and the lists of the inventory commands.
//
// Names are the contract with programs: a value that was not measured is absent,
// never 0; a number that is not finite is a string ("NaN", "Infinity").
#ifndef ASSAY_CLIENT_REPORT_JSON_H_
#define ASSAY_CLIENT_REPORT_JSON_H_

#include <memory>
#include <ostream>

#include "client/report/report.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace assay {

using Json = nlohmann::ordered_json;

// A number, or the string that stands for one that is not finite.
Json Number(double value);

// Any message of the API by its field names: enums as words, times as RFC 3339,
// durations in seconds; absent where the field has presence and is not set, or
// is an empty string.
Json MessageJson(const google::protobuf::Message& message);

// "shape": the problem's fields. Zeros that mean "not said" are absent.
Json ShapeOf(const v1::CaseSpec& spec);

// One entry of "tests".
Json TestJson(const Run& run, const v1::CaseResult& result);

// One entry of "jobs".
Json JobJson(const v1::Job& job);

// The document.
Json ReportJson(const Report& report);

// ReportJson, indented, with a newline at the end.
void WriteJson(const Report& report, std::ostream& out);

// One TestJson a line, as results come.
std::unique_ptr<Sink> MakeJsonlSink(const Surface& surface);

// The text of a value on one line; bytes that are not UTF-8 are replaced.
std::string Compact(const Json& value);
// The same, indented by two.
std::string Indented(const Json& value);

}  // namespace assay

#endif  // ASSAY_CLIENT_REPORT_JSON_H_
