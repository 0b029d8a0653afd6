# What hflush_sim's linker has to know of the events that are observed: sim/observed.h.
#
#   cmake -DNM=nm -DLIBRARY=libhflush_core.a -DOBSERVERS="a.cc;b.cc" -DHEADER=x.h -DOPTIONS=y -P …
#
# Each HFLUSH_EVENT(Class, event, …) and HFLUSH_CONSTRUCTOR in OBSERVERS is looked up in LIBRARY. HEADER gets its mangled
# name, OPTIONS an option for the linker.
cmake_minimum_required(VERSION 3.20)
execute_process(COMMAND ${NM} --defined-only --format=posix ${LIBRARY}
  OUTPUT_FILE ${OPTIONS}.symbols COMMAND_ERROR_IS_FATAL ANY)

set(header "#pragma once\n")
set(options "-Wl,--wrap=pthread_self\n")  # fiber.h
foreach(observer IN LISTS OBSERVERS)
  file(STRINGS ${observer} lines REGEX "HFLUSH_(EVENT|CONSTRUCTOR)\\(")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "HFLUSH_[A-Z]+\\(([A-Za-z]+), ([A-Za-z_]+)," found "${line}")
    set(class ${CMAKE_MATCH_1})
    set(event ${CMAKE_MATCH_2})
    string(LENGTH ${class} class_length)
    string(LENGTH ${event} event_length)
    if(event STREQUAL "constructor")
      set(mangled "C1")
    else()
      set(mangled "${event_length}${event}")
    endif()
    file(STRINGS ${OPTIONS}.symbols symbols
      REGEX "^_ZNK?6hflush4hdfs${class_length}${class}${mangled}E[A-Za-z0-9_]* T ")
    list(LENGTH symbols count)
    if(NOT count EQUAL 1)
      message(FATAL_ERROR "${observer}: ${LIBRARY} has ${count} functions ${class}::${event}")
    endif()
    string(REGEX REPLACE " .*" "" symbol "${symbols}")
    string(APPEND header "#define HFLUSH_SYMBOL_${class}_${event} \"${symbol}\"\n")
    string(APPEND options "-Wl,--wrap=${symbol}\n")
  endforeach()
endforeach()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "${header}" @ONLY)
file(CONFIGURE OUTPUT ${OPTIONS} CONTENT "${options}" @ONLY)
