// Compiles CUDA source into device code with NVRTC, the compiler library of CUDA's toolkit. The
// daemon starts it as a contained process, for source is a stranger's.
//
//   assay-nvrtc --arch sm_90 --entry NAME --out FILE [--include FOLDER]… SOURCE
//
// FILE gets the kernel's symbol, a symbol that tells its parameters, an end of line behind each,
// and a cubin. The compiler's lines go to the standard output. Exit codes: 0 compiled, 1 the source
// does not compile, 2 wrong arguments, no NVRTC, or one that cannot do this at all.
#include <dlfcn.h>
#include <nvrtc.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kSourceIsWrong = 1;
constexpr int kNoCompiler = 2;

// The loader's names first, then the toolkit's usual place.
constexpr const char* kLibraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                      "/usr/local/cuda/lib64/libnvrtc.so"};

// Headers that a file for nvcc includes, and that NVRTC has not: what they declare is built in.
struct Header {
  const char* name;
  const char* text;
};
constexpr char kWholeNumbers[] =
    "#pragma once\n"
    "typedef signed char int8_t; typedef unsigned char uint8_t;\n"
    "typedef short int16_t; typedef unsigned short uint16_t;\n"
    "typedef int int32_t; typedef unsigned int uint32_t;\n"
    "typedef long long int64_t; typedef unsigned long long uint64_t;\n"
    "typedef long long intptr_t; typedef unsigned long long uintptr_t;\n"
    "namespace std { using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t;\n"
    "using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t; }\n"
    "#define INT32_MAX 2147483647\n#define INT32_MIN (-INT32_MAX - 1)\n"
    "#define UINT32_MAX 4294967295u\n#define INT64_MAX 9223372036854775807ll\n"
    "#define INT64_MIN (-INT64_MAX - 1)\n#define UINT64_MAX 18446744073709551615ull\n"
    "#define SIZE_MAX 18446744073709551615ull\n";
// Their functions are built in, and these are not.
constexpr char kMath[] =
    "#pragma once\n"
    "#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n"
    "#define HUGE_VALF INFINITY\n#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)\n"
    "#define M_PI 3.14159265358979323846\n#define M_E 2.7182818284590452354\n"
    "#define M_SQRT2 1.41421356237309504880\n#define M_SQRT1_2 0.70710678118654752440\n"
    "#define M_LOG2E 1.4426950408889634074\n#define M_LN2 0.69314718055994530942\n"
    "#define M_2_SQRTPI 1.12837916709551257390\n";
constexpr char kLimits[] =
    "#pragma once\n"
    "#define CHAR_BIT 8\n#define SHRT_MAX 32767\n#define LONG_MAX 9223372036854775807l\n"
    "#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n#define UINT_MAX 4294967295u\n"
    "#define LLONG_MAX 9223372036854775807ll\n#define FLT_MAX 3.402823466e+38f\n"
    "#define FLT_MIN 1.175494351e-38f\n#define FLT_EPSILON 1.192092896e-07f\n"
    "#define DBL_MAX 1.7976931348623157e+308\n#define DBL_EPSILON 2.220446049250313e-16\n";
constexpr char kNothing[] = "#pragma once\n";
constexpr Header kHeaders[] = {
    {"cstdint", kWholeNumbers}, {"stdint.h", kWholeNumbers}, {"climits", kLimits},
    {"limits.h", kLimits},      {"cfloat", kLimits},         {"float.h", kLimits},
    {"cmath", kMath},           {"math.h", kMath},           {"cstddef", kNothing},
    {"stddef.h", kNothing},     {"cstdio", kNothing},        {"stdio.h", kNothing},
    {"cassert", kNothing},      {"assert.h", kNothing},
};

// A kernel marked extern "C" has a symbol that does not tell its parameters. This one has.
constexpr char kSignature[] = "\ntemplate <class> __global__ void assay_signature() {}\n";

struct Options {
  std::string architecture, entry, out, source;
  std::vector<std::string> includes;
};

// The functions of the library.
struct Nvrtc {
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcAddNameExpression) add_name;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetLoweredName) lowered_name;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetErrorString) error_string;
};

template <class F>
bool Find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

bool Load(Nvrtc& nvrtc) {
  const char* const named = std::getenv("ASSAY_NVRTC");
  void* library = named != nullptr ? dlopen(named, RTLD_NOW) : nullptr;
  for (const char* name : kLibraries) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW);
  }
  return library != nullptr && Find(library, "nvrtcCreateProgram", nvrtc.create) &&
         Find(library, "nvrtcAddNameExpression", nvrtc.add_name) &&
         Find(library, "nvrtcCompileProgram", nvrtc.compile) &&
         Find(library, "nvrtcGetProgramLogSize", nvrtc.log_size) &&
         Find(library, "nvrtcGetProgramLog", nvrtc.log) &&
         Find(library, "nvrtcGetLoweredName", nvrtc.lowered_name) &&
         Find(library, "nvrtcGetCUBINSize", nvrtc.cubin_size) &&
         Find(library, "nvrtcGetCUBIN", nvrtc.cubin) &&
         Find(library, "nvrtcGetErrorString", nvrtc.error_string);
}

