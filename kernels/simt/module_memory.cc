#include "kernels/simt/module_memory.h"

#include <link.h>

#include <utility>

// The program's source defines it: kMostDynamicShared bytes.
extern "C" __thread char assay_simt_dynamic_shared[];

namespace assay::inline kernels::simt {
namespace {

struct Search {
  std::size_t dynamic_bytes;
  std::vector<Memory>& memory;
  Accesses& accesses;
};

Memory Piece(const char* name, char* begin, const char* end, bool of_block) {
  Memory memory;
  memory.name = name;
  memory.begin = begin;
  memory.bytes = static_cast<std::size_t>(end - begin);
  memory.of_block = of_block;
  return memory;
}

// The block's shared memory: what the launch asks for, and the arrays before and behind its place.
void AddShared(char* begin, std::size_t bytes, const Search& search) {
  char* const dynamic = assay_simt_dynamic_shared;
  const auto arrays = [&search, begin](char* from, const char* to) {
    Memory memory = Piece("the shared arrays", from, to, true);
    memory.is_library = true;
    memory.shared_offset = static_cast<std::size_t>(from - begin);
    search.memory.push_back(std::move(memory));
  };
  arrays(begin, dynamic);
  search.memory.push_back(
      Piece("dynamic shared memory", dynamic, dynamic + search.dynamic_bytes, true));
  arrays(dynamic + kMostDynamicShared, begin + bytes);
}

int Visit(dl_phdr_info* info, std::size_t, void* data) {
  const Search& search = *static_cast<Search*>(data);
  static const char marker = 0;
  bool own = false;
  const auto at = [info](const ElfW(Phdr) & segment) {
    return reinterpret_cast<char*>(info->dlpi_addr + segment.p_vaddr);
  };
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    own = own || (&marker >= at(segment) && &marker < at(segment) + segment.p_memsz);
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    char* const begin = at(segment);
    if (own && segment.p_type == PT_TLS) {
      AddShared(static_cast<char*>(info->dlpi_tls_data), segment.p_memsz, search);
    }
    if (segment.p_type != PT_LOAD) continue;
    if (own && (segment.p_flags & PF_W) != 0) {
      search.memory.push_back(Piece("the global variables", begin, begin + segment.p_memsz, false));
    } else {
      search.accesses.LetThrough(begin, begin + segment.p_memsz);
    }
  }
  return 0;
}

}  // namespace

void AddOwnMemory(std::size_t dynamic_bytes, std::vector<Memory>& memory, Accesses& accesses) {
  // The thread's copy exists from the first touch on.
  *const_cast<volatile char*>(&assay_simt_dynamic_shared[0]) = 0;
  Search search{dynamic_bytes, memory, accesses};
  dl_iterate_phdr(Visit, &search);
}

}  // namespace assay::kernels::simt
