# Puts the package's source tree together: its own files, and the stubs that protoc writes.
#
# protoc imports one generated file from another by the path of its .proto, `from assay.v1 import`.
# In the package they lie in one folder, assay/_wire, and import one another from there. What an
# error carries (google.rpc) gets names of its own: another library of the same process may bring
# those messages too, and protobuf takes a name only once.
set(WORK ${TREE}/generating)
set(WIRE ${TREE}/assay/_wire)
file(REMOVE_RECURSE ${WORK} ${TREE}/assay ${TREE}/build)
file(MAKE_DIRECTORY ${WORK}/python ${WIRE})
file(COPY ${FILES} DESTINATION ${TREE}/assay)
file(COPY ${PACKING} DESTINATION ${TREE})
file(COPY ${PROTO}/assay/v1 DESTINATION ${WORK}/proto/assay)
foreach(name status error_details)
  file(READ ${PROTO}/google/rpc/${name}.proto text)
  string(REPLACE "package google.rpc;" "package assay.rpc;" text "${text}")
  file(WRITE ${WORK}/proto/assay/rpc/${name}.proto "${text}")
endforeach()

file(GLOB protos ${WORK}/proto/assay/v1/*.proto ${WORK}/proto/assay/rpc/*.proto)
set(python ${WORK}/python)
execute_process(COMMAND ${PROTOC} -I${WORK}/proto --python_out=${python} --pyi_out=${python} ${protos}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROTOC} -I${WORK}/proto --plugin=protoc-gen-grpc=${PLUGIN} --grpc_out=${python}
  ${WORK}/proto/assay/v1/service.proto COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE stubs ${python}/*.py ${python}/*.pyi)
foreach(stub IN LISTS stubs)
  get_filename_component(name ${stub} NAME)
  file(READ ${stub} text)
  string(REPLACE "from assay.v1 import" "from . import" text "${text}")
  string(REGEX REPLACE "'assay\\.[a-z0-9]+\\.([a-z_]+_pb2)'" "'assay._wire.\\1'" text "${text}")  # for pickle
  file(WRITE ${WIRE}/${name} "${text}")
endforeach()
file(WRITE ${WIRE}/__init__.py "# Generated: the API's messages and stubs, and the version of the package.\nVERSION = \"${VERSION}\"\n")
file(REMOVE_RECURSE ${WORK})
