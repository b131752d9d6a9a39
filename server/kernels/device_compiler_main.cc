// Compiles CUDA source into device code with NVRTC, the compiler library of CUDA's toolkit, and HIP
// source with hipRTC, that of ROCm. The daemon starts it as a contained process, for source is a
// stranger's.
//
//   assay-device-compiler --arch sm_90|gfx90a --entry NAME --out FILE [--include FOLDER]… SOURCE
//
// FILE gets the kernel's symbol, a symbol that tells its parameters, an end of line behind each,
// and a cubin or a code object of AMD's. A code object describes its parameters itself, and has the
// kernel's symbol in both places. The compiler's lines go to the standard output. Exit codes: 0
// compiled, 1 the source does not compile, 2 wrong arguments, no compiler library, or one that
// cannot do this at all.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kSourceIsWrong = 1;
constexpr int kNoCompiler = 2;

// Headers that a file for nvcc or hipcc includes, and that the library has not, or has built in.
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
constexpr char kHipMath[] =
    "#pragma once\n"
    "#ifndef INFINITY\n#define INFINITY __builtin_huge_valf()\n#endif\n"
    "#ifndef NAN\n#define NAN __builtin_nanf(\"\")\n#endif\n"
    "#ifndef M_PI\n"
    "#define M_PI 3.14159265358979323846\n#define M_E 2.7182818284590452354\n"
    "#define M_SQRT2 1.41421356237309504880\n#define M_SQRT1_2 0.70710678118654752440\n"
    "#define M_LOG2E 1.4426950408889634074\n#define M_LN2 0.69314718055994530942\n"
    "#define M_2_SQRTPI 1.12837916709551257390\n#endif\n";
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

// Of hipRTC, which has the runtime and fp16 built in: the headers themselves would define them
// anew.
constexpr Header kHipHeaders[] = {
    {"hip/hip_runtime.h", kNothing},
    {"hip/hip_fp16.h", kNothing},
    {"cstdint", kNothing},
    {"stdint.h", kNothing},
    {"climits", kLimits},
    {"limits.h", kLimits},
    {"cfloat", kLimits},
    {"float.h", kLimits},
    {"cmath", kHipMath},
    {"math.h", kHipMath},
    {"cstddef", kNothing},
    {"stddef.h", kNothing},
    {"cstdio", kNothing},
    {"stdio.h", kNothing},
    {"cassert", kNothing},
    {"assert.h", kNothing},
};

// A kernel marked extern "C" has a symbol that does not tell its parameters. This one has.
constexpr char kSignature[] = "\ntemplate <class> __global__ void assay_signature() {}\n";

// The results of both libraries. The names are NVRTC's; hipRTC has the same numbers.
enum Result : int {
  kSuccess = 0,
  kInvalidOption = 5,
  kCompilation = 6,
  kBuiltinOperationFailure = 7,
};

// A compiler library. NVRTC and hipRTC have the same functions but for the names.
struct Library {
  const char* name;
  const char* variable;                    // the environment's, with the path of the file
  std::span<const char* const> files;      // the loader's names first, then the usual place
  std::span<const char* const> functions;  // in the order of Functions
  std::span<const Header> headers;
};
constexpr const char* kNvrtcFiles[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                       "/usr/local/cuda/lib64/libnvrtc.so"};
constexpr const char* kHiprtcFiles[] = {"libhiprtc.so.6", "libhiprtc.so", "libamdhip64.so.6",
                                        "libamdhip64.so.5", "/opt/rocm/lib/libhiprtc.so"};
constexpr const char* kNvrtcFunctions[] = {
    "nvrtcCreateProgram",     "nvrtcAddNameExpression", "nvrtcCompileProgram",
    "nvrtcGetProgramLogSize", "nvrtcGetProgramLog",     "nvrtcGetLoweredName",
    "nvrtcGetCUBINSize",      "nvrtcGetCUBIN",          "nvrtcGetErrorString"};
constexpr const char* kHiprtcFunctions[] = {
    "hiprtcCreateProgram",     "hiprtcAddNameExpression", "hiprtcCompileProgram",
    "hiprtcGetProgramLogSize", "hiprtcGetProgramLog",     "hiprtcGetLoweredName",
    "hiprtcGetCodeSize",       "hiprtcGetCode",           "hiprtcGetErrorString"};
constexpr Library kNvrtc = {"NVRTC (libnvrtc.so of CUDA's toolkit)", "ASSAY_NVRTC", kNvrtcFiles,
                            kNvrtcFunctions, kHeaders};
constexpr Library kHiprtc = {"hipRTC (libhiprtc.so or libamdhip64.so of ROCm)", "ASSAY_HIPRTC",
                             kHiprtcFiles, kHiprtcFunctions, kHipHeaders};

struct Options {
  std::string architecture, entry, out, source;
  std::vector<std::string> includes;

  bool hip() const { return architecture.starts_with("gfx"); }
};

// The functions of a library. A program is the library's own, behind a pointer.
struct Functions {
  Result (*create)(void** program, const char* source, const char* name, int headers,
                   const char* const* texts, const char* const* names);
  Result (*add_name)(void* program, const char* expression);
  Result (*compile)(void* program, int count, const char* const* flags);
  Result (*log_size)(void* program, std::size_t* size);
  Result (*log)(void* program, char* text);
  Result (*lowered_name)(void* program, const char* expression, const char** name);
  Result (*code_size)(void* program, std::size_t* size);
  Result (*code)(void* program, char* bytes);
  const char* (*error_string)(Result result);
};

