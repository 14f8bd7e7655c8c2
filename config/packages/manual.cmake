# A manual page with its options as the program's --help has them:  cmake -DPROGRAM=… -DPAGE=… -DTO=… -P manual.cmake
#
#     --config FILE       read this      ─►   .It Fl -config Ar FILE
#                         ini file              read this ini file
#
# takes the place of the line @OPTIONS@ of PAGE; TO.gz is written.
execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE ";" "," help "${help}")
string(REPLACE "\n" ";" lines "${help}")
set(options "")
foreach(line IN LISTS lines)
    if(line MATCHES "^  --([a-z-]+)( [A-Z][A-Za-z:,.|]*)?  +(.*)$")
        string(STRIP "${CMAKE_MATCH_2}" argument)
        string(APPEND options ".It Fl -${CMAKE_MATCH_1}")
        if(argument)
            string(APPEND options " Ar ${argument}")
        endif()
        string(APPEND options "\n${CMAKE_MATCH_3}\n")
    elseif(line MATCHES "^   +([^ ].*)$" AND options)
        string(APPEND options "${CMAKE_MATCH_1}\n")
    endif()
endforeach()
file(READ ${PAGE} page)
string(REPLACE "@OPTIONS@\n" "${options}" page "${page}")
file(WRITE ${TO} "${page}")
execute_process(COMMAND gzip -9nc ${TO} OUTPUT_FILE ${TO}.gz COMMAND_ERROR_IS_FATAL ANY)
