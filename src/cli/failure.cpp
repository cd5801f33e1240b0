#include "cli/failure.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "base/error.h"

namespace finity {

std::string failure_text() {
  try {
    throw;
  } catch (const Error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    return "not enough memory";
  } catch (const std::length_error&) {
    return "not enough memory: a size is too large";
  } catch (const std::exception& error) {
    return std::string("internal error, please report it: ") + error.what();
  } catch (...) {
    return "internal error, please report it";
  }
}

}  // namespace finity
