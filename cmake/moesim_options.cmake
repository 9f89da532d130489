# What every target of moesim is compiled with.
add_library(moesim_options INTERFACE)
target_compile_options(moesim_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  # False alarms of GCC 12 at -O3: fmt::join over strings, and "literal" + std::string.
  -Wno-stringop-overflow -Wno-restrict
  # Same bytes on every machine: no fused multiply-add that the source does not ask for.
  -ffp-contract=off)
if(MOESIM_WERROR)
  target_compile_options(moesim_options INTERFACE -Werror)
endif()
if(MOESIM_SANITIZE)
  # Null pointers end a program under the address sanitizer too; asked of each access, they are a quarter of the compile time.
  target_compile_options(moesim_options INTERFACE
    -fsanitize=${MOESIM_SANITIZE} -fno-sanitize=null,alignment -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(moesim_options INTERFACE -fsanitize=${MOESIM_SANITIZE})
endif()

# moesim_layer(NAME LAYERS layers... PRIVATE libs...): one static library per layer. Headers without a source file, which
# would include them first, are in a file set whose members are checked to compile alone (target
# all_verify_interface_header_sets).
function(moesim_layer name)
  cmake_parse_arguments(ARG "" "" "LAYERS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  list(FILTER headers EXCLUDE REGEX "/harness/")  # programs of their own
  list(FILTER sources EXCLUDE REGEX "/harness/")
  add_library(moesim_${name} STATIC ${sources})
  add_library(moesim::${name} ALIAS moesim_${name})
  set(alone)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "h$" "cpp" source ${header})
    if(NOT source IN_LIST sources)
      list(APPEND alone ${header})
    endif()
  endforeach()
  target_sources(moesim_${name} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers}
    FILE_SET alone TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${alone})
  set_target_properties(moesim_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON INTERFACE_HEADER_SETS_TO_VERIFY alone)
  target_link_libraries(moesim_${name} PUBLIC ${ARG_LAYERS} PRIVATE ${ARG_PRIVATE} moesim_options)
endfunction()

# moesim_embed(TARGET FUNCTION FOLDER): adds to TARGET a function std::span<const EmbeddedFile> moesim::FUNCTION() with the
# text of FOLDER/*.json, so that the binary runs from anywhere.
function(moesim_embed target function folder)
  moesim_embed_files(${target} ${function} ${folder}/*.json)
endfunction()

# The same of all files that match one of the patterns, sorted by path.
function(moesim_embed_files target function)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]" OUTPUT_VARIABLE patterns)
  file(GLOB data CONFIGURE_DEPENDS ${patterns})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DGLOB=${patterns}" -DFUNCTION=${function}
            -DOUTPUT=${output} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${data} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
