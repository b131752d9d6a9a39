// Formats numbers for people. "–" stands for no value. All functions are pure.
#ifndef ASSAY_CLIENT_REPORT_UNITS_H_
#define ASSAY_CLIENT_REPORT_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace assay::client {

// "2.53 ms", "4.1 µs", "6.2 s", "14 min 12 s".
std::string SecondsText(double seconds);

// "850 GFLOP/s", "31.2 GB/s": three digits and a prefix.
std::string RateText(double per_second, std::string_view unit);

// "81 %", "0.4 %".
std::string PercentText(double share);

// "2,097,152".
std::string CountText(std::int64_t count);

// "7.5 GiB".
std::string BytesText(std::int64_t bytes);

// "1.2e-01"; "0" for exactly nothing.
std::string ErrorText(double error);

// "0.92", "412.6", "1.3e+07".
std::string RatioText(double ratio);

// As few digits as tell the value from its neighbours at a glance: "0.2207".
std::string ValueText(double value);

// Both with as many digits as tell them apart, where they are not the same.
std::pair<std::string, std::string> TellingTexts(double a, double b);

// The text, or "–" for none.
std::string OrDash(const std::string& text);

// Columns a text takes on a terminal: its characters, not its bytes.
std::size_t DisplayWidth(std::string_view text);

// Padded with blanks to `width` columns, on the right or the left.
std::string PadRight(std::string_view text, std::size_t width);
std::string PadLeft(std::string_view text, std::size_t width);

// At most `width` columns, the last one "…" where something was cut.
std::string Shorten(std::string_view text, std::size_t width);

// As Shorten, but the end stays too: what tells "… bf16 onednn" from its neighbour.
std::string ShortenMiddle(std::string_view text, std::size_t width);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_UNITS_H_
