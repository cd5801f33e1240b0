# The finity program and its installation. All but main() is a library, so that tests can run commands in their own
# process.
file(GLOB cli_sources CONFIGURE_DEPENDS src/cli/*.cpp)
list(REMOVE_ITEM cli_sources ${CMAKE_SOURCE_DIR}/src/cli/main.cpp)
add_library(finity_cli STATIC ${cli_sources})
target_link_libraries(finity_cli PUBLIC finity_all)
finity_precompile(finity_cli <CLI/CLI.hpp> <nlohmann/json.hpp>)
target_compile_definitions(finity_cli PRIVATE FINITY_VERSION="${PROJECT_VERSION}")
add_executable(finity src/cli/main.cpp)
target_link_libraries(finity PRIVATE finity_cli)
install(TARGETS finity RUNTIME DESTINATION bin)
