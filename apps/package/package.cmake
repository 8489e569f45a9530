# The package that cpack makes: programs with their man pages, configurations, the library and its headers.
option(NIXIE_PACKAGE "Make man pages, for cpack (wants help2man)" OFF)
if(NIXIE_PACKAGE)
  find_program(HELP2MAN help2man REQUIRED)
  set(man ${CMAKE_BINARY_DIR}/man)
  add_custom_command(
    OUTPUT ${man}/trainer.1
    COMMAND ${CMAKE_COMMAND} -DHELP2MAN=${HELP2MAN} -DBIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} -DOUT=${man} -DVERSION=${PROJECT_VERSION}
            -P ${PROJECT_SOURCE_DIR}/apps/package/man.cmake
    DEPENDS trainer benchmark explain apps/package/man.cmake)
  add_custom_target(man_pages ALL DEPENDS ${man}/trainer.1)
  install(DIRECTORY ${man}/ DESTINATION share/man/man1)
endif()

# The library of a second build for newer processors, in the folder where the loader looks first (presets package and
# package-v4, ./dev package).
if(EXISTS ${PROJECT_BINARY_DIR}-v4/libnixie.so)
  set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};nixie;ALL;/;${PROJECT_BINARY_DIR}-v4;nixie;hwcaps;/")
endif()

set(CPACK_PACKAGE_NAME nixie)
set(CPACK_PACKAGE_CONTACT "nixie's authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/apps/package/installed_size.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}) # libnixie.so itself
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, cmake, libfmt-dev") # what programs that use the library need besides
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3, openmpi-bin") # charts and pages of trainer benchmark; several ranks
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Trains neural networks from a YAML file or from C++, on CPUs and on NVIDIA GPUs,
 whose driver and CUDA libraries are found at run time.")
if(NOT NIXIE_NATIVE AND NIXIE_ARCH STREQUAL "x86-64-v3")
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/apps/package/preinst)
endif()
include(CPack)
