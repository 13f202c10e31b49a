# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# find_package(mm): MM_NVCC, the mmnvcc of this installation (for CMAKE_CUDA_COMPILER, before CUDA is enabled), and
# mm::mm, for programs whose last link is not done by mmnvcc. Computed from where this file is; but in mm::mm is the
# path of libmm.so.1 as it was installed (a program that does not find it there needs mmrun).
get_filename_component(_mm_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(MM_NVCC "${_mm_prefix}/bin/mmnvcc")
foreach(_mm_file bin/mmnvcc lib/mm/mmhook.o lib/mm/libmm.a lib/mm/libmm.so.1 lib/mm/include/mm.h)
    if(NOT EXISTS "${_mm_prefix}/${_mm_file}")
        set(mm_FOUND FALSE)
        set(mm_NOT_FOUND_MESSAGE "'${_mm_prefix}/${_mm_file}' is not there")
    endif()
endforeach()
if(NOT TARGET mm::mm)
    add_library(mm::mm INTERFACE IMPORTED)
    # dlopen is in libdl before glibc 2.34.
    set_target_properties(mm::mm PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_mm_prefix}/lib/mm/include"
        INTERFACE_LINK_LIBRARIES "${_mm_prefix}/lib/mm/mmhook.o;${_mm_prefix}/lib/mm/libmm.a;dl")
endif()
unset(_mm_file)
unset(_mm_prefix)
