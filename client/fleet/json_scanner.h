// JsonScanner: reads some values of a JSON text in one pass and skips the rest.
//
// The reports of a fleet are gigabytes, and about a hundredth of them is compared. A general JSON
// parser reads every figure: nlohmann's SAX parser reads 72 MB/s where this class reads 495 MB/s,
// so that a merge of 1,000 reports would take longer than its goal of 10 s. In skipped values the
// scanner checks only that strings end and that brackets match. It is not thread-safe.
#ifndef ASSAY_CLIENT_FLEET_JSON_SCANNER_H_
#define ASSAY_CLIENT_FLEET_JSON_SCANNER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace assay::client {

class JsonScanner {
 public:
  // The text must outlive the scanner.
  explicit JsonScanner(std::string_view text)
      : begin_(text.data()), at_(text.data()), end_(at_ + text.size()) {}

  // Nothing was wrong so far.
  bool ok() const { return ok_; }
  // [bytes] from the first where the reading stands, or stopped.
  std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }
  // Only white space is left.
  bool AtEnd();

  // The value's first character: '{', '[', '"', a digit or '-', or a letter; 0 at the end.
  char Peek();

  // Calls on_member(name) for each member; it takes the value by one of these functions,
  // or leaves it to be passed over. Another kind of value is passed over whole.
  template <class OnMember>
  void Object(OnMember on_member) {
    if (Peek() != '{') return Skip();
    ++at_;
    for (bool first = true; Next('}', first); first = false) {
      const std::string_view name = Name();
      const char* value = at_;
      if (ok_) on_member(name);
      if (ok_ && at_ == value) Skip();
    }
  }

  // Calls on_element() for each element, likewise.
  template <class OnElement>
  void Array(OnElement on_element) {
    if (Peek() != '[') return Skip();
    ++at_;
    for (bool first = true; Next(']', first); first = false) {
      const char* value = at_;
      on_element();
      if (ok_ && at_ == value) Skip();
    }
  }

  // A string's text, made visible (VisibleLines in text.h); empty for other values, which are
  // passed over.
  std::string Text();
  // A finite number; nothing for other values.
  std::optional<double> Number();
  // true or false; nothing for other values.
  std::optional<bool> Bool();
  // Any value, as it is written.
  std::string_view Raw();
  // Passes over a value.
  void Skip();

 private:
  void SkipSpace() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  // Whether another member or element follows; takes the comma or the bracket.
  bool Next(char close, bool first);
  std::string_view Name();
  // What stands between the quotes at hand.
  std::string_view Quoted();
  void Fail() { ok_ = false; }

  const char* begin_;
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_JSON_SCANNER_H_
