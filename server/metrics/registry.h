// Families of metrics and their text for a scraper (Prometheus' format 0.0.4).
//
// The values are prometheus-cpp's. The families are our own because a scrape of sixteen thousand
// series is slow with the library's: it copies every label of every series and writes through a
// stream, which takes 40 ms of a processor. Ours keep the labels as the text that is shown.
//
// Thread-safe. A series lives until it is removed. After that nobody may use it.
#ifndef ASSAY_SERVER_METRICS_REGISTRY_H_
#define ASSAY_SERVER_METRICS_REGISTRY_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay::server {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = std::map<std::string, std::string>;

// The text of labels, with escaped values: `device="cpu:0",op="gemm"`.
std::string LabelText(const Labels& labels);
// Appends the shortest text of a double: "12", "0.5", "+Inf". A whole number has no exponent.
void AppendValue(std::string* out, double value);

class AnyFamily {
 public:
  virtual ~AnyFamily() = default;
  // Appends the family's text. Appends nothing if the family has no series.
  virtual void Write(std::string* out) const = 0;
};

namespace internal {
void WriteHead(std::string* out, std::string_view name, std::string_view help,
               std::string_view type);
void WriteSeries(std::string* out, std::string_view name, std::string_view labels,
                 const Counter& counter);
void WriteSeries(std::string* out, std::string_view name, std::string_view labels,
                 const Gauge& gauge);
void WriteSeries(std::string* out, std::string_view name, std::string_view labels,
                 const Histogram& histogram);
constexpr std::string_view TypeOf(const Counter*) { return "counter"; }
constexpr std::string_view TypeOf(const Gauge*) { return "gauge"; }
constexpr std::string_view TypeOf(const Histogram*) { return "histogram"; }
}  // namespace internal

template <class Metric>
class Family final : public AnyFamily {
 public:
  Family(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}

  // The series of these labels. If there is none, makes one from `arguments`.
  template <class... Arguments>
  Metric& Add(const Labels& labels, const Arguments&... arguments) {
    std::string text = LabelText(labels);
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Metric>& metric = series_[std::move(text)];
    if (metric == nullptr) metric = std::make_unique<Metric>(arguments...);
    return *metric;
  }

  bool Has(const Labels& labels) const {
    const std::string text = LabelText(labels);
    const std::lock_guard lock(mutex_);
    return series_.contains(text);
  }

  void Remove(const Labels& labels) {
    const std::string text = LabelText(labels);
    const std::lock_guard lock(mutex_);
    series_.erase(text);
  }

  void Write(std::string* out) const override {
    const std::lock_guard lock(mutex_);
    if (series_.empty()) return;
    internal::WriteHead(out, name_, help_, internal::TypeOf(static_cast<Metric*>(nullptr)));
    for (const auto& [labels, metric] : series_) {
      internal::WriteSeries(out, name_, labels, *metric);
    }
  }

 private:
  const std::string name_, help_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Metric>> series_;  // by the labels' text
};

// All families. Add them before the first call of Exposition.
class MetricRegistry {
 public:
  template <class Metric>
  Family<Metric>& Add(std::string name, std::string help) {
    auto family = std::make_unique<Family<Metric>>(std::move(name), std::move(help));
    Family<Metric>& added = *family;
    families_.push_back(std::move(family));
    return added;
  }

  std::string Exposition() const;

 private:
  std::vector<std::unique_ptr<AnyFamily>> families_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_REGISTRY_H_
