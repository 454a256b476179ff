package peak

//go:generate go -C ../../../tools/kernels run ./peak -out ../../internal/vector/peak/peak_amd64.s -stubs ../../internal/vector/peak/peak_amd64.go -pkg peak
