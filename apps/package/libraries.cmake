# Makes targets of the libraries that bring no CMake package. The build and the installed nixieConfig.cmake include this file, so
# that each finds them on its own machine and no exported target holds a path.
set(nixie_cuda_roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)

# nixie_find_library(target name [REQUIRED]) makes nixie::target of the library's file, if it is found.
function(nixie_find_library target name)
  find_library(NIXIE_LIBRARY_${target} ${name} PATH_SUFFIXES lib64 lib lib/x64 targets/x86_64-linux/lib
               HINTS ${nixie_cuda_roots} ${ARGN})
  if(NIXIE_LIBRARY_${target} AND NOT TARGET nixie::${target})
    add_library(nixie::${target} UNKNOWN IMPORTED)
    set_target_properties(nixie::${target} PROPERTIES IMPORTED_LOCATION ${NIXIE_LIBRARY_${target}})
  endif()
endfunction()
