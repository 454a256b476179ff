package simd

//go:generate go -C ../../../tools/kernels run . -out ../../internal/vector/simd/simd_amd64.s -stubs ../../internal/vector/simd/simd_amd64.go -pkg simd
