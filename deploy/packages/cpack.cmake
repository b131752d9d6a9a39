# `cpack` in a build folder makes the .deb, whose libraries are the distribution's, and the
# .tar.gz, which carries its own. The backend for AMD's cards is a package and an archive of its
# own.
install(FILES ${CMAKE_CURRENT_LIST_DIR}/assayd.toml DESTINATION /etc/assay COMPONENT debian EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME assay)
set(CPACK_PACKAGE_CONTACT "Assay's packagers <root@localhost>" CACHE STRING "maintainer of the packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_SYSTEM_NAME linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/generators.cmake)
if(TARGET assay_hip)
  set(CPACK_ASSAY_HIP ON)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_ASSAY_PACKAGE_NAME assay)
set(CPACK_DEBIAN_ASSAY_PACKAGE_SECTION science)
# The flavour of OpenBLAS the worker asks for; any would satisfy its soname. The unit reloads by
# procps' kill.
set(CPACK_DEBIAN_ASSAY_PACKAGE_DEPENDS "adduser, init-system-helpers, libopenblas0-openmp, procps")
set(CPACK_DEBIAN_ASSAY_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_ASSAY_PACKAGE_SUGGESTS "assay-hip, prometheus")
set(CPACK_DEBIAN_HIP_PACKAGE_NAME assay-hip)
set(CPACK_DEBIAN_HIP_PACKAGE_SECTION science)
set(CPACK_DEBIAN_HIP_PACKAGE_DEPENDS "assay (= ${PROJECT_VERSION})")
# Telemetry's.
set(CPACK_DEBIAN_HIP_PACKAGE_RECOMMENDS "librocm-smi64-1")
# The Python package runs beside any daemon, near or far.
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-assay)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), python3-grpcio, python3-numpy, python3-protobuf")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "assay, python3-pandas, python3-pytest")
list(APPEND CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/python/prerm)
if(TARGET assay_python)
  set(CPACK_ASSAY_PYTHON ON)
endif()
foreach(script postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_ASSAY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/${script})
endforeach()
list(APPEND CPACK_DEBIAN_ASSAY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/conffiles)

set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
include(CPack)
cpack_add_component(assay GROUP assay
  DESCRIPTION "Holds every element that a compute kernel wrote against an FP64 reference and a derived\nerror bound, and times kernels against measured ceilings: a daemon for every node, and\nits client.")
cpack_add_component(debian GROUP assay)
cpack_add_component(hip GROUP hip DESCRIPTION "The backend for AMD's cards, which needs AMD's runtime.")
cpack_add_component(bundle GROUP bundle)
cpack_add_component(python GROUP python
  DESCRIPTION "Judges arrays and compute kernels from Python with Assay's verdicts: assert_close, jobs,\na pytest plugin.")
