# The RocksDB library to link with: Debian's package, or the one that config/rocksdb has rebuilt in SCREE_ROCKSDB.
#
#   ROCKSDB              the library
#   ROCKSDB_VERSION      7.8.3                 of its headers
#   ROCKSDB_ASSERTIONS   on | off              what its symbols show
#   ROCKSDB_CRC32C       software | hardware
#
# The backend reports the last three (store_engine).
set(SCREE_ROCKSDB "" CACHE PATH "where config/rocksdb put the library and its headers; empty: Debian's package")
unset(ROCKSDB CACHE)
if(SCREE_ROCKSDB)
    if(NOT EXISTS ${SCREE_ROCKSDB}/librocksdb.a OR NOT EXISTS ${SCREE_ROCKSDB}/include/rocksdb/c.h)
        message(FATAL_ERROR "SCREE_ROCKSDB: ${SCREE_ROCKSDB} has no RocksDB; make it with: config/rocksdb ${SCREE_ROCKSDB}")
    endif()
    set(ROCKSDB ${SCREE_ROCKSDB}/librocksdb.a CACHE FILEPATH "the RocksDB library" FORCE)
    set(headers ${SCREE_ROCKSDB}/include)
else()
    find_library(ROCKSDB NAMES librocksdb.a rocksdb REQUIRED)
    find_path(ROCKSDB_HEADERS NAMES rocksdb/version.h REQUIRED)
    set(headers ${ROCKSDB_HEADERS})
endif()

set(ROCKSDB_VERSION "")
foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${headers}/rocksdb/version.h line REGEX "^#define ROCKSDB_${part} ")
    string(REGEX REPLACE "[^0-9]" "" number "${line}")
    list(APPEND ROCKSDB_VERSION ${number})
endforeach()
list(JOIN ROCKSDB_VERSION "." ROCKSDB_VERSION)

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ROCKSDB} ${headers}/rocksdb/version.h)

# A shared library has its symbols in the dynamic table.
if(ROCKSDB MATCHES "\\.so")
    set(symbols_of ${CMAKE_NM} -D)
else()
    set(symbols_of ${CMAKE_NM})
endif()
execute_process(COMMAND ${symbols_of} ${ROCKSDB} OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(ROCKSDB_ASSERTIONS off)
if(symbols MATCHES "U __assert_fail")
    set(ROCKSDB_ASSERTIONS on)
endif()
set(ROCKSDB_CRC32C software)
if(symbols MATCHES " [Tt] [A-Za-z0-9_]*(crc32c_3way|crc32c_arm64)")
    set(ROCKSDB_CRC32C hardware)
endif()
unset(symbols)

# Only for the files that use RocksDB, so that another library does not compile everything again.
function(rocksdb_headers target)
    if(SCREE_ROCKSDB)
        target_include_directories(${target} SYSTEM BEFORE PRIVATE ${SCREE_ROCKSDB}/include)
    endif()
endfunction()
message(STATUS "RocksDB ${ROCKSDB_VERSION}: ${ROCKSDB}, assertions ${ROCKSDB_ASSERTIONS}, CRC32C by ${ROCKSDB_CRC32C}")
