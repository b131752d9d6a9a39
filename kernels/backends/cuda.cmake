# Builds the CUDA backend if nvcc is found. CMake 3.25 does not know nvcc's flag for C++20, so it is
# named here.
option(ASSAY_CUDA "Build the CUDA backend where nvcc is found" ON)
find_program(ASSAY_NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_PATH PATH_SUFFIXES bin)
if(NOT ASSAY_CUDA OR ASSAY_SANITIZE)
  return()
endif()
if(NOT ASSAY_NVCC)
  message(STATUS "CUDA: none, for there is no nvcc in PATH, CUDA_PATH or /usr/local/cuda")
  return()
endif()
# The architectures of this machine's cards, from sm_80 on. Without such a card it is Hopper's. The
# release preset has all.
set(here "")
execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
  OUTPUT_VARIABLE cards ERROR_QUIET RESULT_VARIABLE no_card)
if(no_card EQUAL 0)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" cards "${cards}")
  foreach(card IN LISTS cards)
    string(REPLACE "." "" card ${card})
    if(NOT card LESS 80)
      list(APPEND here ${card})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES here)
  list(SORT here COMPARE NATURAL)
endif()
if(NOT here)
  set(here 90)
endif()
set(ASSAY_CUDA_ARCHITECTURES "${here}" CACHE STRING "GPU architectures, as sm_<number>; default: this machine's cards")
get_filename_component(cuda_root ${ASSAY_NVCC} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)

set(nvcc_flags -std=c++20 --expt-relaxed-constexpr -O3 -Werror cross-execution-space-call
  -I${PROJECT_SOURCE_DIR}
  -Xcompiler=-fPIC,-fvisibility=hidden)
# Compression fits several architectures into a third of the space. Toolkits before 12.4 cannot
# compress.
execute_process(COMMAND ${ASSAY_NVCC} --help OUTPUT_VARIABLE nvcc_help ERROR_QUIET)
if(nvcc_help MATCHES "--compress-mode")
  list(APPEND nvcc_flags --compress-mode=size)
endif()
set(architectures "")
foreach(architecture ${ASSAY_CUDA_ARCHITECTURES})
  list(APPEND architectures sm_${architecture})
  list(APPEND nvcc_flags -gencode=arch=compute_${architecture},code=sm_${architecture})
endforeach()
# A newer card compiles the intermediate code of the last architecture when it loads it.
list(GET ASSAY_CUDA_ARCHITECTURES -1 newest)
list(APPEND nvcc_flags -gencode=arch=compute_${newest},code=compute_${newest})
list(APPEND architectures compute_${newest})

set(objects "")
foreach(source ${ASSAY_GPU_KERNELS})
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/cuda
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${ASSAY_NVCC} ${nvcc_flags} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "CUDA ${name}" VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  list(APPEND objects ${object})
endforeach()
string(REPLACE ";" ", " text "${architectures}")
message(STATUS "CUDA: ${text}, by ${ASSAY_NVCC}")
assay_gpu_backend(cuda "${architectures}" ${objects} vendors_cuda.cc)
target_link_libraries(assay_cuda PRIVATE assay_provider_cublaslt assay_provider_cudnn
  ${cuda_root}/lib64/libcudart_static.a ${CMAKE_DL_LIBS} rt Threads::Threads)
