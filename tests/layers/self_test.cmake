# Run as a script: check_layers.cmake passes a good tree and names each kind of wrong include.
#   cmake -D SCRIPT=check_layers.cmake -D SCRATCH=folder -P self_test.cmake
cmake_minimum_required(VERSION 3.25)

# expect(RESULT FILE LINE): a tree whose only file is FILE, holding LINE, must PASS or FAIL.
function(expect result file line)
  file(REMOVE_RECURSE ${SCRATCH})
  file(WRITE ${SCRATCH}/${file} "#pragma once\n#include <vector>\n${line}\nint x[2];  // [;\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${SCRATCH} -P ${SCRIPT}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result STREQUAL "PASS" AND NOT status EQUAL 0)
    message(SEND_ERROR "${file} with ${line} should pass:\n${output}")
  elseif(result STREQUAL "FAIL")
    string(STRIP "${line}" include)
    string(FIND "${output}" "${file}: ${include}" named)
    if(status EQUAL 0 OR named LESS 0)
      message(SEND_ERROR "${file} with ${line} should fail and be named:\n${output}")
    endif()
  endif()
endfunction()

expect(PASS sim/a.h "#include \"sim/units/time.h\"")
expect(PASS sim/a.h "#include <fmt/format.h>")
expect(PASS sim/a.h "// #include \"tools/a.h\"")
expect(PASS hwmodels/a.cpp "#include \"sim/units/time.h\"")
expect(PASS tools/a.cpp "#include \"validation/a.h\"")
expect(PASS tests/unit/a.cpp "#include \"tools/a.h\"")

expect(FAIL sim/units/a.h "#include \"hwmodels/a.h\"")
expect(FAIL sim/a.cpp "  #  include \"traces/a.h\"")
expect(FAIL workloads/strategies/a.cpp "#include \"traces/views/a.h\"")
expect(FAIL validation/a.cpp "#include \"tools/a.h\"")
expect(FAIL traces/a.cpp "#include \"tests/testkit/a.h\"")
expect(FAIL traces/a.cpp "#include <validation/a.h>")
expect(FAIL sim/a.cpp "#include \"sim/../traces/a.h\"")
expect(FAIL sim/a.cpp "#include \"a.h\"")
expect(PASS validation/harness/cuda/a.cpp "#include \"a.h\"")  # a program of its own
file(REMOVE_RECURSE ${SCRATCH})
