# SPDX-License-Identifier: MIT
# Read by cpack for each of its generators.
list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
if(CPACK_GENERATOR MATCHES "DEB|RPM")
  # With DESTDIR, as some files have absolute places.
  set(CPACK_SET_DESTDIR ON)
  set(CPACK_INSTALL_PREFIX /usr)
  set(CPACK_INSTALL_CMAKE_PROJECTS)
  if(CPACK_GENERATOR STREQUAL "DEB")
    set(components Unspecified system debian)
  else()
    set(components Unspecified system zsh)
  endif()
  foreach(component IN LISTS components)
    list(APPEND CPACK_INSTALL_CMAKE_PROJECTS ${build} klock ${component} /)
  endforeach()
endif()
