# Debian's LibTorch asks for OpenCV, ffmpeg and others, which ask for Qt and some 200 more libraries, and uses none of
# them: loading them is most of the time it takes to start. Where the library really has no symbol of theirs, empty
# libraries of the same names, in a folder beside the program, are loaded instead, by that program only.
set(stub_names "(opencv_|avcodec|avformat|avutil|swscale|swresample|lmdb|leveldb|snappy|zmq)")
set(stub_symbols " U (_ZN?K?2cv|av_|avcodec|avformat|sws_|swr_|mdb_|leveldb|_ZN7leveldb|snappy|_ZN6snappy|zmq_)")
execute_process(COMMAND readelf -d ${torch_cpu_library} OUTPUT_VARIABLE needed RESULT_VARIABLE failed ERROR_QUIET)
execute_process(COMMAND nm -D --undefined-only ${torch_cpu_library} OUTPUT_VARIABLE symbols RESULT_VARIABLE failed_too
                ERROR_QUIET)
if(failed OR failed_too OR symbols MATCHES "${stub_symbols}")
  return()
endif()
string(REGEX MATCHALL "\\[lib${stub_names}[^]]*\\]" needed "${needed}")

set(folder ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/finity-torch-stubs)
set(empty ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
file(WRITE ${empty} "")
foreach(name ${needed})
  string(REGEX REPLACE "[][]" "" name "${name}")
  add_custom_command(
    OUTPUT ${folder}/${name}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${CMAKE_CXX_COMPILER} -shared -nostdlib -Wl,-soname,${name} -o ${folder}/${name} ${empty}
    VERBATIM)
  list(APPEND stubs ${folder}/${name})
endforeach()
if(stubs)
  add_custom_target(finity_torch_stubs DEPENDS ${stubs})
  add_dependencies(finity-torch finity_torch_stubs)
  # The old kind of search path, which also holds for what the libraries ask for.
  target_link_options(finity-torch PRIVATE LINKER:--disable-new-dtags)
  set_target_properties(finity-torch PROPERTIES BUILD_RPATH "$ORIGIN/finity-torch-stubs"
                                                INSTALL_RPATH "$ORIGIN/finity-torch-stubs")
  install(DIRECTORY ${folder} DESTINATION bin)
endif()
