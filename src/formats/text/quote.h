// How names and strings are spelled in the text form.
#pragma once

#include <string>
#include <string_view>

namespace finity::textform {

// In double quotes. Control characters and bytes that are not UTF-8 become \xHH.
std::string quoted(std::string_view text);
// As it is when it reads as a name, else quoted.
std::string as_name(std::string_view text);

}  // namespace finity::textform
