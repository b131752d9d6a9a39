# Copies what `programs` and `modules` need into `destination`, at install time. A
# library has its soname for a name: of that alone the loader asks.
list(FILTER modules INCLUDE REGEX ".")
foreach(module IN LISTS modules)
  if(NOT EXISTS "${module}")
    list(REMOVE_ITEM modules "${module}")  # not built, so not installed either
  endif()
endforeach()
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${programs}
  MODULES ${modules}
  RESOLVED_DEPENDENCIES_VAR found
  UNRESOLVED_DEPENDENCIES_VAR missing
  CONFLICTING_DEPENDENCIES_PREFIX conflict
  PRE_EXCLUDE_REGEXES
    "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util|nsl)\\.so" "^lib(stdc\\+\\+|gcc_s)\\.so"
    "^lib(cuda|nvidia-ml|amdhip64)\\.so")
if(missing)
  message(FATAL_ERROR "Libraries that the programs need were not found: ${missing}")
endif()
# Two folders with the same library: the first is the run path's, as for the loader.
foreach(name IN LISTS conflict_FILENAMES)
  list(GET conflict_${name} 0 first)
  list(APPEND found "${first}")
endforeach()
foreach(library IN LISTS found)
  get_filename_component(soname "${library}" NAME)
  file(REAL_PATH "${library}" file)
  file(INSTALL DESTINATION "${destination}" TYPE FILE FILES "${file}" RENAME "${soname}")
endforeach()
