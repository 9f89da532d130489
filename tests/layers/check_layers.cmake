# Run as a script: fails where a source file includes what its layer must not see.
#   cmake -D ROOT=path/to/moesim -P check_layers.cmake
# Rule: a project file is included in quotes, by its path from the root, and from the same layer or one to its left.
cmake_minimum_required(VERSION 3.25)

set(layers sim hwmodels workloads traces validation tools)

set(violations "")
set(visible "")
foreach(layer IN LISTS layers)
  list(APPEND visible ${layer})
  list(JOIN visible ", " visible_names)
  file(GLOB_RECURSE files RELATIVE ${ROOT}
    ${ROOT}/${layer}/*.h ${ROOT}/${layer}/*.cpp)
  list(FILTER files EXCLUDE REGEX "/harness/")  # programs of their own, which see no layer
  foreach(file IN LISTS files)
    file(READ ${ROOT}/${file} text)
    string(REGEX MATCHALL "\n[ \t]*#[ \t]*include[ \t]*[\"<][^\">\n]*[\">]" includes "\n${text}")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^.*[\"<]([^\">]*)[\">]$" "\\1" path "${include}")
      string(REGEX REPLACE "/.*$" "" folder "${path}")
      string(FIND "${include}" "<" angle)
      if(angle GREATER -1 AND NOT folder IN_LIST layers AND NOT folder STREQUAL "tests")
        continue()  # a library
      endif()
      if(angle GREATER -1 OR path MATCHES "(^|/)\\.\\.?(/|$)" OR NOT folder IN_LIST visible)
        string(STRIP "${include}" include)
        string(APPEND violations "${file}: ${include}\n  ${layer} may include, in quotes and by the path from the root, "
          "only from: ${visible_names}\n")
      endif()
    endforeach()
  endforeach()
endforeach()

if(violations)
  message("${violations}")
  message(FATAL_ERROR "Includes that cross the layers, see above")
endif()
