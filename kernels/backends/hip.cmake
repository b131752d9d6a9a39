# The HIP backend, where hipcc is found. CMake's own HIP language does not work with
# Debian's layout, so hipcc makes the objects and the host's compiler links them.
option(ASSAY_HIP "Build the HIP backend where hipcc is found" ON)
find_program(ASSAY_HIPCC hipcc)
if(NOT ASSAY_HIP OR ASSAY_SANITIZE OR NOT ASSAY_HIPCC)
  return()
endif()
set(ASSAY_HIP_ARCHITECTURES "gfx90a" CACHE STRING "GPU architectures")

set(hipcc_flags -std=c++20 -O3 -fPIC -fvisibility=hidden -I${PROJECT_SOURCE_DIR})
foreach(architecture ${ASSAY_HIP_ARCHITECTURES})
  list(APPEND hipcc_flags --offload-arch=${architecture})
endforeach()
set(launcher "")
if(CCACHE)  # which cannot tell from hipcc's name that it is clang
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_COMPILERTYPE=clang ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
set(objects "")
foreach(source ${ASSAY_GPU_KERNELS})
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/hip/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/hip
    COMMAND ${launcher} ${ASSAY_HIPCC} ${hipcc_flags} -MD -MF ${object}.d -x hip -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "HIP ${name}" VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  list(APPEND objects ${object})
endforeach()
find_library(AMDHIP64 amdhip64 REQUIRED)
assay_gpu_backend(hip ${objects} vendors_hip.cc)
target_link_libraries(assay_hip PRIVATE assay_provider_rocblas ${AMDHIP64})
