# Builds the HIP backend if hipcc is found. CMake's own HIP language does not work with Debian's
# layout. So commands compile the objects, and the host's compiler links them.
#
# Debian's hipcc is clang 15 and compiles for gfx90a. gfx942 needs clang 19. If clang 19 is found,
# it compiles for both into one bundle that HIP 5.2 loads. For that it makes code objects of version
# 4. One file of the device libraries is missing for that version, the one that tells a kernel its
# instruction set. It is made here.

# Built where AMD's driver is, and by the release preset.
set(amd_driver OFF)
if(EXISTS /dev/kfd)
  set(amd_driver ON)
endif()
option(ASSAY_HIP "Build the HIP backend if hipcc is found" ${amd_driver})
find_program(ASSAY_HIPCC hipcc)
if(NOT ASSAY_HIP OR ASSAY_SANITIZE OR NOT ASSAY_HIPCC)
  return()
endif()
set(ASSAY_HIP_TARGETS "" CACHE STRING "GPU architectures; empty: all that can be compiled for here")
find_program(ASSAY_HIP_CLANG clang++-19)
find_program(ASSAY_HIP_BUNDLER clang-offload-bundler-19)
find_program(ASSAY_HIP_LLD lld-19)
find_program(ASSAY_HIP_OBJCOPY NAMES llvm-objcopy llvm-objcopy-19 HINTS /usr/lib/llvm-19/bin)  # the bundler's
find_path(ASSAY_HIP_BITCODE ockl.bc PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/amdgcn/bitcode
  NO_DEFAULT_PATH)

# Lists the packages that gfx942 still needs. If none is missing, a folder gets the device
# libraries.
set(bitcode ${CMAKE_CURRENT_BINARY_DIR}/hip/bitcode)
set(without_newer "")
foreach(needed CLANG BUNDLER LLD OBJCOPY BITCODE)
  if(NOT ASSAY_HIP_${needed})
    list(APPEND without_newer ${needed})
  endif()
endforeach()
list(TRANSFORM without_newer REPLACE CLANG clang-19)
list(TRANSFORM without_newer REPLACE BUNDLER clang-tools-19)
list(TRANSFORM without_newer REPLACE LLD lld-19)
list(TRANSFORM without_newer REPLACE OBJCOPY llvm-19)
list(TRANSFORM without_newer REPLACE BITCODE rocm-device-libs)
if(NOT without_newer)
  file(MAKE_DIRECTORY ${bitcode})
  file(GLOB libraries ${ASSAY_HIP_BITCODE}/*.bc)
  foreach(library ${libraries})
    get_filename_component(name ${library} NAME)
    file(CREATE_LINK ${library} ${bitcode}/${name} SYMBOLIC)
  endforeach()
  file(WRITE ${bitcode}/isa_version.cl "const __constant int __oclc_ISA_version = 9402;\n")
  execute_process(
    COMMAND ${ASSAY_HIP_CLANG} -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -nogpulib -mcode-object-version=4
      -emit-llvm -c isa_version.cl -o oclc_isa_version_942.bc
    WORKING_DIRECTORY ${bitcode} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
  if(failed)
    string(STRIP "${said}" said)
    set(without_newer "a clang-19 that compiles for amdgcn (${said})")
  endif()
endif()

set(architectures ${ASSAY_HIP_TARGETS})
if(NOT architectures AND without_newer)
  string(REPLACE ";" ", " without_newer "${without_newer}")
  message(STATUS "HIP: gfx90a alone; gfx942 wants ${without_newer} too (deploy/setup hip)")
  set(architectures gfx90a)
elseif(NOT architectures)
  set(architectures gfx90a gfx942)
endif()
set(hip_flags -std=c++20 -O3 -fPIC -fvisibility=hidden -I${PROJECT_SOURCE_DIR})
if(without_newer)
  set(hip_compiler ${ASSAY_HIPCC})
else()
  # The flags are those that hipcc passes to its clang.
  set(hip_compiler ${ASSAY_HIP_CLANG})
  list(APPEND hip_flags --rocm-path=/usr --rocm-device-lib-path=${bitcode} -mcode-object-version=4
    -mllvm -amdgpu-early-inline-all=true -mllvm -amdgpu-function-calls=false)
endif()
foreach(architecture ${architectures})
  list(APPEND hip_flags --offload-arch=${architecture})
endforeach()
string(REPLACE ";" ", " text "${architectures}")
message(STATUS "HIP: ${text}, by ${hip_compiler}")

set(launcher "")
if(CCACHE)  # ccache cannot tell from hipcc's name that it is clang
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_COMPILERTYPE=clang ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
set(objects "")
foreach(source ${ASSAY_GPU_KERNELS})
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/hip/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/hip
    COMMAND ${launcher} ${hip_compiler} ${hip_flags} -MD -MF ${object}.d -x hip -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "HIP ${name}" VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  list(APPEND objects ${object})
endforeach()
find_library(AMDHIP64 amdhip64 REQUIRED)
assay_gpu_backend(hip "${architectures}" ${objects} vendors_hip.cc)
target_link_libraries(assay_hip PRIVATE assay_provider_rocblas ${AMDHIP64})
