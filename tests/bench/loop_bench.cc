// A bare loop of a vendor's gemm, with nothing of Assay in it: what a program that calls the
// library itself reaches, to hold what comes through daemon and worker against.
//
//   loop_bench onednn|openblas M N K [--seconds S] [--cold]
//
// fp32, row-major, normal data. Prints the median seconds of a call. Hot: one set of
// operands, called again and again. --cold: sets enough that each is out of the last cache
// when its turn comes, which is how Assay times.
#include <cblas.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Shape {
  int m = 0, n = 0, k = 0;
  std::size_t bytes() const {
    return 4 * (static_cast<std::size_t>(m) * static_cast<std::size_t>(k) +
                static_cast<std::size_t>(k) * static_cast<std::size_t>(n) +
                static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  }
};

struct Operands {
  std::vector<float> a, b, c;
};

Operands MakeOperands(const Shape& s, unsigned seed) {
  std::minstd_rand engine(seed);
  std::normal_distribution<float> normal;
  const auto make = [&](int rows, int cols) {
    std::vector<float> v(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    // A few thousand numbers over and over: drawing all of them takes longer than the rest.
    std::vector<float> some(4093);
    for (float& x : some) x = normal(engine);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = some[i % some.size()];
    return v;
  };
  return {make(s.m, s.k), make(s.k, s.n), make(s.m, s.n)};
}

using Call = std::function<void(Operands&)>;

Call OpenBlas(const Shape& s) {
  return [s](Operands& o) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s.m, s.n, s.k, 1.0F, o.a.data(), s.k,
                o.b.data(), s.n, 0.0F, o.c.data(), s.n);
  };
}

Call OneDnn(const Shape& s) {
  using Desc = dnnl::memory::desc;
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  const auto desc = [](int rows, int cols) {
    return Desc({rows, cols}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  };
  const Desc a = desc(s.m, s.k), b = desc(s.k, s.n), c = desc(s.m, s.n);
  const dnnl::matmul matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine));
  return [=](Operands& o) {
    matmul.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(a, engine, o.a.data())},
                            {DNNL_ARG_WEIGHTS, dnnl::memory(b, engine, o.b.data())},
                            {DNNL_ARG_DST, dnnl::memory(c, engine, o.c.data())}});
    stream.wait();
  };
}

double Seconds(const Call& call, Operands& operands) {
  const Clock::time_point begin = Clock::now();
  call(operands);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "loop_bench onednn|openblas M N K [--seconds S] [--cold]\n");
    return 2;
  }
  const std::string provider = argv[1];
  const Shape shape{std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])};
  double limit = 1;
  bool cold = false;
  for (int i = 5; i < argc; ++i) {
    if (std::strcmp(argv[i], "--cold") == 0) cold = true;
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) limit = std::atof(argv[++i]);
  }
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t sets =
      cold ? 2 + 2 * static_cast<std::size_t>(std::max(cache, 32L << 20)) / shape.bytes() : 1;
  std::vector<Operands> operands;
  for (std::size_t i = 0; i < sets; ++i) {
    operands.push_back(MakeOperands(shape, static_cast<unsigned>(i + 1)));
  }
  const Call call = provider == "onednn" ? OneDnn(shape) : OpenBlas(shape);
  call(operands[0]);
  call(operands[0]);
  std::vector<double> samples;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(limit));
  for (std::size_t i = 0; samples.size() < 10 || Clock::now() < end; ++i) {
    samples.push_back(Seconds(call, operands[i % sets]));
  }
  std::sort(samples.begin(), samples.end());
  std::printf("%.9f\n", samples[samples.size() / 2]);
  return 0;
}
