# Writes a man page for each program and each of the trainer's commands, from what --help prints.
#   cmake -DHELP2MAN=.. -DBIN=.. -DOUT=.. -DVERSION=.. -P man.cmake
file(MAKE_DIRECTORY ${OUT})

function(page command name summary)
  execute_process(COMMAND ${HELP2MAN} --no-info --no-discard-stderr --version-string=${VERSION} --source=nixie --name=${summary}
                          --manual=nixie --output=${OUT}/${name}.1 ${command}
                  WORKING_DIRECTORY ${BIN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

execute_process(COMMAND ${BIN}/trainer --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ".*\nCommands[^\n]*\n" "\n" commands "${help}")
string(REGEX MATCHALL "\n  [a-z-]+  +[^\n]+" commands "${commands}")
if(NOT commands)
  message(FATAL_ERROR "trainer --help names no commands:\n${help}")
endif()
foreach(entry ${commands})
  string(REGEX REPLACE "^\n  ([a-z-]+)  +(.*)$" "\\1" name "${entry}")
  string(REGEX REPLACE "^\n  ([a-z-]+)  +(.*)$" "\\2" summary "${entry}")
  page("./trainer ${name}" trainer-${name} "${summary}")
endforeach()
page(./explain explain "print a net's layers, graph and plan")
page(./benchmark benchmark "time nets, layers and arrays")
page(./trainer trainer "train neural networks")
