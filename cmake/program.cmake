# The finity program and its installation.
file(GLOB cli_sources CONFIGURE_DEPENDS src/cli/*.cpp)
if(cli_sources)
  add_executable(finity ${cli_sources})
  target_link_libraries(finity PRIVATE finity_all)
  finity_precompile(finity <CLI/CLI.hpp> <nlohmann/json.hpp>)
  target_compile_definitions(finity PRIVATE FINITY_VERSION="${PROJECT_VERSION}")
  install(TARGETS finity RUNTIME DESTINATION bin)
endif()
