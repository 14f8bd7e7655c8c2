# Debian packages: `cpack --config BUILD/CPackConfig.cmake` in a Release build makes five .deb files.
#
#   scree-common   the user scree, /etc/scree, the shard map and cluster secret that both programs of one machine share,
#                  alert rules, dashboard and scrape configuration for Prometheus and Grafana
#     ▲  ▲
#     │  └ scree-proxy     program, unit, proxy.ini, users.acl, manual
#     └─── scree-backend   program, unit, backend.ini, manual
#
#   scree-copy     program and manual, on any machine
#   scree-tools    scree-copy-keys, scree-from-nutcracker, scree-restore-slots and scree-support-bundle, in Python, on any machine;
#                  scree-push with its units, on those of backends
#
# Files come from config/packages/; what maintainer scripts do is in config/packages/debian/NAME.{postinst,prerm,postrm}.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # programs that are not packaged need not be built
set(package_stage ${CMAKE_BINARY_DIR}/packages)

# NAME.8.gz, changelog.Debian.gz: compressed without names and times, so that the same sources make the same packages.
function(package_gzip source target)
    file(MAKE_DIRECTORY ${package_stage})
    execute_process(COMMAND gzip -9nc ${source} OUTPUT_FILE ${package_stage}/${target} COMMAND_ERROR_IS_FATAL ANY)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
endfunction()

configure_file(config/packages/debian/changelog.in ${package_stage}/changelog @ONLY)
package_gzip(${package_stage}/changelog changelog.Debian.gz)
foreach(name scree-common scree-proxy scree-backend scree-copy scree-tools)
    install(FILES ${package_stage}/changelog.Debian.gz DESTINATION share/doc/${name} COMPONENT ${name})
    install(FILES config/packages/debian/copyright DESTINATION share/doc/${name} COMPONENT ${name})
    foreach(script preinst postinst prerm postrm)
        if(EXISTS ${PROJECT_SOURCE_DIR}/config/packages/debian/${name}.${script})
            configure_file(config/packages/debian/${name}.${script} ${package_stage}/${name}/${script}
                COPYONLY FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
            list(APPEND ${name}_control ${package_stage}/${name}/${script})
        endif()
    endforeach()
endforeach()
foreach(name scree-proxy scree-backend scree-copy)
    string(JOIN " " command "\"${CMAKE_COMMAND}\"" "\"-DPROGRAM=$<TARGET_FILE:${name}>\""
        "\"-DPAGE=${PROJECT_SOURCE_DIR}/config/packages/man/${name}.8\"" "\"-DTO=${package_stage}/${name}.8\""
        -P "\"${PROJECT_SOURCE_DIR}/config/packages/manual.cmake\"")
    install(CODE "execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${name})
    install(FILES ${package_stage}/${name}.8.gz DESTINATION share/man/man8 COMPONENT ${name})
endforeach()
foreach(name scree-proxy scree-backend)
    install(FILES config/packages/systemd/${name}.service DESTINATION lib/systemd/system COMPONENT ${name})
endforeach()
install(FILES config/packages/etc/shards.ini DESTINATION /etc/scree COMPONENT scree-common)
install(FILES config/packages/default/scree DESTINATION /etc/default COMPONENT scree-common)
install(FILES k8s/monitoring/rules.yaml k8s/monitoring/dashboard.json k8s/monitoring/scrape.yaml
    DESTINATION share/scree/monitoring COMPONENT scree-common)
install(FILES config/packages/etc/proxy.ini DESTINATION /etc/scree COMPONENT scree-proxy)
install(FILES config/packages/etc/users.acl DESTINATION /etc/scree COMPONENT scree-proxy
    PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ)
install(FILES config/packages/etc/backend.ini DESTINATION /etc/scree COMPONENT scree-backend)
foreach(tool copy-keys from-nutcracker push restore-slots support-bundle)
    install(PROGRAMS config/${tool} RENAME scree-${tool} DESTINATION bin COMPONENT scree-tools)
endforeach()
install(DIRECTORY config/packages/systemd/ DESTINATION lib/systemd/system COMPONENT scree-tools FILES_MATCHING PATTERN "scree-push@*")
install(FILES config/packages/etc/push.env DESTINATION /etc/scree COMPONENT scree-tools PERMISSIONS OWNER_READ OWNER_WRITE)
install(FILES README.md DESTINATION share/doc/scree-common COMPONENT scree-common)
install(DIRECTORY docs/ DESTINATION share/doc/scree-common/docs COMPONENT scree-common FILES_MATCHING PATTERN "*.md")

file(WRITE ${package_stage}/scree-common/conffiles "/etc/default/scree\n/etc/scree/shards.ini\n")
file(WRITE ${package_stage}/scree-proxy/conffiles "/etc/scree/proxy.ini\n/etc/scree/users.acl\n")
file(WRITE ${package_stage}/scree-backend/conffiles "/etc/scree/backend.ini\n")
file(WRITE ${package_stage}/scree-tools/conffiles "/etc/scree/push.env\n")
foreach(name scree-common scree-proxy scree-backend scree-tools)
    list(APPEND ${name}_control ${package_stage}/${name}/conffiles)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME scree)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Scree authors <scree@localhost>")
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL scree-common scree-proxy scree-backend scree-copy scree-tools)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(name common proxy backend copy tools)
    string(TOUPPER SCREE-${name} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME scree-${name})
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${scree-${name}_control}")
endforeach()
set(CPACK_DEBIAN_SCREE-COMMON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_SCREE-COMMON_PACKAGE_DEPENDS adduser)
set(CPACK_COMPONENT_SCREE-COMMON_DESCRIPTION "storage behind the Redis protocol: common files
The user, the configuration and the documents that scree-proxy and
scree-backend share, and rules and a dashboard for their metrics.")
set(CPACK_DEBIAN_SCREE-COPY_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_SCREE-COPY_DESCRIPTION "storage behind the Redis protocol: moving in from RDB files
Copies an RDB file of Redis or Valkey into Scree: all types, functions and
times to live. It says first what is wrong, and compares afterwards.")
set(CPACK_DEBIAN_SCREE-TOOLS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_SCREE-TOOLS_PACKAGE_DEPENDS "python3, python3-redis, python3-yaml")
set(CPACK_DEBIAN_SCREE-TOOLS_PACKAGE_SUGGESTS "rclone, scree-backend")
set(CPACK_COMPONENT_SCREE-TOOLS_DESCRIPTION "storage behind the Redis protocol: tools for moving there
scree-copy-keys copies every key of Redis or Valkey servers with its time to
live; scree-from-nutcracker makes the files of scree-proxy of a nutcracker.yml;
scree-restore-slots restores some slots of a backup into a running cluster;
scree-push copies backups and the archive to an object store with rclone;
scree-support-bundle collects what is needed to find a fault.")
set(CPACK_COMPONENT_SCREE-PROXY_DESCRIPTION "storage behind the Redis protocol: sharding proxy
One endpoint that behaves like one Redis; the keys are on many partitions of
scree-backend. Proxies hold no data: run any number of them side by side.")
set(CPACK_COMPONENT_SCREE-BACKEND_DESCRIPTION "storage behind the Redis protocol: storage server
Partitions, each a RocksDB store with one executing thread, that answer
Redis' commands from disk: what was acknowledged survives power loss.")
foreach(name PROXY BACKEND)
    set(CPACK_DEBIAN_SCREE-${name}_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_SCREE-${name}_PACKAGE_DEPENDS "scree-common (>= ${PROJECT_VERSION})")
endforeach()
include(CPack)
