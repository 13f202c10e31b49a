# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# find_package(mm) defines MM_NVCC, the mmnvcc of this installation (a value for CMAKE_CUDA_COMPILER, before CUDA is enabled), and
# mm::mm, for programs whose last link is not done by mmnvcc. All paths follow from the location of this file. mmhook.o holds the path at
# which libmm.so.1 was installed; if this is a copy elsewhere, mm::mm also adds a run path.
# A project that compiles CUDA by another compiler must not link mm::mm: its kernels would silently keep CUDA's malloc.
get_filename_component(_mm_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(MM_NVCC "${_mm_prefix}/bin/mmnvcc")
foreach(_mm_file bin/mmnvcc lib/mm/mmhook.o lib/mm/libmmshared.a lib/mm/libmm.so.1 lib/mm/include/mm.h)
    if(NOT EXISTS "${_mm_prefix}/${_mm_file}")
        set(mm_FOUND FALSE)
        set(mm_NOT_FOUND_MESSAGE "'${_mm_prefix}/${_mm_file}' is not there")
        return()
    endif()
endforeach()
if(NOT TARGET mm::mm)
    add_library(mm::mm INTERFACE IMPORTED)
    # dlopen is in libdl before glibc 2.34.
    set_target_properties(mm::mm PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_mm_prefix}/lib/mm/include"
        INTERFACE_LINK_LIBRARIES "${_mm_prefix}/lib/mm/mmhook.o;${_mm_prefix}/lib/mm/libmmshared.a;dl")
    file(STRINGS "${_mm_prefix}/lib/mm/mmhook.o" _mm_file REGEX "^mm's run time: ")
    if(NOT _mm_file STREQUAL "mm's run time: ${_mm_prefix}/lib/mm/libmm.so.1")
        set_target_properties(mm::mm PROPERTIES INTERFACE_LINK_OPTIONS "LINKER:-rpath,${_mm_prefix}/lib/mm")
    endif()
endif()

# Checks that the CUDA compiler is an mmnvcc under any name, or an nvcc in a toolkit view. Called once more at the end of the folder, because
# CUDA may be enabled after find_package(mm).
function(_mm_look_at_cuda_compiler)
    get_filename_component(folder "${CMAKE_CUDA_COMPILER}" DIRECTORY)
    if(NOT CMAKE_CUDA_COMPILER OR EXISTS "${folder}/../mm-view")
        return()
    endif()
    execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --mm-version OUTPUT_VARIABLE said ERROR_QUIET)
    if(said MATCHES "^mmnvcc")
        return()
    endif()
    get_property(warned GLOBAL PROPERTY _mm_warned)
    if(NOT warned)
        message(WARNING "mm: the CUDA compiler is ${CMAKE_CUDA_COMPILER}, whose kernels keep CUDA's malloc: configure a fresh build folder with -DCMAKE_CUDA_COMPILER=${MM_NVCC}; "
            "what links mm::mm is refused until then")
    endif()
    set_property(GLOBAL PROPERTY _mm_warned TRUE)
    # CMake refuses to generate a target that links a name with :: that is no target, and prints the name. This name is the instruction to the user.
    set_property(TARGET mm::mm APPEND PROPERTY INTERFACE_LINK_LIBRARIES "mm::wants -DCMAKE_CUDA_COMPILER=${MM_NVCC}")
endfunction()
_mm_look_at_cuda_compiler()
if(NOT CMAKE_VERSION VERSION_LESS 3.19 AND NOT CMAKE_CUDA_COMPILER)
    cmake_language(DEFER CALL _mm_look_at_cuda_compiler)
endif()
unset(_mm_file)
unset(_mm_prefix)