// The toolkit's headers: beside the library, or in the usual places.
std::vector<std::string> ToolkitHeaders(const Nvrtc& nvrtc) {
  std::vector<fs::path> folders;
  Dl_info where{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(nvrtc.create), &where) != 0) {
    const fs::path library = fs::canonical(where.dli_fname, error);
    folders.push_back(library.parent_path().parent_path() / "include");
  }
  folders.insert(folders.end(), {"/usr/local/cuda/include", "/usr/include"});
  for (const fs::path& folder : folders) {
    if (!fs::exists(folder / "cuda_fp16.h", error)) continue;
    return {folder.string(), (folder / "cccl").string()};
  }
  return {};
}

bool Read(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--arch" && more) {
      options.architecture = argv[++i];
    } else if (word == "--entry" && more) {
      options.entry = argv[++i];
    } else if (word == "--out" && more) {
      options.out = argv[++i];
    } else if (word == "--include" && more) {
      options.includes.emplace_back(argv[++i]);
    } else if (!word.starts_with("-") && options.source.empty()) {
      options.source = word;
    } else {
      return false;
    }
  }
  return options.architecture.starts_with("sm_") && !options.entry.empty() &&
         !options.out.empty() && !options.source.empty();
}

// From Hopper on, an architecture's own instructions need its name with an a.
std::string FullName(const std::string& architecture) {
  constexpr int kHopper = 90;
  const bool own = std::strtol(architecture.c_str() + 3, nullptr, 10) >= kHopper;
  return "--gpu-architecture=" + architecture + (own ? "a" : "");
}

std::vector<std::string> FlagsOf(const Nvrtc& nvrtc, const Options& options) {
  std::vector<std::string> flags = {FullName(options.architecture), "--std=c++20",
                                    "--generate-line-info", "-DASSAY_KERNEL"};
  std::vector<std::string> folders = options.includes;
  for (std::string& folder : ToolkitHeaders(nvrtc)) folders.push_back(std::move(folder));
  flags.reserve(flags.size() + folders.size());
  for (const std::string& folder : folders) flags.push_back("--include-path=" + folder);
  return flags;
}

int Compile(const Nvrtc& nvrtc, const Options& options) {
  std::ifstream file(options.source, std::ios::binary);
  std::string source((std::istreambuf_iterator<char>(file)), {});
  if (!file) {
    std::printf("assay-nvrtc: cannot read %s\n", options.source.c_str());
    return kNoCompiler;
  }
  source += kSignature;
  const std::string signature = "assay_signature<decltype(&" + options.entry + ")>";
  std::array<const char*, std::size(kHeaders)> names{}, texts{};
  for (std::size_t i = 0; i < std::size(kHeaders); ++i) {
    names[i] = kHeaders[i].name;
    texts[i] = kHeaders[i].text;
  }
  nvrtcProgram program = nullptr;
  nvrtcResult result =
      nvrtc.create(&program, source.c_str(), options.source.c_str(),
                   static_cast<int>(std::size(kHeaders)), texts.data(), names.data());
  const bool can = result == NVRTC_SUCCESS;
  if (result == NVRTC_SUCCESS) result = nvrtc.add_name(program, options.entry.c_str());
  if (result == NVRTC_SUCCESS) result = nvrtc.add_name(program, signature.c_str());
  const std::vector<std::string> flags = FlagsOf(nvrtc, options);
  std::vector<const char*> pointers;
  pointers.reserve(flags.size());
  for (const std::string& flag : flags) pointers.push_back(flag.c_str());
  if (result == NVRTC_SUCCESS) {
    result = nvrtc.compile(program, static_cast<int>(pointers.size()), pointers.data());
    std::size_t size = 0;
    if (nvrtc.log_size(program, &size) == NVRTC_SUCCESS && size > 1) {
      std::string log(size, '\0');
      if (nvrtc.log(program, log.data()) == NVRTC_SUCCESS) std::printf("%s\n", log.c_str());
    }
  }
  const char *symbol = nullptr, *told = nullptr;
  if (result == NVRTC_SUCCESS) {
    result = nvrtc.lowered_name(program, options.entry.c_str(), &symbol);
  }
  if (result == NVRTC_SUCCESS) {
    result = nvrtc.lowered_name(program, signature.c_str(), &told);
  }
  std::size_t size = 0;
  if (result == NVRTC_SUCCESS) result = nvrtc.cubin_size(program, &size);
  std::string cubin(size, '\0');
  if (result == NVRTC_SUCCESS) result = nvrtc.cubin(program, cubin.data());
  if (result != NVRTC_SUCCESS) {
    if (result == NVRTC_ERROR_COMPILATION) return kSourceIsWrong;  // the log says why
    std::printf("%s: %s\n", options.source.c_str(), nvrtc.error_string(result));
    const bool never = !can || result == NVRTC_ERROR_INVALID_OPTION ||
                       result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
    return never ? kNoCompiler : kSourceIsWrong;
  }
  std::ofstream out(options.out, std::ios::binary);
  out << symbol << '\n' << told << '\n' << cubin << std::flush;
  if (out) return 0;
  std::printf("assay-nvrtc: cannot write %s\n", options.out.c_str());
  return kNoCompiler;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Read(argc, argv, options)) {
    std::puts("assay-nvrtc --arch sm_90 --entry NAME --out FILE [--include FOLDER]... SOURCE");
    return kNoCompiler;
  }
  Nvrtc nvrtc{};
  if (!Load(nvrtc)) {
    std::puts(
        "assay-nvrtc: this node has no NVRTC (libnvrtc.so of CUDA's toolkit); ASSAY_NVRTC names "
        "another place");
    return kNoCompiler;
  }
  return Compile(nvrtc, options);
}
