#include "server/metrics/registry.h"

#include <prometheus/client_metric.h>

#include <charconv>
#include <cmath>
#include <cstdint>

namespace assay::server {
namespace {

// Below this, every whole number is exact as a double.
constexpr double kMostWhole = 1e15;

void AppendEscaped(std::string* out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      *out += "\\\\";
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '"' && quotes) {
      *out += "\\\"";
    } else {
      *out += c;
    }
  }
}

void WriteLine(std::string* out, std::string_view name, std::string_view suffix,
               std::string_view labels, double value) {
  *out += name;
  *out += suffix;
  if (!labels.empty()) {
    *out += '{';
    *out += labels;
    *out += '}';
  }
  *out += ' ';
  AppendValue(out, value);
  *out += '\n';
}

}  // namespace

std::string LabelText(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!text.empty()) text += ',';
    text += name;
    text += "=\"";
    AppendEscaped(&text, value, true);
    text += '"';
  }
  return text;
}

void AppendValue(std::string* out, double value) {
  if (std::isnan(value)) {
    *out += "NaN";
  } else if (std::isinf(value)) {
    *out += value > 0 ? "+Inf" : "-Inf";
  } else {
    char text[32];
    const bool whole = std::fabs(value) < kMostWhole && value == std::trunc(value);
    const auto end = whole
                         ? std::to_chars(text, text + sizeof text, static_cast<std::int64_t>(value))
                         : std::to_chars(text, text + sizeof text, value);
    out->append(text, end.ptr);
  }
}

namespace internal {

void WriteHead(std::string* out, std::string_view name, std::string_view help,
               std::string_view type) {
  *out += "# HELP ";
  *out += name;
  *out += ' ';
  AppendEscaped(out, help, false);
  *out += "\n# TYPE ";
  *out += name;
  *out += ' ';
  *out += type;
  *out += '\n';
}

void WriteSeries(std::string* out, std::string_view name, std::string_view labels,
                 const Counter& counter) {
  WriteLine(out, name, "", labels, counter.Value());
}

void WriteSeries(std::string* out, std::string_view name, std::string_view labels,
                 const Gauge& gauge) {
  WriteLine(out, name, "", labels, gauge.Value());
}

void WriteSeries(std::string* out, std::string_view name, std::string_view labels,
                 const Histogram& histogram) {
  const prometheus::ClientMetric::Histogram values = histogram.Collect().histogram;
  WriteLine(out, name, "_count", labels, static_cast<double>(values.sample_count));
  WriteLine(out, name, "_sum", labels, values.sample_sum);
  for (const auto& bucket : values.bucket) {
    std::string with_le(labels);
    if (!with_le.empty()) with_le += ',';
    with_le += "le=\"";
    AppendValue(&with_le, bucket.upper_bound);
    with_le += '"';
    WriteLine(out, name, "_bucket", with_le, static_cast<double>(bucket.cumulative_count));
  }
}

}  // namespace internal

std::string MetricRegistry::Exposition() const {
  std::string out;
  for (const auto& family : families_) family->Write(&out);
  return out;
}

}  // namespace assay::server
