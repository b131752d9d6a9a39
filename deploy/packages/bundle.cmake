# The component `bundle`: shared libraries that the programs and the CUDA backend need,
# into lib/assay under their sonames. Left to the machine that runs the tree:
#   - glibc, and with it the loader;
#   - libstdc++ and libgcc_s, of which every distribution with a newer glibc has a newer
#     one, and of which a vendor's library may need it;
#   - the driver's libraries, and HIP's runtime, which has to match the driver.
set(bundle_programs "")
foreach(target assay assayd assay-worker assay-runner assay-telemetry)
  list(APPEND bundle_programs $<TARGET_FILE:${target}>)
endforeach()
set(bundle_modules "")
if(TARGET assay_cuda)
  list(APPEND bundle_modules $<TARGET_FILE:assay_cuda>)
endif()
set(bundle_from_all EXCLUDE_FROM_ALL)
if(ASSAY_BUNDLE AND NOT ASSAY_SANITIZE)
  set(bundle_from_all "")
endif()

install(CODE "
  set(programs \"${bundle_programs}\")
  set(modules \"${bundle_modules}\")
  set(destination \"\${CMAKE_INSTALL_PREFIX}/lib/assay\")
  set(CMAKE_GET_RUNTIME_DEPENDENCIES_PLATFORM linux+elf)
  include(\"${CMAKE_CURRENT_LIST_DIR}/install_bundle.cmake\")"
  COMPONENT bundle ${bundle_from_all})
