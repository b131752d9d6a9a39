#include "client/lib/npy_header.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMostHeader = std::size_t{1} << 20;
constexpr std::size_t kMostRank = 64;
constexpr std::size_t kQuoted = 60;  // of a file's text in a message

std::string Quote(std::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(View(text.substr(0, kQuoted))),
                      text.size() > kQuoted ? "…" : "", "\"");
}

// The dict of a header, read from left to right.
class DictParser {
 public:
  DictParser(std::string_view file, std::string_view text) : file_(file), text_(text) {}

  absl::StatusOr<NpyHeader> Parse() {
    if (!Take('{')) return Malformed("a dict, {…},");
    bool descr = false, order = false, shape = false;
    while (!Take('}')) {
      std::string key;
      if (!TakeString(&key)) return Malformed("a key in quotes, or }");
      bool* seen = key == "descr" ? &descr : key == "fortran_order" ? &order : &shape;
      if (key != "descr" && key != "fortran_order" && key != "shape") {
        return WrongFile(file_, absl::StrCat("its header has an unknown key ", Quote(key),
                                             "; it must have descr, fortran_order and shape"));
      }
      if (std::exchange(*seen, true)) {
        return WrongFile(file_, absl::StrCat("its header has ", key, " twice"));
      }
      if (!Take(':')) return Malformed("a : behind the key");
      absl::Status status = key == "descr" ? Descr() : key == "fortran_order" ? Order() : Shape();
      if (!status.ok()) return status;
      if (!Take(',') && !Next('}')) return Malformed("a , or }");
    }
    SkipSpace();
    if (at_ != text_.size()) return Malformed("nothing but spaces behind the dict");
    if (!descr || !order || !shape) {
      return WrongFile(file_, absl::StrCat("its header has no ", !descr   ? "descr"
                                                                 : !order ? "fortran_order"
                                                                          : "shape"));
    }
    return std::move(header_);
  }

 private:
  absl::Status Descr() {
    if (Next('[') || Next('(')) {
      return WrongFile(file_, "its elements are records with fields; save one field as an array");
    }
    if (!TakeString(&header_.descr)) return Malformed("a type such as '<f4'");
    return absl::OkStatus();
  }

  absl::Status Order() {
    if (TakeWord("True")) {
      header_.fortran_order = true;
    } else if (!TakeWord("False")) {
      return Malformed("True or False");
    }
    return absl::OkStatus();
  }

