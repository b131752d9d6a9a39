# Manual pages and completions, made of the help of the programs being installed.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "python3 not found: neither manual pages nor completions are installed")
  return()
endif()
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
install(CODE "
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/generate.py --assay $<TARGET_FILE:assay> --assayd $<TARGET_FILE:assayd>
    --version ${PROJECT_VERSION} --output ${generated} COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT assay)
install(DIRECTORY ${generated}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
install(DIRECTORY ${generated}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
install(DIRECTORY ${generated}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions OPTIONAL)
install(DIRECTORY ${generated}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
