// A kernel for gfx942 whose descriptor is an argument of the assembler: GRANTED registers and
// ARGUMENT_BYTES bytes of arguments. It uses v0 to v147.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.globl attention
	.p2align 8
	.type attention,@function
attention:
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_mov_b32 v1, 0
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_bf16 v[132:147], v[2:3], v[4:5], v[132:147]
	global_store_dword v1, v2, s[4:5]
	s_endpgm
.Lend:
	.size attention, .Lend-attention
	.rodata
	.p2align 6
	.amdhsa_kernel attention
		.amdhsa_group_segment_fixed_size 65536
		.amdhsa_kernarg_size ARGUMENT_BYTES
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr GRANTED
		.amdhsa_next_free_sgpr 16
		.amdhsa_accum_offset GRANTED
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: attention
    .symbol: attention.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 65536
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 48
    .agpr_count: 0
    .max_flat_workgroup_size: 256
    .args:
      - .size: 8
        .offset: 0
        .value_kind: global_buffer
        .address_space: global
...
	.end_amdgpu_metadata