  absl::Status Shape() {
    if (!Take('(')) return Malformed("a shape such as (2, 3)");
    bool comma = true;  // before the next extent
    while (!Take(')')) {
      std::int64_t extent = 0;
      if (!comma || !TakeNumber(&extent)) return Malformed("an extent of the shape");
      if (header_.shape.size() == kMostRank) {
        return WrongFile(file_, absl::StrCat("its shape has more than ", kMostRank, " extents"));
      }
      header_.shape.push_back(extent);
      comma = Take(',');
    }
    // (3) is a number in parentheses, not a tuple.
    if (header_.shape.size() == 1 && !comma) return Malformed("a , in a shape of one extent");
    return absl::OkStatus();
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool Next(char c) {
    SkipSpace();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Take(char c) {
    if (!Next(c)) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  // No escapes: no key and no type has one.
  bool TakeString(std::string* out) {
    SkipSpace();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return false;
    *out = std::string(text_.substr(at_ + 1, end - at_ - 1));
    if (out->find_first_of("\\\n") != std::string::npos) return false;
    at_ = end + 1;
    return true;
  }
  // Digits, with the L that Python 2 wrote behind long ones.
  bool TakeNumber(std::int64_t* out) {
    SkipSpace();
    const char* end = text_.data() + text_.size();
    if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9') return false;
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, *out);
    if (error != std::errc()) return false;
    at_ = static_cast<std::size_t>(stop - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return true;
  }

  absl::Status Malformed(std::string_view wanted) {
    SkipSpace();
    return WrongFile(
        file_,
        absl::StrCat("its header is malformed at byte ", at_, ": ", View(wanted), " is expected, ",
                     at_ < text_.size() ? Quote(text_.substr(at_, 20)) : "but it ends"));
  }

  std::string_view file_;
  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_;
};

// Formats of raw words, by their width in bytes; e2m1 has two elements in one.
constexpr struct {
  v1::DType dtype;
  int bytes;
} kRawFormats[] = {
    {v1::DTYPE_E4M3FN, 1}, {v1::DTYPE_E4M3FNUZ, 1}, {v1::DTYPE_E5M2, 1}, {v1::DTYPE_E5M2FNUZ, 1},
    {v1::DTYPE_E2M1, 1},   {v1::DTYPE_INT8, 1},     {v1::DTYPE_FP16, 2}, {v1::DTYPE_BF16, 2},
};

constexpr struct {
  const char* type;
  NpyElement element;
} kTypes[] = {
    {"f8", {8, v1::DTYPE_FP64}},        {"f4", {4, v1::DTYPE_FP32}},
    {"f2", {2, v1::DTYPE_FP16}},        {"i4", {4, v1::DTYPE_INT32}},
    {"i1", {1, v1::DTYPE_INT8}},        {"b1", {1, v1::DTYPE_INT8}},
    {"u1", {1, v1::DTYPE_UNSPECIFIED}}, {"u2", {2, v1::DTYPE_UNSPECIFIED}},
    {"V1", {1, v1::DTYPE_UNSPECIFIED}}, {"V2", {2, v1::DTYPE_UNSPECIFIED}},
    {"f1", {1, v1::DTYPE_E5M2}},  // as ml_dtypes calls e5m2 alone
};

// What NumPy calls a type that is not taken: "i8" is int64.
std::string NameOfType(std::string_view type) {
  constexpr std::pair<char, const char*> kKinds[] = {
      {'f', "float"}, {'i', "int"}, {'u', "uint"}, {'c', "complex"}, {'b', "bool"}};
  int bytes = 0;
  if (type.size() > 1) std::from_chars(type.data() + 1, type.data() + type.size(), bytes);
  for (const auto& [kind, name] : kKinds) {
    if (!type.empty() && type[0] == kind && bytes > 0 && bytes <= 32) {
      return absl::StrCat(name, 8 * bytes);
    }
  }
  return Quote(type);
}

constexpr char kTaken[] =
    "float64, float32, float16, int8 and int32 are compared, and uint8 and uint16 that hold a "
    "format named by --dtype";

}  // namespace

absl::Status WrongFile(std::string_view file, std::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(View(file), ": ", View(message)));
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view file, std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04")) {
    return WrongFile(file, "is an .npz archive; save its arrays one by one with numpy.save");
  }
  if (!bytes.starts_with(kMagic)) {
    return WrongFile(
        file, absl::StrCat("is no .npy file: it must begin with \"\\x93NUMPY\"",
                           bytes.empty() ? ", and it is empty"
                                         : absl::StrCat(", not ", Quote(bytes.substr(0, 6)))));
  }
  if (bytes.size() < 8) return WrongFile(file, "ends within its header");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const std::size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    return WrongFile(file, absl::StrCat("has version ", major, ".", minor,
                                        " of the .npy format; known are 1.0, 2.0 and 3.0"));
  }
  const std::size_t begin = major == 1 ? 10 : 12;
  if (bytes.size() < begin) return WrongFile(file, "ends within its header");
  std::size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMostHeader) {
    return WrongFile(file, absl::StrCat("says that its header has ", length, " bytes; at most ",
                                        kMostHeader, " are taken for one"));
  }
  if (bytes.size() - begin < length) {
    return WrongFile(file, absl::StrCat("ends within its header: ", length, " bytes of it by its ",
                                        "length, ", bytes.size() - begin, " there"));
  }
  auto header = DictParser(file, bytes.substr(begin, length)).Parse();
  if (header.ok()) header->data_begin = begin + length;
  return header;
}

absl::StatusOr<NpyElement> ParseNpyDescr(std::string_view file, std::string_view descr) {
  const char order = descr.empty() ? '\0' : descr[0];
  const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
  const std::string_view type = descr.substr(has_order ? 1 : 0);
  if (type.starts_with('O')) {
    return WrongFile(file,
                     "is an array of Python objects, which are no numbers; save it with a "
                     "numeric dtype");
  }
  for (const auto& known : kTypes) {
    if (type != known.type) continue;
    if (known.element.bytes > 1 && order == '>' && type[0] != 'V') {
      return WrongFile(file,
                       absl::StrCat("is big-endian (", Quote(descr),
                                    "); save it little-endian: a.astype('<", View(type), "')"));
    }
    // One byte has no order, and NumPy says so; others must have one.
    const bool fits = known.element.bytes == 1 || type[0] == 'V' ? true : order == '<';
    if (fits) return known.element;
    return WrongFile(
        file, absl::StrCat("has elements of type ", Quote(descr),
                           ", whose byte order is not said; it must be '<", View(type), "'"));
  }
  return WrongFile(file, absl::StrCat("has ", NameOfType(type), " elements; ", kTaken));
}

bool CanHold(const NpyElement& element, v1::DType dtype) {
  if (element.dtype == dtype) return dtype != v1::DTYPE_UNSPECIFIED;
  if (element.dtype == v1::DTYPE_FP32) return dtype == v1::DTYPE_TF32;
  if (element.dtype != v1::DTYPE_UNSPECIFIED) return false;
  return std::any_of(std::begin(kRawFormats), std::end(kRawFormats), [&](const auto& raw) {
    return raw.dtype == dtype && raw.bytes == element.bytes;
  });
}

}  // namespace assay::client