bool Load(const Library& named, Functions& f) {
  const char* const given = std::getenv(named.variable);
  void* library = given != nullptr ? dlopen(given, RTLD_NOW) : nullptr;
  for (const char* name : named.files) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW);
  }
  if (library == nullptr) return false;
  const auto* name = named.functions.data();
  const auto find = [&](auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, *name++));
    return function != nullptr;
  };
  return find(f.create) && find(f.add_name) && find(f.compile) && find(f.log_size) && find(f.log) &&
         find(f.lowered_name) && find(f.code_size) && find(f.code) && find(f.error_string);
}

// The toolkit's headers: beside the library, or in the usual places.
std::vector<std::string> ToolkitHeaders(const Functions& f) {
  std::vector<fs::path> folders;
  Dl_info where{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(f.create), &where) != 0) {
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
  return (options.hip() || options.architecture.starts_with("sm_")) && !options.entry.empty() &&
         !options.out.empty() && !options.source.empty();
}

// From Hopper on, an architecture's own instructions need its name with an a.
std::string FullName(const std::string& architecture) {
  constexpr int kHopper = 90;
  const bool own = std::strtol(architecture.c_str() + 3, nullptr, 10) >= kHopper;
  return "--gpu-architecture=" + architecture + (own ? "a" : "");
}

std::vector<std::string> FlagsOf(const Functions& f, const Options& options) {
  std::vector<std::string> flags;
  std::vector<std::string> folders = options.includes;
  if (options.hip()) {
    flags = {"--gpu-architecture=" + options.architecture, "-std=c++20", "-O3", "-DASSAY_KERNEL"};
  } else {
    flags = {FullName(options.architecture), "--std=c++20", "--generate-line-info",
             "-DASSAY_KERNEL"};
    for (std::string& folder : ToolkitHeaders(f)) folders.push_back(std::move(folder));
  }
  flags.reserve(flags.size() + folders.size());
  for (const std::string& folder : folders) flags.push_back("-I" + folder);
  return flags;
}

void PrintLog(const Functions& f, void* program) {
  std::size_t size = 0;
  if (f.log_size(program, &size) != kSuccess || size <= 1) return;
  std::string log(size, '\0');
  if (f.log(program, log.data()) == kSuccess) std::printf("%s\n", log.c_str());
}

struct Compiled {
  const char* symbol = nullptr;
  const char* told = nullptr;  // the symbol that tells its parameters
  std::string code;
};

// Takes what a compiled program is made of.
Result Take(const Functions& f, const Options& options, const std::string& signature, void* program,
            Compiled& compiled) {
  Result result = f.lowered_name(program, options.entry.c_str(), &compiled.symbol);
  compiled.told = compiled.symbol;
  if (result == kSuccess && !options.hip()) {
    result = f.lowered_name(program, signature.c_str(), &compiled.told);
  }
  std::size_t size = 0;
  if (result == kSuccess) result = f.code_size(program, &size);
  compiled.code.resize(size);
  return result == kSuccess ? f.code(program, compiled.code.data()) : result;
}

int Compile(const Library& library, const Functions& f, const Options& options) {
  std::ifstream file(options.source, std::ios::binary);
  std::string source((std::istreambuf_iterator<char>(file)), {});
  if (!file) {
    std::printf("assay-device-compiler: cannot read %s\n", options.source.c_str());
    return kNoCompiler;
  }
  const std::string signature = "assay_signature<decltype(&" + options.entry + ")>";
  if (options.hip()) {
    // Its messages name a file of hipRTC's own otherwise.
    source = "#line 1 \"" + options.source + "\"\n" + source;
  } else {
    source += kSignature;
  }
  std::vector<const char*> names, texts;
  for (const Header& header : library.headers) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  void* program = nullptr;
  Result result = f.create(&program, source.c_str(), options.source.c_str(),
                           static_cast<int>(names.size()), texts.data(), names.data());
  const bool can = result == kSuccess;
  if (result == kSuccess) result = f.add_name(program, options.entry.c_str());
  if (result == kSuccess && !options.hip()) result = f.add_name(program, signature.c_str());
  const std::vector<std::string> flags = FlagsOf(f, options);
  std::vector<const char*> pointers;
  pointers.reserve(flags.size());
  for (const std::string& flag : flags) pointers.push_back(flag.c_str());
  if (result == kSuccess) {
    result = f.compile(program, static_cast<int>(pointers.size()), pointers.data());
    PrintLog(f, program);
  }
  Compiled compiled;
  if (result == kSuccess) result = Take(f, options, signature, program, compiled);
  if (result != kSuccess) {
    if (result == kCompilation) return kSourceIsWrong;  // the log says why
    std::printf("%s: %s\n", options.source.c_str(), f.error_string(result));
    const bool never = !can || result == kInvalidOption || result == kBuiltinOperationFailure;
    return never ? kNoCompiler : kSourceIsWrong;
  }
  std::ofstream out(options.out, std::ios::binary);
  out << compiled.symbol << '\n' << compiled.told << '\n' << compiled.code << std::flush;
  if (out) return 0;
  std::printf("assay-device-compiler: cannot write %s\n", options.out.c_str());
  return kNoCompiler;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Read(argc, argv, options)) {
    std::puts(
        "assay-device-compiler --arch sm_90|gfx90a --entry NAME --out FILE [--include FOLDER]... "
        "SOURCE");
    return kNoCompiler;
  }
  const Library& library = options.hip() ? kHiprtc : kNvrtc;
  Functions functions{};
  if (!Load(library, functions)) {
    std::printf("assay-device-compiler: this node has no %s; %s names the file\n", library.name,
                library.variable);
    return kNoCompiler;
  }
  return Compile(library, functions, options);
}
