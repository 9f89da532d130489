# cmake -D PYTHON=… -D REQUIREMENTS=… -D ENVIRONMENT=… -P: a virtual environment with these packages, unless it is there already.
set(made_from ${ENVIRONMENT}/made_from.txt)
file(SHA256 ${REQUIREMENTS} wanted)
if(EXISTS ${made_from})
  file(READ ${made_from} found)
  if(found STREQUAL wanted)
    return()
  endif()
endif()

file(REMOVE_RECURSE ${ENVIRONMENT})
foreach(command IN ITEMS
    "${PYTHON};-m;venv;${ENVIRONMENT}"
    "${ENVIRONMENT}/bin/python;-m;pip;install;--quiet;--disable-pip-version-check;--only-binary=:all:;-r;${REQUIREMENTS}")
  execute_process(COMMAND ${command} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "no environment for the TPU harness (python3-venv and a way to PyPI are needed): ${command}")
  endif()
endforeach()
file(WRITE ${made_from} ${wanted})
