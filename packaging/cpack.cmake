# SPDX-License-Identifier: MIT
# Packages of the release preset: cpack --config build/release/CPackConfig.cmake -G DEB (also: RPM, TGZ) -B DIRECTORY.
# The tarball has what `cmake --install` installs; DEB and RPM also the components below, which name places on the system.
set(packaging ${CMAKE_CURRENT_LIST_DIR})
set(packed ${PROJECT_BINARY_DIR}/packaging)

# klock_packed(SOURCE TARGET): the file as `gzip -9n` leaves it, the same from each build.
set(packed_files)
function(klock_packed source target)
  add_custom_command(OUTPUT ${packed}/${target} COMMAND gzip -9nc ${source} > ${packed}/${target} DEPENDS ${source} VERBATIM)
  set(packed_files ${packed_files} ${packed}/${target} PARENT_SCOPE)
endfunction()

# Debian wants an entry for each version that it packages; what changed is told in changelog.gz.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(maintainer "The klock authors <klock@example.org>")
file(CONFIGURE OUTPUT ${packed}/changelog.Debian CONTENT "klock (@PROJECT_VERSION@-1) stable; urgency=medium

  * Version @PROJECT_VERSION@: see changelog.gz.

 -- @maintainer@  @now@
" @ONLY)

file(MAKE_DIRECTORY ${packed})
# A page with several names is a file under the first, and one that refers to it under each of the others.
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*.[0-9])
foreach(page ${pages})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  get_filename_component(file ${page} NAME)
  string(REGEX MATCH "[0-9]$" section ${file})
  klock_packed(${page} ${file}.gz)
  list(APPEND pages_of_${section} ${packed}/${file}.gz)
  file(STRINGS ${page} names REGEX "^\\.Nm klock-")
  list(TRANSFORM names REPLACE "^\\.Nm (klock-[a-z-]+).*" "\\1.${section}")
  list(REMOVE_ITEM names ${file})
  foreach(name ${names})
    file(CONFIGURE OUTPUT ${packed}/${name} CONTENT ".so man${section}/${file}\n")
    klock_packed(${packed}/${name} ${name}.gz)
    list(APPEND pages_of_${section} ${packed}/${name}.gz)
  endforeach()
endforeach()
klock_packed(${PROJECT_SOURCE_DIR}/CHANGELOG.md changelog.gz)
klock_packed(${packed}/changelog.Debian changelog.Debian.gz)
add_custom_target(packed ALL DEPENDS ${packed_files})

install(FILES ${pages_of_1} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages_of_7} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
install(DIRECTORY ${packaging}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/klock)
install(FILES ${packaging}/copyright ${packed}/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/klock)
install(FILES ${packaging}/klock.toml DESTINATION /etc/klock COMPONENT system EXCLUDE_FROM_ALL)
install(FILES ${packaging}/tmpfiles.conf DESTINATION /usr/lib/tmpfiles.d RENAME klock.conf COMPONENT system EXCLUDE_FROM_ALL)
install(FILES ${packed}/changelog.Debian.gz DESTINATION /usr/share/doc/klock COMPONENT debian EXCLUDE_FROM_ALL)
# Debian leaves the directory of the others to its administrators.
install(FILES ${PROJECT_SOURCE_DIR}/completions/_klock DESTINATION /usr/share/zsh/vendor-completions
        COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${packaging}/debian/lintian-overrides DESTINATION /usr/share/lintian/overrides RENAME klock
        COMPONENT debian EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME klock)
set(CPACK_PACKAGE_VENDOR "The klock authors")
set(CPACK_PACKAGE_CONTACT "${maintainer}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run a command under a named lock that holds across machines")
set(CPACK_PACKAGE_DESCRIPTION "klock takes a lock, runs a command, keeps the lease alive while it runs, and
releases when it ends. Locks live on this host, or in Redis or Valkey: one
server, Sentinels, a Cluster, or a majority of independent servers.
.
If the lease is lost the command is stopped before anybody else gets the lock.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
string(TOLOWER "klock-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" CPACK_ARCHIVE_FILE_NAME)
set(CPACK_PROJECT_CONFIG_FILE ${packaging}/cpack-generator.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "redis-server | valkey-server")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${packaging}/debian/conffiles ${packaging}/debian/postinst ${packaging}/debian/postrm)

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_PACKAGE_GROUP "Applications/System")
string(REPLACE "\n.\n" "\n\n" CPACK_RPM_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_RPM_PACKAGE_AUTOREQ OFF)
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none")
# Without a word of ours cpack calls each file with an absolute place a configuration file.
set(CPACK_RPM_USER_FILELIST "%config(noreplace) /etc/klock/klock.toml" "%attr(644,root,root) /usr/lib/tmpfiles.d/klock.conf")
set(CPACK_RPM_POST_INSTALL_SCRIPT_FILE ${packaging}/rpm-post)
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /etc /usr/lib/tmpfiles.d /usr/share/man /usr/share/man/man1
    /usr/share/man/man7 /usr/share/bash-completion
    /usr/share/bash-completion/completions /usr/share/fish /usr/share/fish/vendor_completions.d /usr/share/zsh
    /usr/share/zsh/site-functions)
include(CPack)
