// Files of NumPy's .npy format, written for tests.
#ifndef ASSAY_TESTS_UNIT_CLIENT_NPY_FILES_H_
#define ASSAY_TESTS_UNIT_CLIENT_NPY_FILES_H_

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace assay::client::testing {

// The bytes before the data, as NumPy writes them.
inline std::string NpyPrefix(const std::string& dict, int version = 1) {
  const std::size_t begin = version == 1 ? 10 : 12;
  std::string header = dict;
  header.append(63 - (begin + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (std::size_t i = 0; i < begin - 8; ++i) {
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  return bytes + header;
}

inline std::string NpyDict(const std::string& descr, const std::vector<std::int64_t>& shape,
                           bool fortran = false) {
  std::string text = "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
                     ", 'shape': (";
  for (const std::int64_t extent : shape) text += std::to_string(extent) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  return text + "), }";
}

// A folder that is gone with it.
class NpyFolder {
 public:
  NpyFolder() {
    char path[] = "/tmp/assay-npy-XXXXXX";
    path_ = mkdtemp(path);
  }
  ~NpyFolder() { std::filesystem::remove_all(path_); }

  std::string path(const std::string& name) const { return path_ + "/" + name; }

  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  // Elements in the order of the file.
  template <class T>
  std::string Array(const std::string& name, const std::string& descr,
                    const std::vector<std::int64_t>& shape, const std::vector<T>& values,
                    bool fortran = false) const {
    return Write(name, NpyPrefix(NpyDict(descr, shape, fortran)) +
                           std::string(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(T)));
  }

 private:
  std::string path_;
};

}  // namespace assay::client::testing

#endif  // ASSAY_TESTS_UNIT_CLIENT_NPY_FILES_H_
