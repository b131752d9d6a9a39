// What a scrape costs: the exposition of a daemon with 8 devices whose kernels have all
// run, fetched over HTTP from the metrics port; its series; and what fetching it once a
// second takes from a benchmark that runs beside it.
//
//   scrape_bench [--seconds S] [--json]
//
// Prints `name ours goal ratio` lines, the ratio goal / ours: above 1 it is met.
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/metrics/http_server.h"
#include "server/metrics/metrics.h"

namespace assay::server {
namespace {

constexpr int kDevices = 8;
using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double ProcessSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

v1::CaseResult Measured(const std::string& device, const v1::Kernel& kernel, v1::DType dtype) {
  v1::CaseResult result;
  result.set_device(device);
  v1::CaseSpec& spec = *result.mutable_spec();
  spec.GetReflection()->MutableMessage(&spec,
                                       v1::CaseSpec::descriptor()->FindFieldByName(kernel.op()));
  spec.set_provider(kernel.provider());
  spec.set_dtype(dtype);
  spec.set_mode(v1::MODE_BENCHMARK);
  result.set_verdict(v1::VERDICT_PASSED);
  result.mutable_duration()->set_nanos(12'345'678);
  result.mutable_stats()->set_rho(0.123456789);
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_samples(10);
  bench.set_flops_per_second(1.23456789e12);
  bench.set_bytes_per_second(2.3456789e11);
  bench.set_efficiency(0.654321);
  bench.set_roof("compute");
  bench.set_ceiling_flops_per_second(3.456789e12);
  bench.set_ceiling_bytes_per_second(4.56789e11);
  return result;
}

// All operators, formats and four providers.
std::vector<v1::Kernel> AllKernels() {
  std::vector<v1::Kernel> kernels;
  const auto* problems = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  for (const char* provider : {"builtin", "onednn", "openblas", "vendor"}) {
    for (int i = 0; i < problems->field_count(); ++i) {
      v1::Kernel& kernel = kernels.emplace_back();
      kernel.set_op(problems->field(i)->name());
      kernel.set_provider(provider);
      kernel.set_available(true);
      for (int dtype = 1; dtype <= v1::DType_MAX; ++dtype) {
        if (v1::DType_IsValid(dtype)) kernel.add_dtypes(static_cast<v1::DType>(dtype));
      }
    }
  }
  return kernels;
}

void Fill(Metrics& metrics) {
  const std::vector<v1::Kernel> kernels = AllKernels();
  for (int d = 0; d < kDevices; ++d) {
    v1::Device device;
    device.set_id("cuda:" + std::to_string(d));
    device.set_backend("cuda");
    device.set_model("Some Accelerator 80GB");
    device.set_memory_bytes(85'899'345'920);
    metrics.AddDevice(device, kernels);
    v1::Telemetry& t = *device.mutable_telemetry();
    t.set_temperature_celsius(61);
    t.set_power_watts(412.345);
    (*t.mutable_clock_hertz())["core"] = 1.98e9;
    (*t.mutable_clock_hertz())["memory"] = 2.619e9;
    for (const char* reason : {"power", "thermal", "sync_boost", "board_limit", "reliability",
                               "hw_slowdown", "power_brake"}) {
      (*t.mutable_throttle_seconds())[reason] = 1234.567;
    }
    (*t.mutable_ecc_errors())["corrected"] = 3;
    (*t.mutable_ecc_errors())["uncorrected"] = 0;
    (*t.mutable_faults())["xid-79"] = 1;
    metrics.TelemetryChanged(device);
    for (const char* level : {"quick", "medium", "nightly", "extended"}) {
      metrics.QualificationFinished(device.id(), level, v1::VERDICT_PASSED, 100, 1.7e9);
    }
    SuiteTally tally;
    for (const v1::Kernel& kernel : kernels) {
      for (const int dtype : kernel.dtypes()) {
        const auto result = Measured(device.id(), kernel, static_cast<v1::DType>(dtype));
        metrics.CaseFinished(result);
        tally.Add(result);
      }
    }
    metrics.SuiteFinished("nightly", "1", tally);
  }
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Rounds of a loop on every processor for so many seconds, as a benchmark's kernel would
// take them all, by second of their own processor time: what other programs of the machine
// take meanwhile does not count.
double Work(double seconds) {
  std::mutex mutex;
  double rounds = 0, processor = 0;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back([&] {
      std::int64_t mine = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        double sum = 0;
        for (int k = 0; k < 10'000; ++k) {
          sum += k * 0.5;
          asm volatile("" : "+x"(sum));
        }
        ++mine;
      }
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      const std::lock_guard lock(mutex);
      rounds += static_cast<double>(mine);
      processor += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return rounds / processor;
}

int Main(double seconds, bool json) {
  const auto metrics = MakeMetrics("bench");
  Fill(*metrics);
  const auto server = StartMetricsServer(*metrics, {});
  if (!server.ok()) {
    std::fprintf(stderr, "scrape_bench: %s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  const auto scrape = [&] {
    httplib::Client client("127.0.0.1", (*server)->port());
    const auto answer = client.Get("/metrics");
    if (!answer || answer->status != 200) {
      std::fprintf(stderr, "scrape_bench: no answer\n");
      std::exit(1);
    }
    return answer->body;
  };
  const std::string text = scrape();
  int most = 0;
  for (int d = 0; d < kDevices; ++d) {
    const std::string label = "device=\"cuda:" + std::to_string(d) + "\"";
    int series = 0;
    for (std::size_t at = 0; (at = text.find(label, at)) != text.npos; ++at) ++series;
    most = std::max(most, series);
  }
  std::vector<double> times;
  const double cpu = ProcessSeconds();
  constexpr int kScrapes = 30;
  for (int i = 0; i < kScrapes; ++i) {
    const Clock::time_point begin = Clock::now();
    scrape();
    times.push_back(Since(begin));
  }
  // The client's reading of the text is in it: more than a daemon spends.
  const double share = (ProcessSeconds() - cpu) / kScrapes /
                       static_cast<double>(std::thread::hardware_concurrency());

  // In turns, with and without, so that both see the same machine.
  std::vector<double> ratios;
  for (int turn = 0; turn < 5; ++turn) {
    const double alone = Work(seconds / 10);
    std::atomic<bool> stop{false};
    std::thread scraper([&] {
      Clock::time_point next = Clock::now();
      while (!stop.load()) {
        scrape();
        next += std::chrono::seconds(1);
        while (!stop.load() && Clock::now() < next) {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      }
    });
    const double scraped = Work(seconds / 10);
    stop = true;
    scraper.join();
    // Time that scrapes take from it, and what they leave in its caches.
    ratios.push_back(share + 1 - scraped / alone);
  }

  struct Line {
    const char* name;
    double ours, goal;
  };
  const std::vector<Line> lines = {
      {"scrape_8_devices_ms", Median(times) * 1e3, 50},
      {"series_of_a_device", static_cast<double>(most), 2000},
      {"processor_share_at_1hz_percent", share * 100, 1},
      {"benchmark_slowdown_at_1hz_percent", Median(ratios) * 100, 1},
  };
  if (json) std::printf("{\"results\":[");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& [name, ours, goal] = lines[i];
    const double ratio = ours > 0 ? goal / ours : HUGE_VAL;
    if (json) {
      std::printf("%s{\"name\":\"%s\",\"ours\":%.6g,\"goal\":%g}", i == 0 ? "" : ",", name, ours,
                  goal);
    } else {
      std::printf("%s %.3g %g %.3g\n", name, ours, goal, ratio);
    }
  }
  if (json) std::printf("]}\n");
  std::fprintf(stderr, "%zu bytes\n", text.size());
  return 0;
}

}  // namespace
}  // namespace assay::server

int main(int argc, char** argv) {
  double seconds = 50;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: scrape_bench [--seconds S] [--json]\n");
      return 2;
    }
  }
  return assay::server::Main(seconds, json);
}
