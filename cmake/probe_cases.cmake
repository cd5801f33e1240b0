# testdata/ops as a source file, so that `finity backends` can try ops wherever it is installed.
file(GLOB case_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/testdata/ops/*.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${case_files})
set(content "#include \"backends/probe_cases.h\"\n\nnamespace finity {\n\nnamespace {\n\nconstexpr std::string_view kFiles[] = {\n")
foreach(case_file ${case_files})
  file(READ ${case_file} text)
  string(APPEND content "R\"cases(${text})cases\",\n")
endforeach()
string(APPEND content "};\n\n}  // namespace\n\nstd::span<const std::string_view> probe_cases() { return kFiles; }\n\n}  // namespace finity\n")
set(probe_source ${CMAKE_BINARY_DIR}/generated/probe_cases.cpp)
# Written only when it changes.
file(GENERATE OUTPUT ${probe_source} CONTENT "${content}")
target_sources(finity_backends PRIVATE ${probe_source})
