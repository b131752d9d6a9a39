#include "client/fleet/json_scanner.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "client/lib/text.h"
#include "nlohmann/json.hpp"

namespace assay::client {

bool JsonScanner::AtEnd() {
  SkipSpace();
  return at_ == end_;
}

char JsonScanner::Peek() {
  SkipSpace();
  return at_ < end_ ? *at_ : '\0';
}

bool JsonScanner::Next(char close, bool first) {
  if (!ok_) return false;
  const char next = Peek();
  if (next == close) {
    ++at_;
    return false;
  }
  if (!first) {
    if (next != ',') {
      Fail();
      return false;
    }
    ++at_;
    SkipSpace();
  }
  if (at_ < end_) return true;
  Fail();
  return false;
}

std::string_view JsonScanner::Quoted() {
  if (Peek() != '"') {
    Fail();
    return {};
  }
  const char* text = ++at_;
  while (at_ < end_) {
    at_ = static_cast<const char*>(std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)));
    if (at_ == nullptr) break;
    // A quote after an odd number of backslashes is part of the text.
    const char* slash = at_;
    while (slash > text && slash[-1] == '\\') --slash;
    if ((at_ - slash) % 2 == 0) {
      const std::string_view quoted(text, static_cast<std::size_t>(at_ - text));
      ++at_;
      return quoted;
    }
    ++at_;
  }
  at_ = end_;
  Fail();
  return {};
}

std::string_view JsonScanner::Name() {
  const std::string_view name = Quoted();
  if (ok_ && Peek() == ':') {
    ++at_;
    SkipSpace();
  } else {
    Fail();
  }
  return name;
}

std::string JsonScanner::Text() {
  if (Peek() != '"') {
    Skip();
    return "";
  }
  const char* from = at_;
  const std::string_view text = Quoted();
  if (text.find('\\') == std::string_view::npos) return VisibleLines(text);
  const auto value = nlohmann::json::parse(from, at_, nullptr, false);
  return value.is_string() ? VisibleLines(value.get<std::string>()) : "";
}

std::optional<double> JsonScanner::Number() {
  const std::string_view text = Raw();
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<bool> JsonScanner::Bool() {
  const std::string_view text = Raw();
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::string_view JsonScanner::Raw() {
  SkipSpace();
  const char* from = at_;
  Skip();
  return {from, static_cast<std::size_t>(at_ - from)};
}

void JsonScanner::Skip() {
  switch (Peek()) {
    case '"':
      Quoted();
      return;
    case '{':
    case '[': {
      std::string open;  // brackets that wait to be closed, as their closing ones
      do {
        switch (*at_) {
          case '"':
            Quoted();
            if (!ok_) return;
            continue;
          case '{':
            open.push_back('}');
            break;
          case '[':
            open.push_back(']');
            break;
          case '}':
          case ']':
            if (open.back() != *at_) return Fail();
            open.pop_back();
            break;
          default:
            break;
        }
        ++at_;
      } while (!open.empty() && at_ < end_);
      if (!open.empty()) Fail();
      return;
    }
    default: {
      const char* from = at_;
      // A number, true, false or null.
      while (at_ < end_ && ((*at_ >= '0' && *at_ <= '9') || (*at_ >= 'a' && *at_ <= 'z') ||
                            *at_ == '.' || *at_ == '-' || *at_ == '+' || *at_ == 'E')) {
        ++at_;
      }
      if (at_ == from) Fail();
      return;
    }
  }
}

}  // namespace assay::client
